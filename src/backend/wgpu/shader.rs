//! From the files in `shaders/` to WGSL that a driver takes.
//!
//! Lines that start with `#` are directives, everything else is WGSL:
//! - `#ifdef NAME`, `#ifndef NAME`, `#else`, `#endif`: parts that a variant has or has not;
//! - `#include NAME`: another file;
//! - `#unroll v COUNT`, `#endunroll`: the lines between, COUNT times, with `$v` replaced by 0, 1, ...; COUNT is a number or
//!   a constant of the variant. What is named so needs no arrays, which not every driver keeps in registers;
//! - `#param name: type`: a number of the uniform struct `p`;
//! - `#read name: type`, `#write name: type`: the next storage binding.
//!
//! The host fills parameters and bindings by name, so that neither their order nor their numbers stand anywhere else.

use std::{borrow::Cow, fmt::Write};

/// A variant written out, and the names that the host fills in.
#[derive(Debug)]
pub(super) struct Shader {
    pub(super) wgsl: String,
    pub(super) params: Vec<String>,
    pub(super) bindings: Vec<Binding>,
}

/// A storage binding.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Binding {
    pub(super) name: String,
    /// Whether the kernel writes to it.
    pub(super) written: bool,
}

/// The files, by the names that `#include` and the table of kernels use.
const FILES: &[(&str, &str)] = &[
    ("prelude", include_str!("../../../shaders/prelude.wgsl")),
    ("random", include_str!("../../../shaders/random.wgsl")),
    ("attention", include_str!("../../../shaders/attention.wgsl")),
    ("blocks", include_str!("../../../shaders/blocks.wgsl")),
    ("cast", include_str!("../../../shaders/cast.wgsl")),
    ("elementwise", include_str!("../../../shaders/elementwise.wgsl")),
    ("gat", include_str!("../../../shaders/gat.wgsl")),
    ("gate", include_str!("../../../shaders/gate.wgsl")),
    ("gather", include_str!("../../../shaders/gather.wgsl")),
    ("gatv2", include_str!("../../../shaders/gatv2.wgsl")),
    ("gine", include_str!("../../../shaders/gine.wgsl")),
    ("half", include_str!("../../../shaders/half.wgsl")),
    ("heads", include_str!("../../../shaders/heads.wgsl")),
    ("inner", include_str!("../../../shaders/inner.wgsl")),
    ("lanes", include_str!("../../../shaders/lanes.wgsl")),
    ("linear", include_str!("../../../shaders/linear.wgsl")),
    ("loss", include_str!("../../../shaders/loss.wgsl")),
    ("norm", include_str!("../../../shaders/norm.wgsl")),
    ("optim", include_str!("../../../shaders/optim.wgsl")),
    ("passes", include_str!("../../../shaders/passes.wgsl")),
    ("ranges", include_str!("../../../shaders/ranges.wgsl")),
    ("reduce", include_str!("../../../shaders/reduce.wgsl")),
    ("rows", include_str!("../../../shaders/rows.wgsl")),
    ("scores", include_str!("../../../shaders/scores.wgsl")),
    ("sddmm", include_str!("../../../shaders/sddmm.wgsl")),
    ("softmax", include_str!("../../../shaders/softmax.wgsl")),
    ("spmm", include_str!("../../../shaders/spmm.wgsl")),
    ("subgroups", include_str!("../../../shaders/subgroups.wgsl")),
    ("transformer", include_str!("../../../shaders/transformer.wgsl")),
];

/// Writes out a variant of `file`: `flags` are the names that `#ifdef` asks for, `constants` become `const NAME: u32`.
pub(super) fn expand(file: &str, flags: &[&str], constants: &[(&str, u32)]) -> Result<Shader, String> {
    let mut expansion = Expansion { flags, constants, body: String::new(), params: Vec::new(), bindings: Vec::new() };
    for (name, value) in constants {
        _ = writeln!(expansion.body, "const {name}: u32 = {value}u;");
    }
    expansion.file("prelude")?;
    expansion.file(file)?;

    let mut wgsl = String::from("struct Params {\n");
    for (name, kind) in &expansion.params {
        _ = writeln!(wgsl, "    {name}: {kind},");
    }
    wgsl.push_str("}\n@group(0) @binding(0) var<uniform> p: Params;\n");
    for (i, (access, name, kind)) in expansion.bindings.iter().enumerate() {
        _ = writeln!(wgsl, "@group(0) @binding({}) var<storage, {access}> {name}: {kind};", i + 1);
    }
    wgsl.push_str(&expansion.body);
    Ok(Shader {
        wgsl,
        params: expansion.params.into_iter().map(|(name, _)| name).collect(),
        bindings: expansion
            .bindings
            .into_iter()
            .map(|(access, name, _)| Binding { name, written: access == "read_write" })
            .collect(),
    })
}

/// A line and its number.
type Line<'a> = (usize, Cow<'a, str>);

struct Expansion<'a> {
    flags: &'a [&'a str],
    constants: &'a [(&'a str, u32)],
    body: String,
    params: Vec<(String, String)>,
    bindings: Vec<(&'static str, String, String)>,
}

impl Expansion<'_> {
    fn file(&mut self, name: &str) -> Result<(), String> {
        let (_, text) =
            FILES.iter().find(|(n, _)| *n == name).ok_or_else(|| format!("there is no shader file {name}"))?;
        let lines: Vec<Line> = text.lines().enumerate().map(|(i, line)| (i + 1, Cow::Borrowed(line))).collect();
        self.lines(name, &lines)
    }

    /// Lines of the file `name`.
    fn lines(&mut self, name: &str, lines: &[Line<'_>]) -> Result<(), String> {
        // One entry an open #ifdef: whether its current part counts.
        let mut open: Vec<bool> = Vec::new();
        let mut next = 0;
        while let Some((number, line)) = lines.get(next) {
            next += 1;
            let at = |what: &str| format!("{name}.wgsl, line {number}: {what}");
            let counts = open.iter().all(|&on| on);
            let Some(directive) = line.strip_prefix('#') else {
                if counts {
                    self.body.push_str(line);
                    self.body.push('\n');
                }
                continue;
            };
            let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
            match word {
                "ifdef" => open.push(self.flags.contains(&rest)),
                "ifndef" => open.push(!self.flags.contains(&rest)),
                "else" => {
                    let on = open.last_mut().ok_or_else(|| at("#else without #ifdef"))?;
                    *on = !*on;
                }
                "endif" => _ = open.pop().ok_or_else(|| at("#endif without #ifdef"))?,
                "unroll" => {
                    let length = length_of_unroll(&lines[next..]).ok_or_else(|| at("#unroll without #endunroll"))?;
                    let repeated = &lines[next..next + length];
                    next += length + 1;
                    if counts {
                        let (variable, count) = rest.split_once(' ').ok_or_else(|| at("expected `variable count`"))?;
                        let known = self.constants.iter().find(|(n, _)| *n == count).map(|&(_, value)| value);
                        let count = known.or_else(|| count.parse().ok());
                        for i in 0..count.ok_or_else(|| at("expected a number or a constant"))? {
                            let written = |line: &str| line.replace(&format!("${variable}"), &i.to_string());
                            let copy: Vec<Line> = repeated.iter().map(|(n, l)| (*n, written(l).into())).collect();
                            self.lines(name, &copy)?;
                        }
                    }
                }
                "endunroll" => return Err(at("#endunroll without #unroll")),
                _ if !counts => {}
                "include" => self.file(rest)?,
                "param" | "read" | "write" => {
                    let (name, kind) = rest.split_once(": ").ok_or_else(|| at("expected `name: type`"))?;
                    let (name, kind) = (name.to_owned(), kind.to_owned());
                    match word {
                        "param" => self.params.push((name, kind)),
                        "read" => self.bindings.push(("read", name, kind)),
                        _ => self.bindings.push(("read_write", name, kind)),
                    }
                }
                other => return Err(at(&format!("unknown directive #{other}"))),
            }
        }
        if open.is_empty() { Ok(()) } else { Err(format!("{name}.wgsl: #ifdef without #endif")) }
    }
}

/// How many of the lines behind an `#unroll` stand before its `#endunroll`.
fn length_of_unroll(lines: &[Line<'_>]) -> Option<usize> {
    let mut depth = 1;
    lines.iter().position(|(_, line)| {
        depth += i32::from(line.starts_with("#unroll "));
        depth -= i32::from(line.starts_with("#endunroll"));
        depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_in_their_order() {
        let shader = expand("spmm", &["FEATURE_PARALLEL", "WEIGHTED", "ROW_SCALE"], &[]).unwrap();
        let names: Vec<&str> = shader.bindings.iter().map(|b| b.name.as_str()).collect();
        assert_eq!(names, ["task_list", "columns", "weight", "x", "row_scale", "out"]);
        assert!(shader.bindings.iter().all(|b| b.written == (b.name == "out")));
        assert!(shader.wgsl.contains("@binding(3) var<storage, read> weight: array<f32>;"));
        assert!(shader.wgsl.contains("@binding(6) var<storage, read_write> out: array<Packed>;"));
        assert_eq!(shader.params[0], "tasks");
        assert!(!shader.wgsl.contains('#'));
    }

    #[test]
    fn constants_come_first() {
        assert!(
            expand("linear", &["GEMM"], &[("COLUMNS_PER_THREAD", 4)])
                .unwrap()
                .wgsl
                .contains("const COLUMNS_PER_THREAD: u32 = 4u;")
        );
        assert!(expand("nowhere", &[], &[]).is_err());
    }

    #[test]
    fn unrolled_lines_are_written_out() {
        let constants = [("REGISTERS", 2)];
        let mut expansion =
            Expansion { flags: &["ON"], constants: &constants, body: String::new(), params: vec![], bindings: vec![] };
        let lines = |text: &'static str| -> Vec<Line> {
            text.lines().enumerate().map(|(i, line)| (i + 1, Cow::Borrowed(line))).collect()
        };
        let text =
            "#unroll u 2\na_$u\n#unroll r REGISTERS\n#ifdef ON\nb_$u$r\n#else\nc\n#endif\n#endunroll\n#endunroll";
        expansion.lines("test", &lines(text)).unwrap();
        assert_eq!(expansion.body, "a_0\nb_00\nb_01\na_1\nb_10\nb_11\n");
        for wrong in ["#unroll u 2", "#unroll u\n#endunroll", "#unroll u MANY\n#endunroll", "#endunroll"] {
            assert!(expansion.lines("test", &lines(wrong)).unwrap_err().contains("test.wgsl, line 1"), "{wrong}");
        }
        let off = "#ifdef OFF\n#unroll u MANY\nd\n#endunroll\n#endif";
        expansion.lines("test", &lines(off)).unwrap();
        assert!(!expansion.body.contains('d'));
    }
}
