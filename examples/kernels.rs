//! Compiles every CUDA kernel for the architectures named, without a GPU, and fails on spills above a bound:
//! `cargo run --example kernels -- sm_80 sm_90 sm_90a`. `--list` prints registers and spills of every kernel.

use std::{io::Write, process::ExitCode};

use hopwise::backend::cuda;

/// Bytes that a kernel may spill: a few registers outside its loops.
const MAX_SPILL_BYTES: u32 = 64;

fn main() -> ExitCode {
    let (flags, architectures): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|a| a == "--list");
    let mut failed = architectures.is_empty();
    for architecture in &architectures {
        let (mut kernels, mut registers, mut spilling) = (0, 0, Vec::new());
        let outcome = cuda::compile_all(architecture, |module| {
            for kernel in usage(&module.log) {
                kernels += 1;
                registers = registers.max(kernel.registers);
                let line = format!(
                    "{} {}: {} registers, {} bytes spilled",
                    module.label, kernel.name, kernel.registers, kernel.spilled
                );
                if !flags.is_empty() {
                    print(&line);
                }
                if kernel.spilled > MAX_SPILL_BYTES {
                    spilling.push(line);
                }
            }
        });
        match outcome {
            Err(error) => {
                eprintln!("{architecture}: {error}");
                failed = true;
            }
            Ok(()) => print(&format!(
                "{architecture}: {kernels} kernels, at most {registers} registers, {} spill too much",
                spilling.len()
            )),
        }
        failed |= !spilling.is_empty() || kernels == 0;
        for line in spilling {
            eprintln!("{architecture}: {line}, {MAX_SPILL_BYTES} are allowed");
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// A closed pipe is no concern of the kernels.
fn print(line: &str) {
    _ = writeln!(std::io::stdout(), "{line}");
}

struct Usage<'a> {
    name: &'a str,
    registers: u32,
    spilled: u32,
}

/// Reads the assembler's messages: `Compiling entry function 'name'`, then `... N bytes spill stores, ...` and `Used N registers`.
fn usage(log: &str) -> Vec<Usage<'_>> {
    let number_before = |line: &str, word: &str| -> Option<u32> {
        line[..line.find(word)?].trim_end().rsplit(' ').next()?.parse().ok()
    };
    let mut kernels: Vec<Usage<'_>> = Vec::new();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            kernels.push(Usage { name: rest.split('\'').next().unwrap_or_default(), registers: 0, spilled: 0 });
        } else if let Some(kernel) = kernels.last_mut() {
            kernel.spilled = number_before(line, "bytes spill stores").unwrap_or(kernel.spilled);
            kernel.registers = number_before(line, "registers").unwrap_or(kernel.registers);
        }
    }
    kernels
}
