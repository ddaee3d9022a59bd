//! The file at the end of a spool: made once, never written over unless that was asked for.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Which file, and what may be done to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Where it is.
    pub path: PathBuf,
    /// Whether a file that is there is emptied; otherwise it is refused.
    pub overwrite: bool,
}

/// Why a file cannot be written to. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// There is such a file, and it may be worth something to somebody.
    #[error("{0} exists already and was left as it is; move it away, or allow to overwrite it")]
    Exists(PathBuf),
    /// A pipe or device could make the switch wait.
    #[error("{0} is no ordinary file, and only those are written to; name another path")]
    NoFile(PathBuf),
    /// The kernel refused.
    #[error("{path} cannot be written: {reason}; name a path in a folder that can be written to")]
    Kernel {
        /// Which file.
        path: PathBuf,
        /// What it said.
        reason: std::io::Error,
    },
}

impl Output {
    /// A file that must not be there yet.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_owned(), overwrite: false }
    }

    fn create(&self) -> Result<File, CreateError> {
        let path = || self.path.clone();
        let is_other = |meta: std::fs::Metadata| !meta.is_file();
        if std::fs::metadata(&self.path).is_ok_and(is_other) {
            return Err(CreateError::NoFile(path()));
        }
        let mut how = File::options();
        how.write(true);
        let how = if self.overwrite { how.create(true).truncate(true) } else { how.create_new(true) };
        how.open(&self.path).map_err(|reason| match reason.kind() {
            ErrorKind::AlreadyExists => CreateError::Exists(path()),
            _ => CreateError::Kernel { path: path(), reason },
        })
    }
}

/// A file that ends with a whole record, whatever happens.
#[derive(Debug)]
pub(super) struct Whole {
    file: File,
    /// Bytes up to the end of the last whole batch.
    good: u64,
    /// Where it is, if it was made here and nobody has come to use it yet.
    unused: Option<PathBuf>,
}

impl Drop for Whole {
    /// A port that could not be made leaves no file behind, which would be in the way of its next try.
    fn drop(&mut self) {
        if let Some(path) = self.unused.take() {
            // Somebody else may have removed it first, which is just as well.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Whole {
    /// Makes the file, beginning with `head`.
    pub(super) fn create(output: &Output, head: &[u8]) -> Result<Self, CreateError> {
        let mut whole = Self { file: output.create()?, good: 0, unused: None };
        whole.unused = (!output.overwrite).then(|| output.path.clone());
        let written = whole.append(head);
        written.map_err(|reason| CreateError::Kernel { path: output.path.clone(), reason })?;
        Ok(whole)
    }

    #[cfg(test)]
    pub(super) fn open_for_tests(file: File, good: u64) -> Self {
        Self { file, good, unused: None }
    }

    /// It stays, whatever happens.
    pub(super) fn keep(&mut self) {
        self.unused = None;
    }

    /// Appends whole records: all of them, or none.
    pub(super) fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let written = self.file.write_all(bytes);
        match written {
            Ok(()) => self.good += bytes.len() as u64,
            // A disk that takes no more still lets go of what it has; the first error is the one to tell.
            Err(_) => drop(self.file.set_len(self.good)),
        }
        written
    }
}
