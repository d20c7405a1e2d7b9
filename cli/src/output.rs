use std::{
    io::{IsTerminal, Write},
    path::Path,
};

use hopwise::files::write_atomically;
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::Failure;

/// Prints a result. A reader that has gone away (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Run(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// The folder that a file is to stand in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Refuses files that could not be written, before hours of work are lost.
pub(crate) fn check_target(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(Failure::Usage(format!("{} is a directory: name a file in it", path.display())));
    }
    let folder = folder_of(path);
    if !folder.is_dir() {
        let (path, folder) = (path.display(), folder.display());
        return Err(Failure::Usage(format!("{path} cannot be written: there is no folder {folder}, create it")));
    }
    Ok(())
}

/// Writes a file whole or not at all.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> Result<(), Failure> {
    write_atomically(path, content).map_err(|error| Failure::Run(format!("{}: cannot write: {error}", path.display())))
}

/// How a run is going: a bar on a terminal, a line now and then elsewhere.
#[derive(Debug)]
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    pub(crate) fn new(steps: u64, title: String) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} epochs, {per_sec}, {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(Some(ProgressBar::new(steps).with_style(style).with_prefix(title)))
    }

    pub(crate) fn advance_to(&self, step: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(step);
        }
    }

    /// Something to know at this step.
    pub(crate) fn report(&self, step: u64, message: String) {
        match &self.0 {
            Some(bar) => bar.set_message(message),
            None => eprintln!("epoch {step}: {message}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
