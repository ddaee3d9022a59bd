//! Diagnoses why a port does not connect to another process.

use crate::settings::kinds::PortKind;
use crate::settings::kinds::socket::{Mode, SocketSettings};
use port::stream::SocketAddress;
use std::io::{Error, ErrorKind};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Timeout of a connection attempt to a TCP address.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Connects to the address to which the port connects, and returns the error with its remedy. `None` if the port
/// listens, if the connection succeeds, or if the error has no known remedy.
pub(super) fn unreachable(kind: &PortKind) -> Option<(Error, &'static str)> {
    let error = match kind {
        PortKind::VhostUser(own) => socket(&own.socket)?,
        PortKind::VirtioUser(own) => socket(&own.socket)?,
        PortKind::Memif(own) => socket(&own.socket)?,
        PortKind::Stream(own) if own.mode == Mode::Client => match own.site() {
            SocketAddress::Tcp(address) => TcpStream::connect_timeout(&address, TIMEOUT).err()?,
            SocketAddress::Unix(path) | SocketAddress::Packets(path) => UnixStream::connect(path).err()?,
        },
        _ => return None,
    };
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied => {
            "run as a user with write permission on the socket and search permission on its directory"
        }
        ErrorKind::NotFound if matches!(kind, PortKind::Stream(_)) => {
            "start the other side first; if it is passt and root starts it, its socket needs a folder that user \
             `nobody` may enter and write, or the option --runas 0"
        }
        ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::TimedOut => {
            "start the other side first, or give it more time with --timeout"
        }
        _ => return None,
    };
    Some((error, remedy))
}

fn socket(socket: &SocketSettings) -> Option<Error> {
    let is_client = socket.mode == Mode::Client && !port::memif::is_abstract(&socket.path);
    is_client.then(|| UnixStream::connect(Path::new(&socket.path)).err()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::kinds::virtio_user::VirtioUser;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_reason_is_that_of_the_socket() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let at = |mode| {
            let socket = SocketSettings { path: path.clone(), mode, ..SocketSettings::default() };
            unreachable(&PortKind::VirtioUser(VirtioUser { socket, ..VirtioUser::default() }))
        };
        assert_eq!(at(Mode::Client).unwrap().0.kind(), ErrorKind::NotFound);
        assert!(at(Mode::Server).is_none());
        let listener = UnixListener::bind(&path).unwrap();
        assert!(at(Mode::Client).is_none());
        drop(listener);
        assert_eq!(at(Mode::Client).unwrap().0.kind(), ErrorKind::ConnectionRefused);
    }
}
