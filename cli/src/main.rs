//! The program `hopwise`: inspect graphs, train graph neural networks on them and run them, on any device.
//!
//! Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 failed while running, 2 wrong arguments, 3 wrong input
//! data, 4 no such device.

mod backend;
mod bench;
mod devices;
mod failure;
mod infer;
mod info;
mod output;
mod plan;
mod plot;
mod rates;
mod setup;
mod source;
mod train;
mod tune;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Graph neural networks on any GPU.
#[derive(Debug, Parser)]
#[command(
    name = "hopwise",
    version,
    about,
    after_help = "\
Examples:
  hopwise train karate
  hopwise info planetoid/ind.cora
  hopwise train planetoid/ind.cora --model sage --seeds 10 --out cora.safetensors
  hopwise infer planetoid/ind.cora --weights cora.safetensors

Exit codes: 0 done, 1 failed while running, 2 wrong arguments, 3 wrong input data, 4 no such device."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the devices that models can run on
    Devices(devices::Args),
    /// Count nodes, edges, degrees, self loops and duplicates, as listed in the file
    Info(info::Args),
    /// Train a model on the nodes of one graph, or on a set of graphs
    Train(Box<train::Args>),
    /// Predict the class of every node, or of every graph of a set, with trained weights
    Infer(infer::Args),
    /// Time operations and training steps on benchmark graphs
    Bench(Box<bench::Args>),
    /// Say how an operation would be laid out on a graph, what it would take and why
    Plan(Box<plan::Args>),
    /// Measure a device, so that plans can say what operations take
    Tune(tune::Args),
}

fn main() -> ExitCode {
    without_window_system();
    let result = match Cli::parse().command {
        Command::Devices(args) => devices::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Train(args) => train::run(&args),
        Command::Infer(args) => infer::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Tune(args) => tune::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            failure.exit_code()
        }
    }
}

/// Mesa's device-selection layer asks the window system which GPU to prefer, and where there is none it complains on standard error.
/// The layer has nothing to do then: switch it off.
fn without_window_system() {
    if cfg!(target_os = "linux") && std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        // SAFETY: this is the first thing the program does; there is no other thread that could read the environment.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
}
