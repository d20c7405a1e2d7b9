use std::path::Path;

use kuva::{
    backend::svg::SvgBackend,
    plot::LinePlot,
    render::{layout::Layout, plots::Plot, render::render_twin_y},
};

use crate::{failure::Failure, output};

/// Draws the loss of every epoch and the accuracies that were measured, `(epoch, accuracy)`, into an SVG file.
pub(crate) fn training_curve(
    path: &Path,
    title: &str,
    losses: &[f32],
    accuracies: &[(u32, f64)],
) -> Result<(), Failure> {
    let points = losses.iter().enumerate().map(|(i, &loss)| (i as f64 + 1.0, f64::from(loss)));
    let loss = LinePlot::new().with_data(points).with_color("steelblue").with_legend("training loss");
    let points = accuracies.iter().map(|&(epoch, accuracy)| (f64::from(epoch), accuracy));
    let accuracy = LinePlot::new().with_data(points).with_color("darkorange").with_legend("validation accuracy");
    let (primary, secondary) = (vec![Plot::Line(loss)], vec![Plot::Line(accuracy)]);
    let layout = Layout::auto_from_twin_y_plots(&primary, &secondary)
        .with_title(title)
        .with_x_label("epoch")
        .with_y_label("training loss")
        .with_y2_label("validation accuracy");
    let svg = SvgBackend.render_scene(&render_twin_y(primary, secondary, layout));
    output::write_file(path, svg.as_bytes())
}
