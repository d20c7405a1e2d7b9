use std::{fmt::Write, path::Path};

use serde::{Deserialize, Serialize};

use hopwise::backend::Device;

use super::{
    measure::Budget,
    roofline::{self, Point, Roof},
    work::{Pass, Work},
};
use crate::{failure::Failure, setup::Reorder};

/// One measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Row {
    op: String,
    pass: String,
    backend: String,
    device: String,
    graph: String,
    /// In which order the nodes are; earlier runs had their own.
    #[serde(default = "own_order")]
    order: String,
    heads: usize,
    /// Features of a head.
    width: usize,
    dtype: String,
    /// Median time of one run.
    ms: f64,
    /// See [`Work::bytes`].
    bytes: f64,
    /// Additions, multiplications and comparisons, see [`Work::operations`].
    #[serde(default)]
    operations: f64,
    gb_per_s: f64,
    /// Of the copy measured in the same run.
    copy_share: f64,
    peak_bytes: u64,
}

impl Row {
    pub(super) fn measure(
        work: &Work,
        pass: Pass,
        (graph, order): (&str, Reorder),
        copy: f64,
        budget: Budget,
    ) -> Result<Self, Failure> {
        let device = work.device();
        device.reset_peak();
        let ms = budget.median_ms(device, || work.run(pass))?;
        let bytes = work.bytes(pass);
        let rate = bytes / (ms / 1e3);
        Ok(Self {
            op: work.op.name(),
            pass: pass.name().into(),
            backend: device.info().backend.into(),
            device: device.info().name.clone(),
            graph: graph.into(),
            order: order.name(),
            heads: work.shape.heads,
            width: work.shape.width,
            dtype: work.dtype.to_string(),
            ms,
            bytes,
            operations: work.operations(pass),
            gb_per_s: rate / 1e9,
            copy_share: rate / copy,
            peak_bytes: device.memory().peak,
        })
    }

    /// Whether both measure the same, wherever.
    fn same_work(&self, other: &Self) -> bool {
        let names = |r: &Self| [&r.op, &r.pass, &r.graph, &r.order, &r.dtype].map(String::clone);
        let key = |r: &Self| (names(r), r.heads, r.width);
        key(self) == key(other)
    }
}

/// What an earlier run measured of the same: on the same backend, or else on another.
fn before<'a>(row: &Row, earlier: &'a [Row]) -> Option<&'a Row> {
    let same = || earlier.iter().filter(|r| r.same_work(row));
    same().find(|r| r.backend == row.backend).or_else(|| same().next())
}

fn own_order() -> String {
    Reorder::None.name()
}

/// The rows of an earlier run.
pub(super) fn read(path: &Path) -> Result<Vec<Row>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure::Data(format!("{}: {e}", path.display())))?;
    serde_json::from_str(&text)
        .map_err(|e| Failure::Data(format!("{}: not the output of hopwise bench --json: {e}", path.display())))
}

/// All rows of a run.
#[derive(Debug, Default)]
pub(super) struct Report {
    rows: Vec<Row>,
    /// Of the devices that were opened for a plot.
    roofs: Vec<Roof>,
}

impl Report {
    /// Measures what bounds the rows of a device, for [`Report::roofline`].
    pub(super) fn add_roof(&mut self, device: &Device, copy: f64, budget: Budget) -> Result<(), Failure> {
        self.roofs.push(Roof::measure(device, copy, budget)?);
        Ok(())
    }

    /// The rows as a drawing.
    pub(super) fn roofline(&self) -> String {
        let points = self.rows.iter().filter(|row| row.bytes > 0.0).map(|row| Point {
            device: row.backend.clone(),
            op: format!("{} {}", row.op, row.pass),
            operations: row.operations,
            bytes: row.bytes,
            seconds: row.ms / 1e3,
        });
        roofline::draw(&self.roofs, &points.collect::<Vec<_>>())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// A line for people, under a heading if it is the first.
    pub(super) fn line(&self, row: &Row, earlier: Option<&[Row]>) -> String {
        let mut text = String::new();
        if self.rows.is_empty() {
            _ = writeln!(
                text,
                "{:17} {:7} {:5} {:16} {:>5} {:>5} {:>5} {:>10} {:>9} {:>6} {:>9}{}",
                "op",
                "pass",
                "on",
                "graph",
                "heads",
                "width",
                "type",
                "ms",
                "GB/s",
                "copy",
                "peak MiB",
                if earlier.is_some() { "  times faster" } else { "" }
            );
        }
        _ = write!(
            text,
            "{:17} {:7} {:5} {:16} {:>5} {:>5} {:>5} {:>10.4} {:>9.0} {:>6.2} {:>9.1}",
            row.op,
            row.pass,
            row.backend,
            if row.order == own_order() { row.graph.clone() } else { format!("{}, {}", row.graph, row.order) },
            row.heads,
            row.width,
            row.dtype,
            row.ms,
            row.gb_per_s,
            row.copy_share,
            row.peak_bytes as f64 / f64::from(1 << 20)
        );
        if let Some(before) = earlier.and_then(|rows| before(row, rows)) {
            _ = write!(text, "  {:.2}", before.ms / row.ms);
        }
        text
    }

    pub(super) fn json(&self) -> Result<String, Failure> {
        serde_json::to_string_pretty(&self.rows).map_err(|e| Failure::Run(format!("the rows are no JSON: {e}")))
    }

    pub(super) fn csv(&self) -> String {
        let mut text = String::from(
            "op,pass,backend,device,graph,order,heads,width,dtype,ms,bytes,operations,gb_per_s,copy_share,peak_bytes\n",
        );
        for r in &self.rows {
            _ = writeln!(
                text,
                "{},{},{},\"{}\",{},{},{},{},{},{},{},{},{},{},{}",
                r.op,
                r.pass,
                r.backend,
                r.device.replace('"', "\"\""),
                r.graph,
                r.order,
                r.heads,
                r.width,
                r.dtype,
                r.ms,
                r.bytes,
                r.operations,
                r.gb_per_s,
                r.copy_share,
                r.peak_bytes
            );
        }
        text
    }

    /// The geometric mean of how many times faster the rows are than earlier ones.
    pub(super) fn summary(&self, earlier: &[Row]) -> String {
        let ratios: Vec<f64> = self.rows.iter().filter_map(|row| Some(before(row, earlier)?.ms / row.ms)).collect();
        if ratios.is_empty() {
            return "no row was measured earlier".into();
        }
        let mean = (ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len() as f64).exp();
        format!("{:.3} times faster in geometric mean over {} rows", mean, ratios.len())
    }
}
