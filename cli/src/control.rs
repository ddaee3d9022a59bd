//! The control socket as a file: one switch per path, readable by its owner only, gone when the switch is.
//!
//! A lock beside the socket says who owns the path, so that a socket left behind by a dead switch is replaced and
//! a living one is never touched. The lock is held for as long as the switch runs; the kernel drops it with the
//! process, however that ends.

use crate::trouble::Trouble;
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The path of a control socket, held by this process. Dropping it removes the files.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    path: PathBuf,
    lock: PathBuf,
    _held: File,
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Nothing can be done about a file that somebody else has removed already.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(&self.lock);
    }
}

/// Takes the path for this process and listens on it.
pub(crate) fn claim(path: &Path) -> Result<(ControlSocket, UnixListener), Trouble> {
    let failed = |e: io::Error| {
        let remedy = "choose another path with --control or `control` in [switch]";
        Trouble::failed(format!("control socket {}", path.display()), e, remedy)
    };
    prepare_directory(path).map_err(failed)?;
    let lock = lock_path(path);
    let held = hold(&lock).map_err(failed)?.ok_or_else(|| taken(path))?;
    let listener = match UnixStream::connect(path) {
        // Somebody listens there without holding the lock: not one of ours, so it stays and we leave.
        Ok(_) => Err(taken(path)),
        Err(_) => listen_on(path).map_err(failed),
    };
    let listener = listener.inspect_err(|_| drop(fs::remove_file(&lock)))?;
    Ok((ControlSocket { path: path.to_owned(), lock, _held: held }, listener))
}

fn taken(path: &Path) -> Trouble {
    Trouble::bad(
        format!("control socket {}", path.display()),
        "a switch is already running there; it was not touched",
        "end it with `linerate stop`, or give this one a socket of its own with --control",
    )
}

/// The lock beside a control socket.
pub(crate) fn lock_path(path: &Path) -> PathBuf {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    PathBuf::from(lock)
}

/// The usual directories are made where they are missing; any other has to exist.
fn prepare_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    if path == crate::host::default_control() && !directory.exists() {
        DirBuilder::new().mode(0o700).create(directory)?;
    }
    let found = fs::metadata(directory)?;
    let ours = found.uid() == rustix::process::geteuid().as_raw();
    if path == crate::host::default_control() && !ours {
        return Err(io::Error::other("its directory belongs to somebody else"));
    }
    Ok(())
}

/// Locks the file, or says that somebody else has.
fn hold(path: &Path) -> io::Result<Option<File>> {
    loop {
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(e)) => return Err(e),
            Ok(()) if is_at(&file, path)? => return Ok(Some(file)),
            // The last owner removed the file between our opening and our locking it.
            Ok(()) => {}
        }
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let found = match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    let held = file.metadata()?;
    Ok((held.dev(), held.ino()) == (found.dev(), found.ino()))
}

/// Listens on a new socket file that has never been open to anybody else.
fn listen_on(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => return Err(io::Error::other("a file that is not a socket is there")),
        Err(_) => {}
    }
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Linux gives the file the mode of the socket, so that there is no moment at which others may connect.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, 64)?;
    Ok(UnixListener::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trouble::BAD_INPUT;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_its_owner_may_connect_and_the_files_go_with_the_claim() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sock");
        let (claim, _listener) = claim(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(claim);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_second_claim_is_refused_and_the_first_still_listens() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sock");
        let first = claim(&path).unwrap();
        let error = claim(&path).unwrap_err();
        assert_eq!(error.code, BAD_INPUT);
        assert!(error.reason.contains("already running"), "{error}");
        UnixStream::connect(&path).unwrap();
        drop(first);
    }

    #[test]
    fn a_socket_left_behind_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sock");
        drop(UnixListener::bind(&path).unwrap());
        let (_claim, _listener) = claim(&path).unwrap();
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_file_that_is_no_socket_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("precious");
        fs::write(&path, "text").unwrap();
        assert!(claim(&path).unwrap_err().reason.contains("not a socket"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        assert!(!lock_path(&path).exists());
    }

    #[test]
    fn a_stranger_who_listens_without_a_lock_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sock");
        let _stranger = UnixListener::bind(&path).unwrap();
        assert_eq!(claim(&path).unwrap_err().code, BAD_INPUT);
        UnixStream::connect(&path).unwrap();
        assert!(!lock_path(&path).exists());
    }
}
