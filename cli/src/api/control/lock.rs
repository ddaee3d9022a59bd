//! Lock file of a listening socket. Only this user can open it, so that no other user can hold the lock.
//!
//! In a directory writable by other users, they can create the file first. It is therefore opened without following
//! links and without blocking, and validated after opening: it must be a regular file of this user.

use rustix::fs::{Mode, OFlags, fchmod};
use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The kernel's list of lock holders.
const LOCKS: &str = "/proc/locks";

/// Why a lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum LockError {
    /// Held by another process of this user, or by an unknown one.
    #[error("its lock is held")]
    Held,
    /// Held by a process of another user.
    #[error("its lock is held by process {pid} of user {user}, which is not a program of this user", pid = .0.pid, user = .0.user)]
    HeldBy(Holder),
    /// The path is a symbolic link, which another user may have created.
    #[error("its lock {0} is a symbolic link, and links are not followed")]
    Link(PathBuf),
    /// Not a regular file: a pipe, device or directory.
    #[error("its lock {0} is not a regular file")]
    NoFile(PathBuf),
    /// Owned by another user, who could open and lock it at any time.
    #[error("its lock {path} belongs to user {owner}, not to user {user} of this process")]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// Owner of the file.
        owner: u32,
        /// User of this process.
        user: u32,
    },
    /// Other kernel error.
    #[error("its lock cannot be opened: {0}")]
    Kernel(#[from] io::Error),
}

/// A process that holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) pid: u32,
    pub(super) user: u32,
}

/// Effective user of this process.
pub(super) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Creates and locks the file.
pub(super) fn hold(path: &Path) -> Result<File, LockError> {
    loop {
        let file = open(path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let other_user = holder(&file).filter(|holder| holder.user != user());
                return Err(other_user.map_or(LockError::Held, LockError::HeldBy));
            }
            Err(TryLockError::Error(e)) => return Err(e.into()),
            Ok(()) if is_at(&file, path)? => return Ok(file),
            // The previous owner removed the file between opening and locking.
            Ok(()) => {}
        }
    }
}

fn open(path: &Path) -> Result<File, LockError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut how = File::options();
    how.create(true).truncate(false).write(true).mode(0o600).custom_flags(flags.bits().cast_signed());
    let file = match how.open(path) {
        Ok(file) => file,
        // If the existing file is the reason, it gives a clearer error than the kernel's.
        Err(error) => {
            if let Ok(found) = fs::symlink_metadata(path) {
                admit(path, &found)?;
            }
            return Err(error.into());
        }
    };
    admit(path, &file.metadata()?)?;
    // A crashed program may have left the file with a mode that allows others to open it.
    fchmod(&file, Mode::RUSR | Mode::WUSR).map_err(io::Error::from)?;
    Ok(file)
}

/// Checks that only this user controls the file.
fn admit(path: &Path, found: &Metadata) -> Result<(), LockError> {
    let (path, user) = (path.to_owned(), user());
    if found.is_symlink() {
        Err(LockError::Link(path))
    } else if !found.is_file() {
        Err(LockError::NoFile(path))
    } else if found.uid() != user {
        Err(LockError::Foreign { path, owner: found.uid(), user })
    } else {
        Ok(())
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let found = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    let held = file.metadata()?;
    Ok((held.dev(), held.ino()) == (found.dev(), found.ino()))
}

/// The process that holds the lock of a file; `None` if the kernel does not list it, e.g. in another container.
fn holder(file: &File) -> Option<Holder> {
    let inode = file.metadata().ok()?.ino();
    let pid = listed(&fs::read_to_string(LOCKS).ok()?, inode)?;
    let user = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    Some(Holder { pid, user })
}

/// The process in a line such as `1: FLOCK  ADVISORY  WRITE 700 fd:01:1234 0 EOF` (proc(5)). The device is ignored:
/// file systems such as btrfs show another one there than in a file's metadata.
fn listed(locks: &str, inode: u64) -> Option<u32> {
    let process = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| *word != "FLOCK").skip(3);
        let (pid, place) = (words.next()?, words.next()?);
        let found: u64 = place.rsplit(':').next()?.parse().ok()?;
        pid.parse().ok().filter(|_| found == inode)
    };
    locks.lines().find_map(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.lock");
        let held = hold(&path).unwrap();
        assert!(matches!(hold(&path), Err(LockError::Held)), "this user's own lock");
        if let Some(holder) = holder(&held) {
            assert_eq!(holder, Holder { pid: std::process::id(), user: user() });
        }
    }

    #[test]
    fn locks_are_listed_by_file() {
        let locks = "1: POSIX  ADVISORY  WRITE 41 fd:01:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 700 fd:01:1234 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 701 fd:01:1234 0 EOF\n3: broken";
        assert_eq!((listed(locks, 1234), listed(locks, 77), listed("", 1)), (Some(700), None, None));
    }
}
