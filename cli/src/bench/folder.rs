//! A folder for sockets, configurations and what processes print; it goes with the benchmark, unless that failed.

use crate::trouble::Trouble;
use std::path::{Path, PathBuf};

/// The folder.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    kept: bool,
}

impl Folder {
    /// A new one.
    pub(super) fn new() -> Result<Self, Trouble> {
        let path = std::env::temp_dir().join(format!("linerate-bench-{}", std::process::id()));
        let remedy = "point TMPDIR at a directory that can be written, with a short path";
        std::fs::create_dir(&path).map_err(|e| Trouble::failed(path.display(), e, remedy))?;
        Ok(Self { path, kept: false })
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
    pub(super) fn write(&self, name: &str, text: &str) -> Result<String, Trouble> {
        let path = self.path.join(name);
        let remedy = "make room, or point TMPDIR elsewhere";
        std::fs::write(&path, text).map_err(|e| Trouble::failed(path.display(), e, remedy))?;
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
