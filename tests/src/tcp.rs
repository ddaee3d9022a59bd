//! Clients and servers of the kernel's TCP.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::data;
use crate::netns::Netns;

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

/// Sends `len` bytes, shuts down and reads until the end of the stream, at the same time. Panics if the server does not
/// return the same bytes.
pub fn exchange(address: &str, port: u16, (seed, len): (u64, usize), limit: Duration) {
    let (mut stream, sent) = (connect(address, port, limit), data::bytes(seed, len));
    let mut sender = stream.try_clone().expect("a second handle");
    let received = std::thread::scope(|scope| {
        scope.spawn(|| {
            sender.write_all(&sent).expect("the server reads");
            sender.shutdown(Shutdown::Write).expect("the connection is open");
        });
        let mut received = Vec::with_capacity(len);
        stream.read_to_end(&mut received).expect("the server closes");
        received
    });
    assert!(received == sent, "{address} {seed}: {} of {len} bytes, or others", received.len());
}

/// Whether a new connection is reset: during connect, or at the first read.
pub fn is_reset(address: &str, port: u16, limit: Duration) -> bool {
    let Ok(mut stream) = TcpStream::connect_timeout(&endpoint(address, port), limit) else { return true };
    stream.set_read_timeout(Some(limit)).expect("a time limit");
    stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

/// Listens in a namespace, and handles each connection on a thread of its own.
pub fn listen(netns: &Netns, port: u16, handle: fn(TcpStream)) {
    netns.enter(move || {
        let listener = TcpListener::bind(("::", port)).expect("a free port");
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || handle(stream));
            }
        });
    });
}

/// Returns what it receives, for [`listen`].
pub fn echo(mut stream: TcpStream) {
    let mut bytes = vec![0; 65_536];
    while let Ok(n @ 1..) = stream.read(&mut bytes) {
        if stream.write_all(&bytes[..n]).is_err() {
            return;
        }
    }
}
