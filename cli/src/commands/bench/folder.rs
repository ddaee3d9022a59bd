//! A temporary directory for sockets, configurations and the output of processes; kept if the command fails.

use console::Diagnostic;
use std::io;
use std::path::Path;
use tempfile::TempDir;

/// The directory.
#[derive(Debug)]
pub(in crate::commands) struct Folder(TempDir);

impl Folder {
    /// Creates a directory.
    pub(in crate::commands) fn new() -> Result<Self, Diagnostic> {
        let failed = |error: io::Error| {
            let remedy = "set TMPDIR to a writable directory with a short path";
            Diagnostic::failed("temporary directory", error, remedy)
        };
        tempfile::Builder::new().prefix("linerate-").tempdir().map(Self).map_err(failed)
    }

    /// Its path.
    pub(in crate::commands) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Keeps the directory after the command.
    pub(in crate::commands) fn keep(&mut self) {
        self.0.disable_cleanup(true);
    }

    /// The path of the socket of this name.
    pub(in crate::commands) fn socket(&self, name: &str) -> String {
        self.path().join(format!("{name}.sock")).display().to_string()
    }

    /// Writes a file of this name. Returns its path.
    pub(in crate::commands) fn write(&self, name: &str, text: &str) -> Result<String, Diagnostic> {
        let path = self.path().join(name);
        let remedy = "free disk space, or set TMPDIR to another directory";
        std::fs::write(&path, text).map_err(|e| Diagnostic::failed(path.display(), e, remedy))?;
        Ok(path.display().to_string())
    }
}
