//! A folder for sockets, configurations and what processes print; it goes with the benchmark, unless that failed.

use console::Diagnostic;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The folder.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    kept: bool,
}

/// Folders of one process, and those that earlier processes with its number have left behind.
const MOST: u32 = 1000;

impl Folder {
    /// A new one.
    pub(super) fn new() -> Result<Self, Diagnostic> {
        let base = std::env::temp_dir().join(format!("linerate-bench-{}", std::process::id()));
        let mut path = base.clone();
        for n in 1..=MOST {
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path, kept: false }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    path = PathBuf::from(format!("{}-{n}", base.display()));
                }
                Err(error) => {
                    let remedy = "point TMPDIR at a directory that can be written, with a short path";
                    return Err(Diagnostic::failed(path.display(), error, remedy));
                }
            }
        }
        let reason = format!("there are {MOST} such folders of benchmarks that failed");
        Err(Diagnostic::failed(base.display(), reason, "remove them, or point TMPDIR elsewhere"))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What processes printed is of use.
    pub(super) fn keep(&mut self) {
        self.kept = true;
    }

    /// Where the socket of this name is to be.
    pub(super) fn socket(&self, name: &str) -> String {
        self.path.join(format!("{name}.sock")).display().to_string()
    }

    /// Writes a file of this name; its path.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<String, Diagnostic> {
        let path = self.path.join(name);
        let remedy = "make room, or point TMPDIR elsewhere";
        std::fs::write(&path, text).map_err(|e| Diagnostic::failed(path.display(), e, remedy))?;
        Ok(path.display().to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.kept {
            // What cannot be removed is a directory in the place for temporary things.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_left_behind_is_in_nobodys_way() {
        let (one, other) = (Folder::new().unwrap(), Folder::new().unwrap());
        assert_ne!(one.path(), other.path());
        let gone = [one.path(), other.path()].map(Path::to_owned);
        drop((one, other));
        assert!(gone.iter().all(|path| !path.exists()));
    }
}
