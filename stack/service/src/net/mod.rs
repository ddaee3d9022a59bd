//! Blocking sockets in the shape of `std::net`, over a [`Client`]. All can be used from several threads.

mod tcp;
mod udp;

pub use tcp::{Incoming, TcpListener, TcpStream};
pub use udp::UdpSocket;

use crate::Client;
use stack::Endpoint;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

/// Time limits and mode of a socket, shared by its clones as those of the kernel are.
#[derive(Debug, Default)]
struct Mode {
    read_timeout: Mutex<Option<Duration>>,
    write_timeout: Mutex<Option<Duration>>,
    is_nonblocking: std::sync::atomic::AtomicBool,
}

impl Mode {
    /// The time limit of a call.
    fn limit(&self, timeout: &Mutex<Option<Duration>>) -> Option<Duration> {
        if self.is_nonblocking.load(std::sync::atomic::Ordering::Relaxed) {
            return Some(Duration::ZERO);
        }
        *timeout.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn reads(&self) -> Option<Duration> {
        self.limit(&self.read_timeout)
    }

    fn writes(&self) -> Option<Duration> {
        self.limit(&self.write_timeout)
    }

    fn set_nonblocking(&self, is_nonblocking: bool) {
        self.is_nonblocking.store(is_nonblocking, std::sync::atomic::Ordering::Relaxed);
    }
}

fn set(to: &Mutex<Option<Duration>>, timeout: Option<Duration>) -> std::io::Result<()> {
    if timeout == Some(Duration::ZERO) {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "the timeout is zero"));
    }
    *to.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = timeout;
    Ok(())
}

fn socket_address(end: Endpoint) -> SocketAddr {
    SocketAddr::new(end.address.ip(), end.port)
}

/// The unspecified address of the same version, with port 0.
fn any(to: SocketAddr) -> Endpoint {
    let any: std::net::IpAddr = if to.is_ipv4() {
        std::net::Ipv4Addr::UNSPECIFIED.into()
    } else {
        std::net::Ipv6Addr::UNSPECIFIED.into()
    };
    SocketAddr::new(any, 0).into()
}

/// Opens sockets of a service.
impl Client {
    /// Listens on an address of the stack.
    ///
    /// # Errors
    /// If the address is in use or not one of the stack.
    pub fn bind_tcp(&self, local: SocketAddr) -> std::io::Result<TcpListener> {
        TcpListener::bind(self, local)
    }

    /// Connects to a remote end.
    ///
    /// # Errors
    /// If the connection is refused or times out.
    pub fn connect_tcp(&self, remote: SocketAddr) -> std::io::Result<TcpStream> {
        TcpStream::connect(self, remote)
    }

    /// Opens a UDP socket.
    ///
    /// # Errors
    /// If the address is in use or not one of the stack.
    pub fn bind_udp(&self, local: SocketAddr) -> std::io::Result<UdpSocket> {
        UdpSocket::bind(self, local)
    }
}
