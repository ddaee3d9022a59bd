//! Files of listening sockets: one process per path, accessible by its user only, removed when the process exits.
//!
//! A lock file beside the socket (`lock.rs`) identifies the process that owns the path, so that a stale socket is
//! replaced and that of a running process is never touched. The lock is held while the process runs; the kernel
//! releases it with the process.

mod lock;

use crate::host::lock_path;
use crate::socket_file::listen_on;
use console::Diagnostic;
use lock::LockError;
use std::fmt::Display;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Purpose of a socket, for errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purpose {
    /// Name in front of the path.
    place: &'static str,
    /// Option or key that sets the path.
    option: &'static str,
}

/// The control socket of a switch or of a program with a stack.
pub(crate) const CONTROL: Purpose =
    Purpose { place: "control socket", option: "--control or `control` in [switch]" };
/// The socket at which other processes obtain sockets of a stack.
pub(crate) const LISTEN: Purpose = Purpose { place: "--listen", option: "--listen" };

impl Purpose {
    /// A path that cannot be used.
    fn bad(self, path: &Path, reason: impl Display) -> Diagnostic {
        Diagnostic::bad(self.place(path), reason, self.elsewhere())
    }

    fn failed(self, path: &Path, error: impl Display) -> Diagnostic {
        Diagnostic::failed(self.place(path), error, self.elsewhere())
    }

    fn place(self, path: &Path) -> String {
        format!("{} {}", self.place, path.display())
    }

    fn elsewhere(self) -> String {
        format!("choose another path with {}", self.option)
    }

    /// Error for a path of another process.
    fn running(self, path: &Path) -> Diagnostic {
        let reason = "a switch or another program of linerate is already running there; it was not touched";
        let remedy = format!("stop it (`linerate stop` for a switch), or {}", self.elsewhere());
        Diagnostic::bad(self.place(path), reason, remedy)
    }

    /// Error for a path at which a process listens that does not hold the lock.
    fn taken(self, path: &Path) -> Diagnostic {
        match fs::symlink_metadata(path).map(|found| found.uid()) {
            Ok(owner) if owner != lock::user() => {
                self.bad(path, format!("a process of user {owner} listens there; it was not touched"))
            }
            _ => self.running(path),
        }
    }

    /// Error for a path that cannot be locked.
    fn refused(self, path: &Path, error: &LockError) -> Diagnostic {
        match error {
            LockError::Held => self.running(path),
            LockError::Kernel(e) => self.failed(path, e),
            LockError::HeldBy(_) | LockError::Link(_) | LockError::NoFile(_) | LockError::Foreign { .. } => {
                let remedy = format!(
                    "{}, in a directory that only this user can write to, or remove the lock",
                    self.elsewhere()
                );
                Diagnostic::bad(self.place(path), error, remedy)
            }
        }
    }
}

/// Path of a listening socket. Dropping it removes the files if this process owns them.
#[derive(Debug)]
pub(crate) struct SocketClaim {
    path: PathBuf,
    lock: PathBuf,
    held: File,
    is_owned: bool,
}

impl Drop for SocketClaim {
    fn drop(&mut self) {
        if self.is_owned {
            // It is not an error if a file is already removed.
            let _ = fs::remove_file(&self.path);
            let _ = fs::remove_file(&self.lock);
        }
    }
}

impl SocketClaim {
    /// The claim of another process, which owns the files until [`SocketClaim::own`].
    pub(crate) fn inherited(path: &Path, lock: File) -> Self {
        Self { path: path.to_owned(), lock: lock_path(path), held: lock, is_owned: false }
    }

    /// Makes this process the owner.
    pub(crate) fn own(&mut self) {
        self.is_owned = true;
    }

    /// The locked file.
    pub(crate) fn lock(&self) -> &File {
        &self.held
    }
}

/// Claims the path for this process and listens on it. Only the user of this process can connect.
pub(crate) fn claim(path: &Path, purpose: Purpose) -> Result<(SocketClaim, UnixListener), Diagnostic> {
    prepare_directory(path, purpose)?;
    let lock = lock_path(path);
    let held = lock::hold(&lock).map_err(|e| purpose.refused(path, &e))?;
    let listener = match UnixStream::connect(path) {
        // Another process listens there without the lock: it is not a linerate program, and its socket is kept.
        Ok(_) => Err(purpose.taken(path)),
        Err(_) => listen_on(path).map_err(|e| purpose.failed(path, e)),
    };
    let listener = listener.inspect_err(|_| drop(fs::remove_file(&lock)))?;
    Ok((SocketClaim { path: path.to_owned(), lock, held, is_owned: true }, listener))
}

/// Creates the default directories if missing; other directories must exist. A default directory belongs to this
/// user, and no other user can create files or links in it.
fn prepare_directory(path: &Path, purpose: Purpose) -> Result<(), Diagnostic> {
    let failed = |e: io::Error| purpose.failed(path, e);
    let directory = directory(path);
    if path != crate::host::default_control() {
        return fs::metadata(directory).map(drop).map_err(failed);
    }
    match DirBuilder::new().mode(0o755).create(directory) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(failed(e)),
        _ => {}
    }
    let found = fs::symlink_metadata(directory).map_err(failed)?;
    private(directory, &found).map_err(|reason| purpose.bad(path, reason))
}

/// The directory of a file; the working directory if the path names none.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether only this user can create files in a directory.
fn private(directory: &Path, found: &Metadata) -> Result<(), String> {
    let shown = directory.display();
    if !found.is_dir() {
        Err(format!("{shown} is a symbolic link or a file, not a directory"))
    } else if found.uid() != lock::user() {
        Err(format!("{shown} belongs to user {}, not to user {}", found.uid(), lock::user()))
    } else if found.mode() & 0o022 != 0 {
        Err(format!("other users can write to {shown} (mode {:o})", found.mode() & 0o7777))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::BAD_INPUT;
    use rustix::fs::Mode;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_its_owner_may_connect_and_the_files_go_with_the_claim() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sock");
        let (claim, _listener) = claim(&path, CONTROL).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(claim);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn second_bind_is_rejected_and_the_first_still_listens() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sock");
        let first = claim(&path, CONTROL).unwrap();
        let error = claim(&path, CONTROL).unwrap_err();
        assert_eq!(error.code, BAD_INPUT);
        assert!(error.reason.contains("already running"), "{error}");
        UnixStream::connect(&path).unwrap();
        drop(first);
    }

    #[test]
    fn errors_name_the_option_of_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("none/c.sock");
        let of = |purpose| claim(&path, purpose).unwrap_err();
        assert_eq!(of(CONTROL).place, format!("control socket {}", path.display()));
        let error = of(LISTEN);
        assert_eq!(error.place, format!("--listen {}", path.display()));
        assert_eq!(error.remedy, "choose another path with --listen");
        assert!(error.reason.contains("No such file"), "{error}");
    }

    #[test]
    fn a_path_without_directory_is_in_the_working_directory() {
        assert_eq!(
            (directory(Path::new("c.sock")), directory(Path::new("a/b"))),
            (Path::new("."), Path::new("a"))
        );
    }

    #[test]
    fn a_socket_left_behind_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sock");
        drop(UnixListener::bind(&path).unwrap());
        let (_claim, _listener) = claim(&path, CONTROL).unwrap();
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_file_that_is_no_socket_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("precious");
        fs::write(&path, "text").unwrap();
        assert!(claim(&path, CONTROL).unwrap_err().reason.contains("not a socket"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        assert!(!lock_path(&path).exists());
    }

    #[test]
    fn listening_socket_without_a_lock_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sock");
        let _stranger = UnixListener::bind(&path).unwrap();
        assert_eq!(claim(&path, CONTROL).unwrap_err().code, BAD_INPUT);
        UnixStream::connect(&path).unwrap();
        assert!(!lock_path(&path).exists());
    }

    #[test]
    fn a_lock_that_is_a_link_is_refused_by_name_and_its_target_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("c.sock"), dir.path().join("target"));
        std::os::unix::fs::symlink(&target, lock_path(&path)).unwrap();
        let error = claim(&path, CONTROL).unwrap_err();
        assert_eq!(error.code, BAD_INPUT);
        assert!(error.reason.contains("c.sock.lock is a symbolic link"), "{error}");
        assert!(!target.exists() && !path.exists() && lock_path(&path).is_symlink());
    }

    #[test]
    fn only_its_owner_may_open_the_lock_even_where_it_was_left_open_to_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sock");
        for left in [false, true] {
            if left {
                fs::write(lock_path(&path), "").unwrap();
                fs::set_permissions(lock_path(&path), fs::Permissions::from_mode(0o666)).unwrap();
            }
            let _claim = claim(&path, CONTROL).unwrap();
            let mode = fs::metadata(lock_path(&path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    /// Only root can change the owner of a file.
    #[test]
    fn a_lock_of_another_user_is_named_as_such() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sock");
        fs::write(lock_path(&path), "").unwrap();
        if std::os::unix::fs::chown(lock_path(&path), Some(65_534), None).is_ok() {
            let error = claim(&path, CONTROL).unwrap_err();
            assert_eq!(error.code, BAD_INPUT);
            assert!(error.reason.contains("belongs to user 65534"), "{error}");
            assert!(lock_path(&path).exists());
        }
    }

    #[test]
    fn lock_file_that_is_a_pipe_is_rejected_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sock");
        rustix::fs::mkfifoat(rustix::fs::CWD, lock_path(&path), Mode::RWXU).unwrap();
        let error = claim(&path, CONTROL).unwrap_err();
        assert!(error.code == BAD_INPUT && error.reason.contains("not a regular file"), "{error}");
    }

    #[test]
    fn directory_is_private_if_no_other_user_can_write_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let validated = |mode| {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
            private(dir.path(), &fs::symlink_metadata(dir.path()).unwrap())
        };
        assert_eq!((validated(0o700), validated(0o755)), (Ok(()), Ok(())));
        assert!(validated(0o1777).is_err_and(|why| why.contains("other users can write")));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(private(&link, &fs::symlink_metadata(&link).unwrap()).is_err());
    }
}
