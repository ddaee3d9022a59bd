//! Clients of the kernel's TCP, and bytes to exchange.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

fn endpoint(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

/// A connection whose connecting, reads and writes are limited.
pub fn connect(address: &str, port: u16, limit: Duration) -> TcpStream {
    let end = endpoint(address, port);
    let stream = TcpStream::connect_timeout(&end, limit).unwrap_or_else(|error| panic!("{end}: {error}"));
    stream.set_read_timeout(Some(limit)).expect("a time limit");
    stream.set_write_timeout(Some(limit)).expect("a time limit");
    stream
}

/// Whether a new connection is reset: during connect, or at the first read.
pub fn is_reset(address: &str, port: u16, limit: Duration) -> bool {
    let Ok(mut stream) = TcpStream::connect_timeout(&endpoint(address, port), limit) else { return true };
    stream.set_read_timeout(Some(limit)).expect("a time limit");
    stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}
