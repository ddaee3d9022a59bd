//! UDP sockets.

use crate::address::linerate_endpoint;
use crate::buffer::{linerate_buffer, part};
use crate::call::{Failure, call_host, code};
use crate::host::{Inner, linerate_host};
use crate::pointer::{bytes, reference, store, wanted};
use crate::tcp::copied;
use host::Buffer;
use stack::{Endpoint, Slice, SocketId, UdpError, UdpOptions};
use std::ffi::{c_int, c_void};

fn failure(error: UdpError) -> Failure {
    let (code, remedy) = match error {
        UdpError::Closed => (code::NOT_CONNECTED, "open another socket"),
        UdpError::InUse => (code::IN_USE, "pass another port"),
        UdpError::NotLocal => (code::NOT_AVAILABLE, "add the address first"),
        UdpError::NoRoute => (code::UNREACHABLE, "add an address or a route"),
        UdpError::NotConnected => (code::INVALID, "pass the destination, or connect the socket"),
        UdpError::InvalidAddress => (code::INVALID, "pass an address of the socket's IP version"),
        UdpError::TooLong(_) => (code::TOO_LONG, "send less at a time"),
        UdpError::TooMany => (code::TOO_MANY, "close others first"),
    };
    Failure::new(code, error, remedy)
}

/// Opens a UDP socket with this user data at an address and port of the host. The unspecified address stands for all
/// addresses of its IP version, and port 0 is chosen by the stack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_udp_open(
    host: *mut linerate_host,
    local: *const linerate_endpoint,
    user: u64,
    socket: *mut u64,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            wanted(socket, "socket")?;
            let local = *reference(local, "local")?;
            let id = inner.queue.udp_bind(local.into(), UdpOptions::default(), user).map_err(failure)?;
            store(socket, id.to_bits());
            Ok(0)
        })
    }
}

/// Limits a socket to one remote end. Datagrams need no destination then, and their errors are reported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_udp_connect(
    host: *mut linerate_host,
    socket: u64,
    remote: *const linerate_endpoint,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            let (remote, now) = (*reference(remote, "remote")?, inner.queue.now());
            let connected = inner.queue.stack().udp_connect(SocketId::from_bits(socket), remote.into(), now);
            connected.map(|()| 0).map_err(failure)
        })
    }
}

/// Sends a datagram. A connected socket needs no destination.
fn send(inner: &mut Inner, socket: u64, to: Option<Endpoint>, data: Slice<Buffer>) -> Result<c_int, Failure> {
    let now = inner.queue.now();
    let sent = inner.queue.stack().udp_send(SocketId::from_bits(socket), to, vec![data], now);
    sent.map(|()| 0).map_err(failure)
}

/// Sends `length` bytes of a buffer from offset `offset` as a datagram, without a copy. `to` may be NULL for a connected
/// socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_udp_send(
    host: *mut linerate_host,
    socket: u64,
    to: *const linerate_endpoint,
    buffer: *const linerate_buffer,
    offset: usize,
    length: usize,
) -> c_int {
    // SAFETY: by the contract of the interface. A buffer of the batch is read before the host is changed.
    unsafe {
        call_host(host, |inner| {
            let data = part(&reference(buffer, "buffer")?.data, offset, length)?;
            send(inner, socket, to.as_ref().copied().map(Endpoint::from), data)
        })
    }
}

/// Sends a copy of `length` bytes as a datagram. `to` may be NULL for a connected socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_udp_send_copy(
    host: *mut linerate_host,
    socket: u64,
    to: *const linerate_endpoint,
    bytes: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            let data = copied(inner, self::bytes(bytes, length)?);
            send(inner, socket, to.as_ref().copied().map(Endpoint::from), data)
        })
    }
}

/// Closes a UDP socket. Its completions that are not in a batch are dropped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_udp_close(host: *mut linerate_host, socket: u64) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            let now = inner.queue.now();
            inner.queue.stack().udp_close(SocketId::from_bits(socket), now);
            Ok(0)
        })
    }
}
