//! Output file of a spool: created once, and overwritten only if configured.
//!
//! Another user with write access to the directory must not be able to choose which file is truncated: symbolic links
//! are not followed, and an existing file is truncated only if it belongs to the effective user and has no further hard
//! links.

use crate::Remedy;
use rustix::fs::OFlags;
use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Output path and overwrite policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// File path.
    pub path: PathBuf,
    /// Whether an existing file is truncated; otherwise it is an error.
    pub overwrite: bool,
}

/// The file cannot be created. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The file exists and overwriting is not allowed.
    #[error("{0} already exists")]
    Exists(PathBuf),
    /// Not a regular file; a pipe or device could block the switch.
    #[error("{0} is not a regular file, and only regular files are written")]
    NoFile(PathBuf),
    /// A symbolic link, which another user may have created.
    #[error("{0} is a symbolic link, and links are not followed")]
    Link(PathBuf),
    /// Owned by another user, who may have placed it to have it truncated.
    #[error("{path} belongs to user {owner}, not to user {user} of this process, and is not overwritten")]
    Foreign {
        /// File path.
        path: PathBuf,
        /// User ID of the owner.
        owner: u32,
        /// Effective user ID of this process.
        user: u32,
    },
    /// The file has further hard links.
    #[error("{0} has further names (hard links), and such a file is not overwritten")]
    Linked(PathBuf),
    /// Other kernel error.
    #[error("{path} cannot be written: {reason}")]
    Kernel {
        /// File path.
        path: PathBuf,
        /// I/O error.
        reason: std::io::Error,
    },
}

impl Remedy for CreateError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Exists(..) => "move it away, or allow to overwrite it".into(),
            Self::NoFile(..) => "name another path".into(),
            Self::Link(..) => "name the file itself, or remove the link".into(),
            Self::Foreign { .. } | Self::Linked(..) => "remove it, or name another path".into(),
            Self::Kernel { .. } => "name a path in a folder that can be written to".into(),
        })
    }
}

impl Output {
    /// An output that must not exist yet.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_owned(), overwrite: false }
    }

    /// Checks whether the file could be created now, judging by an existing file. Changes nothing.
    pub fn check(&self) -> Result<(), CreateError> {
        match std::fs::symlink_metadata(&self.path) {
            Ok(found) => self.check_existing(&found),
            // Other problems with the path are reported on creation.
            Err(_) => Ok(()),
        }
    }

    /// Checks whether the existing file may be truncated.
    fn check_existing(&self, found: &Metadata) -> Result<(), CreateError> {
        let (path, user) = (self.path.clone(), rustix::process::geteuid().as_raw());
        if found.is_symlink() {
            Err(CreateError::Link(path))
        } else if !found.is_file() {
            Err(CreateError::NoFile(path))
        } else if !self.overwrite {
            Err(CreateError::Exists(path))
        } else if found.uid() != user {
            Err(CreateError::Foreign { path, owner: found.uid(), user })
        } else if found.nlink() > 1 {
            Err(CreateError::Linked(path))
        } else {
            Ok(())
        }
    }

    fn create(&self) -> Result<File, CreateError> {
        self.check()?;
        let kernel = |reason| CreateError::Kernel { path: self.path.clone(), reason };
        // The file may have been replaced since the check: open it without following links or blocking, and check it
        // again before truncation.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut how = File::options();
        how.write(true).custom_flags(flags.bits().cast_signed());
        if self.overwrite {
            let file = how.create(true).truncate(false).open(&self.path).map_err(kernel)?;
            self.check_existing(&file.metadata().map_err(kernel)?)?;
            file.set_len(0).map_err(kernel)?;
            return Ok(file);
        }
        how.create_new(true).open(&self.path).map_err(|reason| match reason.kind() {
            ErrorKind::AlreadyExists => CreateError::Exists(self.path.clone()),
            _ => kernel(reason),
        })
    }
}

/// A file that always ends with a complete record.
#[derive(Debug)]
pub(super) struct RecordFile {
    file: File,
    /// Length up to the end of the last complete batch, in bytes.
    good: u64,
    /// Path, if the file was created here and is not in use yet.
    unused: Option<PathBuf>,
}

impl Drop for RecordFile {
    /// Removes the file of a port that could not be created, so that a retry does not fail.
    fn drop(&mut self) {
        if let Some(path) = self.unused.take() {
            // Another process may have removed it already.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl RecordFile {
    /// Creates the file and writes `head`.
    pub(super) fn create(output: &Output, head: &[u8]) -> Result<Self, CreateError> {
        let mut whole = Self { file: output.create()?, good: 0, unused: None };
        whole.unused = (!output.overwrite).then(|| output.path.clone());
        let written = whole.append(head);
        written.map_err(|reason| CreateError::Kernel { path: output.path.clone(), reason })?;
        Ok(whole)
    }

    /// Appends to a file of another process, of `good` bytes. Returns `None` if it is not a regular file.
    pub(super) fn continued(file: File, good: u64) -> Option<Self> {
        let is_file = file.metadata().is_ok_and(|found| found.is_file());
        is_file.then_some(Self { file, good, unused: None })
    }

    /// The file and the number of its bytes.
    pub(super) fn parts(&self) -> (&File, u64) {
        (&self.file, self.good)
    }

    /// Writes `head` to a pipe or socket.
    pub(super) fn stream(file: File, head: &[u8]) -> std::io::Result<Self> {
        let mut whole = Self { file, good: 0, unused: None };
        whole.append(head)?;
        Ok(whole)
    }

    #[cfg(test)]
    pub(super) fn open_for_tests(file: File, good: u64) -> Self {
        Self { file, good, unused: None }
    }

    /// Keeps the file on drop.
    pub(super) fn keep(&mut self) {
        self.unused = None;
    }

    /// Appends complete records: all of them, or none.
    pub(super) fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let written = self.file.write_all(bytes);
        match written {
            Ok(()) => self.good += bytes.len() as u64,
            // Truncation also works on a full disk; the first error is returned.
            Err(_) => drop(self.file.set_len(self.good)),
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A directory with a file `dear`, and an output `x` with overwriting allowed.
    fn folder() -> (tempfile::TempDir, PathBuf, Output) {
        let dir = tempfile::tempdir().unwrap();
        let dear = dir.path().join("dear");
        std::fs::write(&dear, "dear").unwrap();
        let output = Output { path: dir.path().join("x"), overwrite: true };
        (dir, dear, output)
    }

    #[test]
    fn symlink_is_not_followed() {
        let (dir, dear, output) = folder();
        for target in [dear.clone(), dir.path().join("new")] {
            symlink(&target, &output.path).unwrap();
            let error = output.create().unwrap_err();
            assert!(matches!(error, CreateError::Link(_)), "{error}");
            std::fs::remove_file(&output.path).unwrap();
        }
        assert_eq!(std::fs::read(&dear).unwrap(), b"dear");
        assert!(!dir.path().join("new").exists());
    }

    #[test]
    fn hard_linked_file_is_not_overwritten() {
        let (_dir, dear, output) = folder();
        std::fs::hard_link(&dear, &output.path).unwrap();
        let error = output.create().unwrap_err();
        assert!(matches!(error, CreateError::Linked(_)), "{error}");
        assert_eq!(std::fs::read(&dear).unwrap(), b"dear");
    }

    /// Requires root, to change the owner.
    #[test]
    fn foreign_file_is_not_overwritten() {
        let (_dir, dear, mut output) = folder();
        if std::os::unix::fs::chown(&dear, Some(65_534), None).is_ok() {
            output.path = dear.clone();
            let error = output.create().unwrap_err();
            assert!(matches!(error, CreateError::Foreign { owner: 65_534, .. }), "{error}");
            assert_eq!(std::fs::read(&dear).unwrap(), b"dear");
        }
    }

    #[test]
    fn own_file_is_truncated_and_a_missing_one_created() {
        let (_dir, dear, output) = folder();
        assert_eq!(output.create().unwrap().metadata().unwrap().len(), 0);
        let output = Output { path: dear, overwrite: true };
        assert_eq!(output.create().unwrap().metadata().unwrap().len(), 0);
    }

    #[test]
    fn pipe_is_rejected_without_blocking() {
        let (_dir, _, output) = folder();
        rustix::fs::mkfifoat(rustix::fs::CWD, &output.path, rustix::fs::Mode::RWXU).unwrap();
        assert!(matches!(output.create(), Err(CreateError::NoFile(_))));
    }
}
