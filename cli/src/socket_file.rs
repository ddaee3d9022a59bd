//! Files of listening Unix sockets: a file left behind is replaced, one of a running process is never touched, and the
//! file is removed when its listener is no longer used.

use console::Diagnostic;
use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen as listen_at, socket_with,
};
use std::fmt::Display;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use tokio::net::unix::UCred;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// Path of a listening socket. Dropping it removes the file if this process owns it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    is_owned: bool,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_owned {
            // It is not an error if the file is already removed.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl SocketFile {
    /// The file of a socket of another process, which owns it until [`SocketFile::own`].
    pub(crate) fn inherited(path: &Path) -> Self {
        Self { path: path.to_owned(), is_owned: false }
    }

    /// Makes this process the owner.
    pub(crate) fn own(&mut self) {
        self.is_owned = true;
    }
}

/// Listens at `path`, to which only the user of this process can connect. `place` and `remedy` are those of the error.
pub(crate) fn listen(
    path: &Path,
    place: impl Display,
    remedy: &str,
) -> Result<(SocketFile, UnixListener), Diagnostic> {
    if UnixStream::connect(path).is_ok() {
        let reason = "another process listens there; it was not touched";
        return Err(Diagnostic::bad(place, reason, remedy));
    }
    let listener = listen_on(path).map_err(|error| Diagnostic::failed(place, error, remedy))?;
    Ok((SocketFile { path: path.to_owned(), is_owned: true }, listener))
}

/// Name of the process at the other end of a connection for the log, as the kernel knows it.
pub(crate) fn peer(found: Option<&UCred>) -> String {
    let Some(found) = found else { return "unknown".to_owned() };
    let process = found.pid().map_or_else(String::new, |pid| format!(", process {pid}"));
    format!("user {}{process}", found.uid())
}

/// Listens on a new socket file that was never accessible to other users.
pub(crate) fn listen_on(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => return Err(io::Error::other("a file that is not a socket is there")),
        Err(_) => {}
    }
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Linux gives the file the mode of the socket, so that other users cannot connect at any moment.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    // The file is there from here on.
    if let Err(error) = listen_at(&socket, BACKLOG) {
        let _ = fs::remove_file(path);
        return Err(error.into());
    }
    Ok(UnixListener::from(socket))
}
