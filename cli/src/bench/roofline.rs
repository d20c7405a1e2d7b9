use hopwise::backend::{Device, DeviceKind, Tensor};
use kuva::{
    backend::svg::SvgBackend,
    plot::{LinePlot, ScatterPlot},
    render::{layout::Layout, plots::Plot, render::render_multiple},
};

use super::measure::{Budget, normal};
use crate::failure::Failure;

/// What bounds everything on a device.
#[derive(Debug)]
pub(super) struct Roof {
    backend: String,
    /// Bytes a second of a copy.
    copy: f64,
    /// Operations a second of a dense product.
    product: f64,
}

/// A measurement.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) device: String,
    pub(super) op: String,
    pub(super) operations: f64,
    pub(super) bytes: f64,
    pub(super) seconds: f64,
}

const COLORS: [&str; 8] =
    ["steelblue", "darkorange", "seagreen", "crimson", "mediumpurple", "sienna", "deeppink", "darkcyan"];

impl Roof {
    pub(super) fn measure(device: &Device, copy: f64, budget: Budget) -> Result<Self, Failure> {
        // Enough to fill a GPU; a processor has less time.
        let side = if device.info().kind == DeviceKind::Cpu { 512 } else { 2_048 };
        let matrix = |seed| Tensor::from_matrix(device, &normal(side, side, seed), "factor");
        let (a, b) = (matrix(1)?, matrix(2)?);
        let tape = hopwise::ops::Tape::inference(device);
        let (a, b) = (tape.constant(&a), tape.constant(&b));
        let ms = budget.median_ms(device, || {
            hopwise::ops::linear(&tape, &a, &b, None)?;
            Ok(())
        })?;
        let product = 2.0 * (side as f64).powi(3) / (ms / 1e3);
        Ok(Self { backend: device.info().backend.into(), copy, product })
    }
}

/// Draws operations a second over operations a byte, on logarithmic scales: the roof of each device is a line that rises
/// with what its memory gives and ends at what a dense product reaches. Points above it have bytes from caches.
pub(super) fn draw(roofs: &[Roof], points: &[Point]) -> String {
    let intensities = points.iter().map(|p| p.operations / p.bytes);
    let (low, high) = intensities.fold((0.1, 1.0), |(low, high): (f64, f64), i| (low.min(i), high.max(i)));
    let mut plots = Vec::new();
    for (roof, color) in roofs.iter().zip(["black", "dimgray", "darkgray"].iter().cycle()) {
        let ridge = roof.product / roof.copy;
        let ends = [low / 2.0, ridge.max(low), (4.0 * ridge).max(2.0 * high)];
        let line = ends.map(|x| (x, (x * roof.copy).min(roof.product) / 1e9));
        plots.push(Plot::Line(
            LinePlot::new().with_data(line).with_color(*color).with_legend(format!("{} roof", roof.backend)),
        ));
    }
    let mut series: Vec<String> = points.iter().map(|p| format!("{}: {}", p.device, p.op)).collect();
    series.dedup();
    series.sort();
    series.dedup();
    for (name, color) in series.iter().zip(COLORS.iter().cycle()) {
        let of_series = points.iter().filter(|p| *name == format!("{}: {}", p.device, p.op));
        let data: Vec<(f64, f64)> =
            of_series.map(|p| (p.operations / p.bytes, p.operations / p.seconds / 1e9)).collect();
        plots.push(Plot::Scatter(ScatterPlot::new().with_data(data).with_color(*color).with_legend(name.clone())));
    }
    let layout = Layout::auto_from_plots(&plots)
        .with_log_scale()
        .with_title("operations and what bounds them")
        .with_x_label("operations a byte")
        .with_y_label("billion operations a second");
    SvgBackend.render_scene(&render_multiple(plots, layout))
}
