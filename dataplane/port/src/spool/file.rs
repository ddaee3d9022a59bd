//! The file at the end of a spool: made once, never written over unless that was asked for.
//!
//! Another user who may write to the folder must not choose which file is emptied: a symbolic link is not followed, and a
//! file that is there is emptied only if it belongs to this process's user and has no second name.

use rustix::fs::OFlags;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
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
    /// There is such a file, and it may be of value.
    #[error("{0} exists already and was left as it is; move it away, or allow to overwrite it")]
    Exists(PathBuf),
    /// A pipe or device could make the switch wait.
    #[error("{0} is no ordinary file, and only those are written to; name another path")]
    NoFile(PathBuf),
    /// Another user may have made it.
    #[error("{0} is a symbolic link, and links are not followed; name the file itself, or remove the link")]
    Link(PathBuf),
    /// Another user may have put it there to have it emptied.
    #[error(
        "{path} belongs to user {owner}, not to user {user} of this process, and is not overwritten; remove it, or name another path"
    )]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// Under another name it may be a file that is needed.
    #[error(
        "{0} has further names (hard links), and such a file is not overwritten; remove it, or name another path"
    )]
    Linked(PathBuf),
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

    /// Whether the file could be made now, as far as what is there says. Changes nothing.
    pub fn check(&self) -> Result<(), CreateError> {
        match std::fs::symlink_metadata(&self.path) {
            Ok(found) => self.admit(&found),
            // What else is wrong with the path, making the file shows.
            Err(_) => Ok(()),
        }
    }

    /// Whether the file that is there may be emptied.
    fn admit(&self, found: &Metadata) -> Result<(), CreateError> {
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
        // What is there may have been exchanged since, so that opening neither follows nor waits, and what was opened is
        // judged again before it is emptied.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut how = File::options();
        how.write(true).custom_flags(flags.bits().cast_signed());
        if self.overwrite {
            let file = how.create(true).truncate(false).open(&self.path).map_err(kernel)?;
            self.admit(&file.metadata().map_err(kernel)?)?;
            file.set_len(0).map_err(kernel)?;
            return Ok(file);
        }
        how.create_new(true).open(&self.path).map_err(|reason| match reason.kind() {
            ErrorKind::AlreadyExists => CreateError::Exists(self.path.clone()),
            _ => kernel(reason),
        })
    }
}

/// A file that ends with a whole record, whatever happens.
#[derive(Debug)]
pub(super) struct Whole {
    file: File,
    /// Bytes up to the end of the last whole batch.
    good: u64,
    /// Where it is, if it was made here and is not in use yet.
    unused: Option<PathBuf>,
}

impl Drop for Whole {
    /// A port that could not be made leaves no file behind, which would be in the way of its next try.
    fn drop(&mut self) {
        if let Some(path) = self.unused.take() {
            // Another process may have removed it first, which is fine.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A folder with a file `dear`, and an output called `x` that may overwrite what is there.
    fn folder() -> (tempfile::TempDir, PathBuf, Output) {
        let dir = tempfile::tempdir().unwrap();
        let dear = dir.path().join("dear");
        std::fs::write(&dear, "dear").unwrap();
        let output = Output { path: dir.path().join("x"), overwrite: true };
        (dir, dear, output)
    }

    #[test]
    fn a_link_is_not_followed_and_what_it_leads_to_is_kept() {
        let (dir, dear, output) = folder();
        for target in [dear.clone(), dir.path().join("new")] {
            symlink(&target, &output.path).unwrap();
            let said = output.create().unwrap_err();
            assert!(matches!(said, CreateError::Link(_)), "{said}");
            std::fs::remove_file(&output.path).unwrap();
        }
        assert_eq!(std::fs::read(&dear).unwrap(), b"dear");
        assert!(!dir.path().join("new").exists());
    }

    #[test]
    fn a_file_with_a_second_name_is_kept() {
        let (_dir, dear, output) = folder();
        std::fs::hard_link(&dear, &output.path).unwrap();
        let said = output.create().unwrap_err();
        assert!(matches!(said, CreateError::Linked(_)), "{said}");
        assert_eq!(std::fs::read(&dear).unwrap(), b"dear");
    }

    /// Only root can give a file away.
    #[test]
    fn a_file_of_another_user_is_kept() {
        let (_dir, dear, mut output) = folder();
        if std::os::unix::fs::chown(&dear, Some(65_534), None).is_ok() {
            output.path = dear.clone();
            let said = output.create().unwrap_err();
            assert!(matches!(said, CreateError::Foreign { owner: 65_534, .. }), "{said}");
            assert_eq!(std::fs::read(&dear).unwrap(), b"dear");
        }
    }

    #[test]
    fn a_file_of_ones_own_is_emptied_and_a_new_one_is_made() {
        let (_dir, dear, output) = folder();
        assert_eq!(output.create().unwrap().metadata().unwrap().len(), 0);
        let output = Output { path: dear, overwrite: true };
        assert_eq!(output.create().unwrap().metadata().unwrap().len(), 0);
    }

    #[test]
    fn a_pipe_is_refused_and_not_waited_for() {
        let (_dir, _, output) = folder();
        rustix::fs::mkfifoat(rustix::fs::CWD, &output.path, rustix::fs::Mode::RWXU).unwrap();
        assert!(matches!(output.create(), Err(CreateError::NoFile(_))));
    }
}
