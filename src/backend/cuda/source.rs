//! From the files in `cuda/` to the text that a compiler takes.

use std::fmt::Write;

/// The files, by the names that `#include` uses.
const FILES: &[(&str, &str)] = &[
    ("common.cuh", include_str!("../../../cuda/common.cuh")),
    ("graph.cuh", include_str!("../../../cuda/graph.cuh")),
    ("random.cuh", include_str!("../../../cuda/random.cuh")),
    ("attention.cuh", include_str!("../../../cuda/attention.cuh")),
    ("head_tasks.cuh", include_str!("../../../cuda/head_tasks.cuh")),
    ("pairs.cuh", include_str!("../../../cuda/pairs.cuh")),
    ("blocks.cu", include_str!("../../../cuda/blocks.cu")),
    ("cast.cu", include_str!("../../../cuda/cast.cu")),
    ("clock.cu", include_str!("../../../cuda/clock.cu")),
    ("elementwise.cu", include_str!("../../../cuda/elementwise.cu")),
    ("extreme.cu", include_str!("../../../cuda/extreme.cu")),
    ("gat.cuh", include_str!("../../../cuda/gat.cuh")),
    ("gat.cu", include_str!("../../../cuda/gat.cu")),
    ("gate.cu", include_str!("../../../cuda/gate.cu")),
    ("gather.cu", include_str!("../../../cuda/gather.cu")),
    ("gatv2.cu", include_str!("../../../cuda/gatv2.cu")),
    ("gine.cu", include_str!("../../../cuda/gine.cu")),
    ("heads.cu", include_str!("../../../cuda/heads.cu")),
    ("linear.cu", include_str!("../../../cuda/linear.cu")),
    ("norm.cu", include_str!("../../../cuda/norm.cu")),
    ("optim.cu", include_str!("../../../cuda/optim.cu")),
    ("reduce.cu", include_str!("../../../cuda/reduce.cu")),
    ("rows.cu", include_str!("../../../cuda/rows.cu")),
    ("sddmm.cu", include_str!("../../../cuda/sddmm.cu")),
    ("softmax.cu", include_str!("../../../cuda/softmax.cu")),
    ("spmm.cu", include_str!("../../../cuda/spmm.cu")),
    ("transformer.cu", include_str!("../../../cuda/transformer.cu")),
];

/// A source file with the numbers it is compiled with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Module {
    /// The stem of the file.
    file: &'static str,
    /// `#define NAME value`, in the order given.
    defines: Vec<(&'static str, u32)>,
}

impl Module {
    pub(super) fn new(file: &'static str) -> Self {
        Self { file, defines: Vec::new() }
    }

    /// Defines a number; switches are 0 or 1.
    pub(super) fn define(mut self, name: &'static str, value: impl Into<u32>) -> Self {
        self.defines.push((name, value.into()));
        self
    }

    /// A name for people: `spmm WEIGHTED=1 DTYPE=0`.
    pub(super) fn label(&self) -> String {
        let mut label = self.file.to_owned();
        for (name, value) in &self.defines {
            _ = write!(label, " {name}={value}");
        }
        label
    }

    /// The text, every header in its place: compilers need no folder to search.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.defines {
            _ = writeln!(text, "#define {name} {value}");
        }
        append(&mut text, &format!("{}.cu", self.file), &mut Vec::new());
        text
    }
}

/// Appends a file, and before each line that includes another, that one, once.
fn append(text: &mut String, name: &str, seen: &mut Vec<String>) {
    if seen.iter().any(|s| s == name) {
        return;
    }
    seen.push(name.to_owned());
    let (_, file) = FILES.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("there is no cuda/{name}"));
    for (number, line) in file.lines().enumerate() {
        match line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
            Some(header) => append(text, header, seen),
            None => {
                _ = writeln!(text, "{line}");
                continue;
            }
        }
        // Messages of the compiler name the file's own lines again.
        _ = writeln!(text, "#line {} \"{name}\"", number + 2);
    }
}
