//! Diagnoses why a port does not connect to another process.

use crate::remedy;
use crate::settings::kinds::PortKind;
use crate::settings::kinds::socket::Mode;
use crate::settings::topology::PortSettings;
use console::Diagnostic;
use port::stream::SocketAddress;
use std::io::{Error, ErrorKind};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout of a connection attempt to a TCP address.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Returns an error if a port cannot connect to its Unix socket. Sockets that another of these ports creates and TCP
/// addresses are not checked.
pub(crate) fn validate(ports: &[PortSettings]) -> Result<(), Diagnostic> {
    let sockets: Vec<_> = ports.iter().map(|port| unix_socket(&port.kind)).collect();
    for (port, socket) in ports.iter().zip(&sockets) {
        let Some((path, Mode::Client)) = socket else { continue };
        let is_own = sockets.contains(&Some((path.clone(), Mode::Server)));
        match unreachable(port, "cannot connect", "add --wait") {
            Some(error) if !is_own => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Connects to the address to which the port connects, and returns the error: what `failed`, and as remedy to start
/// the other side or to `retry`. `None` if the port listens, if the address has a listener, or if the error has no
/// known remedy.
pub(super) fn unreachable(port: &PortSettings, failed: &str, retry: &str) -> Option<Diagnostic> {
    let error = match (&port.kind, unix_socket(&port.kind)) {
        (_, Some((path, Mode::Client))) => probe(&path)?,
        (PortKind::Stream(own), None) if own.mode == Mode::Client => match own.site() {
            SocketAddress::Tcp(address) => TcpStream::connect_timeout(&address, TIMEOUT).err()?,
            _ => return None,
        },
        _ => return None,
    };
    let mut remedy = remedy::connection(error.kind(), "other side", retry)?;
    if error.kind() == ErrorKind::NotFound && matches!(port.kind, PortKind::Stream(_)) {
        remedy.push_str(
            "; if it is passt and root starts it, its socket needs a folder that user `nobody` may enter and write, or \
             the option --runas 0",
        );
    }
    let reason = format!("{failed} to {}: {error}", port.kind.place());
    Some(Diagnostic::failed(format!("port \"{}\"", port.name), reason, remedy))
}

/// Path of the port's Unix socket, and the side that creates it.
fn unix_socket(kind: &PortKind) -> Option<(PathBuf, Mode)> {
    let socket = match kind {
        PortKind::VhostUser(own) => &own.socket,
        PortKind::VirtioUser(own) => &own.socket,
        PortKind::Memif(own) if !port::memif::is_abstract(&own.socket.path) => &own.socket,
        PortKind::Grant(own) => return Some((own.switch.clone(), Mode::Client)),
        PortKind::Stream(own) => match own.site() {
            SocketAddress::Unix(path) | SocketAddress::Packets(path) => return Some((path, own.mode)),
            SocketAddress::Tcp(_) => return None,
        },
        _ => return None,
    };
    Some((socket.path.clone(), socket.mode))
}

/// Returns why nothing can connect to a socket. Connects a socket of another type, which the kernel refuses if there
/// is a listener, so that the listener does not take it for its peer.
fn probe(socket: &Path) -> Option<Error> {
    UnixDatagram::unbound().and_then(|probe| probe.connect(socket)).err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::generate::input::{keys, validated_ports};
    use std::os::unix::net::UnixListener;

    fn port(keys_of_port: &str) -> PortSettings {
        validated_ports(vec![keys(keys_of_port).unwrap()]).unwrap().remove(0)
    }

    #[test]
    fn missing_or_closed_socket_of_a_client_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let at = |kind| port(&format!("kind={kind},socket={}", path.display()));
        let clients =
            ["virtio-user", "vhost-user,mode=client", "memif,mode=client", "stream,mode=client"].map(at);
        let servers =
            ["virtio-user,mode=server", "vhost-user", "memif,mode=server", "stream,mode=server"].map(at);
        let refused = |reason: &str| {
            for client in &clients {
                let text =
                    console::verdict("linerate", &validate(std::slice::from_ref(client)).unwrap_err().into())
                        .1
                        .unwrap();
                assert!(
                    text.contains(&format!("cannot connect to {}: {reason}", client.kind.place())),
                    "{text}"
                );
                assert!(text.contains("remedy: start the other side first, or add --wait"), "{text}");
            }
        };
        validate(&servers).unwrap();
        refused("No such file or directory");
        for (client, server) in clients.iter().zip(&servers) {
            validate(&[client.clone(), server.clone()]).unwrap();
        }
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        validate(&clients).unwrap();
        assert_eq!(
            listener.accept().unwrap_err().kind(),
            ErrorKind::WouldBlock,
            "the listener had a connection"
        );
        drop(listener);
        refused("Connection refused");
    }
}
