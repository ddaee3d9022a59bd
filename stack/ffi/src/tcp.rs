//! TCP: listeners and connections.

use crate::address::{linerate_endpoint, optional};
use crate::buffer::{linerate_buffer, part};
use crate::call::{Failure, call_host, code, invalid};
use crate::host::{Inner, linerate_host};
use crate::pointer::{bytes, reference, store, wanted};
use crate::tcp_options::{linerate_tcp_options, optional_options, options};
use host::Buffer;
use stack::tcp::{ConnectionId, ListenerId};
use stack::{ConnectError, ListenError, SendError, Slice};
use std::ffi::{c_int, c_void};

/// The connection has ended.
pub(crate) const fn ended() -> Failure {
    Failure::fixed(code::NOT_CONNECTED, c"the connection has ended; its last completion is LINERATE_CLOSED")
}

/// Accepts connections to an address and port of the host. The unspecified address stands for all addresses of its IP
/// version. Accepted connections start with these options (NULL: the defaults) and this user data. `listener` may be
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_listen(
    host: *mut linerate_host,
    local: *const linerate_endpoint,
    options: *const linerate_tcp_options,
    user: u64,
    listener: *mut u32,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            let (local, options) = (*reference(local, "local")?, optional_options(options)?);
            if local.port == 0 {
                return Err(invalid("local.port is 0", "pass the port that clients connect to"));
            }
            let id = inner.queue.listen(local.into(), options, user).map_err(|error| match error {
                ListenError::InUse => Failure::new(code::IN_USE, error, "pass another port"),
                ListenError::NotLocal => Failure::new(code::NOT_AVAILABLE, error, "add the address first"),
            })?;
            store(listener, id.to_bits());
            Ok(0)
        })
    }
}

/// Stops accepting connections. Those that are established continue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_unlisten(host: *mut linerate_host, listener: u32) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            inner.queue.stack().unlisten(ListenerId::from_bits(listener));
            Ok(0)
        })
    }
}

/// Opens a connection with these options (NULL: the defaults) and this user data. `local` may be NULL; its unspecified
/// address and port 0 are chosen by the stack. The connection completes as LINERATE_CONNECTED, or as LINERATE_CLOSED
/// with the reason.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_connect(
    host: *mut linerate_host,
    local: *const linerate_endpoint,
    remote: *const linerate_endpoint,
    options: *const linerate_tcp_options,
    user: u64,
    connection: *mut u64,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            wanted(connection, "connection")?;
            let ends = (optional(local), (*reference(remote, "remote")?).into());
            let id =
                inner.queue.connect(ends, optional_options(options)?, user).map_err(|error| match error {
                    ConnectError::NoRoute => {
                        Failure::new(code::UNREACHABLE, error, "add an address or a route")
                    }
                    ConnectError::InUse => Failure::new(code::IN_USE, error, "pass another port"),
                    ConnectError::TooMany => Failure::new(code::TOO_MANY, error, "close others first"),
                })?;
            store(connection, id.to_bits());
            Ok(0)
        })
    }
}

fn send(inner: &mut Inner, connection: u64, data: Slice<Buffer>) -> Result<c_int, Failure> {
    let sent = inner.queue.stack().send(ConnectionId::from_bits(connection), data);
    sent.map(|()| 0).map_err(|error| match error {
        SendError::Full => {
            Failure::fixed(code::AGAIN, c"the send buffer is full; send again after LINERATE_WRITABLE")
        }
        SendError::Closed => Failure::fixed(
            code::PIPE,
            c"the connection has ended, or its sending side is closed; send no more",
        ),
    })
}

/// An error if data never fits the send buffer.
fn fits(inner: &Inner, length: usize) -> Result<(), Failure> {
    let most = inner.send_buffer;
    if length > most as usize {
        const REMEDY: &str = "send it in parts, or raise linerate_options.send_buffer";
        let reason = format_args!("{length} bytes exceed the send buffer of {most} bytes");
        return Err(Failure::new(code::TOO_LONG, reason, REMEDY));
    }
    Ok(())
}

/// Sends `length` bytes of a buffer from offset `offset`, without a copy. All of them are queued, or none. The buffer
/// may be freed at once; its bytes are released when the peer has acknowledged them. Returns -EAGAIN if the send buffer
/// is full; LINERATE_WRITABLE reports space.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_send(
    host: *mut linerate_host,
    connection: u64,
    buffer: *const linerate_buffer,
    offset: usize,
    length: usize,
) -> c_int {
    // SAFETY: by the contract of the interface. A buffer of the batch is read before the host is changed.
    unsafe {
        call_host(host, |inner| {
            fits(inner, length)?;
            let data = part(&reference(buffer, "buffer")?.data, offset, length)?;
            send(inner, connection, data)
        })
    }
}

/// Sends a copy of `length` bytes. Otherwise as linerate_send.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_send_copy(
    host: *mut linerate_host,
    connection: u64,
    bytes: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            fits(inner, length)?;
            let data = self::copied(inner, self::bytes(bytes, length)?);
            send(inner, connection, data)
        })
    }
}

/// A copy of bytes in a buffer of the pool, or in one that is allocated if they exceed it.
pub(crate) fn copied(inner: &mut Inner, bytes: &[u8]) -> Slice<Buffer> {
    let pooled = inner.pool.fill(bytes.len(), |to| to.copy_from_slice(bytes));
    Slice::new(pooled.unwrap_or_else(|| bytes.to_vec().into()))
}

/// Runs a call for a connection that exists.
///
/// # Safety
/// As of [`call_host`].
unsafe fn call_connection(
    host: *mut linerate_host,
    connection: u64,
    work: impl FnOnce(&mut Inner, ConnectionId) -> Result<c_int, Failure>,
) -> c_int {
    let id = ConnectionId::from_bits(connection);
    let checked = |inner: &mut Inner| {
        if inner.queue.stack().endpoints(id).is_none() {
            return Err(ended());
        }
        work(inner, id)
    };
    // SAFETY: by the caller's contract.
    unsafe { call_host(host, checked) }
}

/// Reports that the program does not need `length` bytes of received data any more, which opens the receive window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_consumed(
    host: *mut linerate_host,
    connection: u64,
    length: usize,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_connection(host, connection, |inner, id| {
            inner.queue.stack().consumed(id, length);
            Ok(0)
        })
    }
}

/// Closes the sending side after all queued data. Receiving continues until the peer closes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_close(host: *mut linerate_host, connection: u64) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_connection(host, connection, |inner, id| {
            inner.queue.stack().close(id);
            Ok(0)
        })
    }
}

/// Ends a connection at once with a reset. LINERATE_CLOSED follows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_abort(host: *mut linerate_host, connection: u64) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_connection(host, connection, |inner, id| {
            inner.queue.stack().abort(id);
            Ok(0)
        })
    }
}

/// Whether acknowledged data of a connection is reported as LINERATE_ACKNOWLEDGED: 1 or 0, which is the default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_report_acknowledged(
    host: *mut linerate_host,
    connection: u64,
    report: u32,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_connection(host, connection, |inner, id| {
            if report > 1 {
                return Err(invalid(format_args!("report is {report}"), "pass 0 or 1"));
            }
            inner.queue.stack().report_acks(id, report == 1);
            Ok(0)
        })
    }
}

/// Stores the number of bytes that linerate_send accepts now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_send_space(
    host: *mut linerate_host,
    connection: u64,
    bytes: *mut usize,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_connection(host, connection, |inner, id| {
            wanted(bytes, "bytes")?;
            store(bytes, inner.queue.stack().send_space(id));
            Ok(0)
        })
    }
}

/// Stores both ends of a connection. Either pointer may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_endpoints(
    host: *mut linerate_host,
    connection: u64,
    local: *mut linerate_endpoint,
    remote: *mut linerate_endpoint,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_connection(host, connection, |inner, id| {
            let (own, peer) = inner.queue.stack().endpoints(id).ok_or(const { ended() })?;
            store(local, own.into());
            store(remote, peer.into());
            Ok(0)
        })
    }
}

/// Stores the settings of a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_tcp_options_get(
    host: *mut linerate_host,
    connection: u64,
    options: *mut linerate_tcp_options,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_connection(host, connection, |inner, id| {
            wanted(options, "options")?;
            store(options, inner.queue.stack().options(id).unwrap_or_default().into());
            Ok(0)
        })
    }
}

/// Changes the settings of a connection. Those of the handshake have no effect any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_tcp_options_set(
    host: *mut linerate_host,
    connection: u64,
    options: *const linerate_tcp_options,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_connection(host, connection, |inner, id| {
            let old = inner.queue.stack().options(id).unwrap_or_default();
            let new = self::options(reference(options, "options")?, old)?;
            inner.queue.stack().set_options(id, new);
            Ok(0)
        })
    }
}
