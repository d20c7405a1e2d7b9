//! Files that appear whole or not at all.

use std::{
    fs::{File, Permissions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Writes `content` to a temporary file beside `path`, and gives it that name when everything is on disk. What was there before is replaced.
///
/// # Errors
/// What the system says; nothing is left behind then.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // Readable as far as the user's mask allows, like any file that a program makes.
    let permissions = permissions();
    if let Some(permissions) = permissions {
        builder.permissions(permissions);
    }
    let mut file = builder.tempfile_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    // The new name is on disk only when the folder is. Not every system lets a folder be opened; the file is whole all the same.
    if let Ok(folder) = File::open(folder) {
        _ = folder.sync_all();
    }
    Ok(())
}

#[cfg(unix)]
fn permissions() -> Option<Permissions> {
    use std::os::unix::fs::PermissionsExt;
    Some(Permissions::from_mode(0o666))
}

#[cfg(not(unix))]
fn permissions() -> Option<Permissions> {
    None
}

/// Where this user's machine keeps what can be made again: `hopwise` in `XDG_CACHE_HOME` or `~/.cache`, on Windows in
/// `LOCALAPPDATA`. `None` where none of these is set.
pub fn cache_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = if cfg!(windows) {
        set("LOCALAPPDATA")
    } else {
        set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))
    };
    base.map(|base| base.join("hopwise"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert!(write_atomically(&folder.path().join("no/folder"), b"three").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
