//! UDP sockets.

use crate::address::{group_interface, linerate_endpoint, parsed_address};
use crate::buffer::{linerate_buffer, part};
use crate::call::{Failure, call_host, code, invalid};
use crate::host::{Inner, linerate_host};
use crate::pointer::{bytes, reference, store, text, wanted};
use crate::tcp::copied;
use host::Buffer;
use stack::ip::InterfaceId;
use stack::{Address, Endpoint, Slice, SocketId, Stack, Time, UdpError, UdpOptions};
use std::ffi::{c_char, c_int, c_void};

fn failure(error: UdpError) -> Failure {
    let (code, remedy) = match error {
        UdpError::Closed => (code::NOT_CONNECTED, "open another socket"),
        UdpError::InUse => (code::IN_USE, "pass another port"),
        UdpError::NotLocal => (code::NOT_AVAILABLE, "add the address first"),
        UdpError::NoRoute => (code::UNREACHABLE, "add an address or a route"),
        UdpError::NotConnected => (code::INVALID, "pass the destination, or connect the socket"),
        UdpError::InvalidAddress => {
            (code::INVALID, "pass an address of the socket's IP version, and a group to join one")
        }
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

/// Sends `length` bytes of a buffer from offset `offset` as a datagram, without a copy. `to` may be NULL for a
/// connected socket.
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

/// Interface of linerate_udp_join and linerate_udp_leave: the one over which datagrams to the group leave, and any.
pub const LINERATE_ANY_INTERFACE: c_int = -1;

/// Receives datagrams to a multicast group, such as "239.1.2.3" or "ff05::7", on an interface or by
/// LINERATE_ANY_INTERFACE. The socket must be bound to the unspecified address or to the group. Returns 1, or 0 if the
/// socket was a member before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_udp_join(
    host: *mut linerate_host,
    socket: u64,
    group: *const c_char,
    interface: c_int,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe { change_group(host, socket, (group, interface), Stack::udp_join) }
}

/// Leaves a multicast group. Returns 1, or 0 if the socket was no member.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_udp_leave(
    host: *mut linerate_host,
    socket: u64,
    group: *const c_char,
    interface: c_int,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe { change_group(host, socket, (group, interface), Stack::udp_leave) }
}

/// [`Stack::udp_join`] or [`Stack::udp_leave`].
type Change = fn(&mut Stack<Buffer>, SocketId, Option<InterfaceId>, Address, Time) -> Result<bool, UdpError>;

/// Joins or leaves a group. Returns 1 if that changed the membership, otherwise 0.
///
/// # Safety
/// By the contract of the interface.
unsafe fn change_group(
    host: *mut linerate_host,
    socket: u64,
    (group, interface): (*const c_char, c_int),
    change: Change,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            let interface = group_interface(inner, interface)?;
            let (group, now) = (parsed_address(text(group, "group")?)?, inner.queue.now());
            let changed = change(inner.queue.stack(), SocketId::from_bits(socket), interface, group, now);
            changed.map(c_int::from).map_err(failure)
        })
    }
}

/// Sets the hop limits of datagrams to hosts and to multicast groups, 64 and 1 by default. Neither may be 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_udp_set_hop_limits(
    host: *mut linerate_host,
    socket: u64,
    hop_limit: u8,
    group_hop_limit: u8,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            if hop_limit == 0 || group_hop_limit == 0 {
                return Err(invalid("a hop limit is 0", "pass 1 to 255"));
            }
            let (stack, socket) = (inner.queue.stack(), SocketId::from_bits(socket));
            let base = stack.udp_options(socket).ok_or_else(|| failure(UdpError::Closed))?;
            let options = UdpOptions { hop_limit, group_hop_limit, ..base };
            stack.udp_set_options(socket, options).map(|()| 0).map_err(failure)
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
