//! Batches of completions as an array of structures.

use crate::address::linerate_endpoint;
use crate::buffer::{address, linerate_buffer};
use crate::call::{call_host, code};
use crate::host::{Inner, linerate_host};
use crate::pointer::{store, wanted};
use api::queue::Completion;
use host::Buffer;
use stack::{Closed, DatagramError, Event, Slice};
use std::ffi::c_int;
use std::ptr::null;
use std::time::Duration;

/// Maximum number of completions of a batch.
pub const LINERATE_MAX_BATCH: usize = 64;

const _: () = assert!(LINERATE_MAX_BATCH == api::queue::MAX_BATCH);

/// Kind of a completion.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum linerate_kind {
    /// A peer opened a connection: `id`, `listener`, `remote`.
    LINERATE_ACCEPTED = 1,
    /// A connection opened here is established: `id`.
    LINERATE_CONNECTED = 2,
    /// Bytes of a connection: `id`, `buffer`, `data`, `length`. linerate_consumed opens the window again.
    LINERATE_DATA = 3,
    /// The peer will send no more on a connection: `id`.
    LINERATE_FINISHED = 4,
    /// A connection has space to send again, after a function returned -EAGAIN: `id`.
    LINERATE_WRITABLE = 5,
    /// The peer acknowledged `length` bytes of a connection (linerate_report_acknowledged): `id`.
    LINERATE_ACKNOWLEDGED = 6,
    /// A connection has ended, or was not established: `id`, `status`. No completion of it follows.
    LINERATE_CLOSED = 7,
    /// A datagram: `id` of the socket, `remote`, `local`, `buffer`, `data`, `length`.
    LINERATE_DATAGRAM = 8,
    /// The network reports that a datagram of a connected socket was not delivered: `id` of the socket, `status`.
    LINERATE_DATAGRAM_LOST = 9,
}

/// A completion. Fields that its kind does not name are zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct linerate_completion {
    /// Kind.
    pub kind: linerate_kind,
    /// Reason of an end: 0 if both sides closed, otherwise a negative error number.
    pub status: i32,
    /// User data of the connection or socket. An accepted connection starts with that of its listener.
    pub user: u64,
    /// The connection or socket.
    pub id: u64,
    /// The bytes. NULL if a peer of a port can still change them (linerate_options.keep_foreign), or if there are none.
    pub data: *const u8,
    /// Number of bytes.
    pub length: usize,
    /// Counted handle of the bytes.
    pub buffer: *const linerate_buffer,
    /// The listener.
    pub listener: u32,
    /// The peer.
    pub remote: linerate_endpoint,
    /// Own address and port.
    pub local: linerate_endpoint,
}

/// Result of a connection as an error number.
const fn status(reason: Closed) -> c_int {
    match reason {
        Closed::Normally => 0,
        Closed::Reset => code::RESET,
        Closed::Refused => code::REFUSED,
        Closed::TimedOut => code::TIMED_OUT,
        Closed::Unreachable => code::UNREACHABLE,
        Closed::Aborted => code::ABORTED,
    }
}

/// Loss of a datagram as an error number.
const fn loss(error: DatagramError) -> c_int {
    match error {
        DatagramError::Unreachable => code::UNREACHABLE,
        DatagramError::Refused => code::REFUSED,
        DatagramError::TooBig(_) => code::TOO_LONG,
    }
}

impl linerate_completion {
    /// A completion for this user data, with all other fields zero.
    fn empty(user: u64) -> Self {
        Self {
            kind: linerate_kind::LINERATE_CLOSED,
            status: 0,
            user,
            id: 0,
            data: null(),
            length: 0,
            buffer: null(),
            listener: 0,
            remote: linerate_endpoint::default(),
            local: linerate_endpoint::default(),
        }
    }
}

impl Inner {
    /// Starts a batch. Frees the data of the previous one.
    fn wait(&mut self, max: usize, timeout: Duration) -> usize {
        self.batch.clear();
        self.data.clear();
        self.queue.wait(max, timeout);
        while let Some(completion) = self.queue.pop() {
            let completion = self.convert(completion);
            self.batch.push(completion);
        }
        self.batch.len()
    }

    fn convert(&mut self, Completion { user, event }: Completion) -> linerate_completion {
        type Kind = linerate_kind;
        let mut c = linerate_completion::empty(user);
        (c.kind, c.id) = match event {
            Event::Accepted { connection, listener, remote } => {
                (c.listener, c.remote) = (listener.to_bits(), remote.into());
                (Kind::LINERATE_ACCEPTED, connection.to_bits())
            }
            Event::Connected { connection } => (Kind::LINERATE_CONNECTED, connection.to_bits()),
            Event::Data { connection, data } => {
                self.add(data, &mut c);
                (Kind::LINERATE_DATA, connection.to_bits())
            }
            Event::Finished { connection } => (Kind::LINERATE_FINISHED, connection.to_bits()),
            Event::Writable { connection } => (Kind::LINERATE_WRITABLE, connection.to_bits()),
            Event::Acknowledged { connection, bytes, .. } => {
                c.length = bytes as usize;
                (Kind::LINERATE_ACKNOWLEDGED, connection.to_bits())
            }
            Event::Closed { connection, reason } => {
                c.status = status(reason);
                (Kind::LINERATE_CLOSED, connection.to_bits())
            }
            Event::Datagram { socket, from, to, data } => {
                (c.remote, c.local) = (from.into(), to.into());
                self.add(data, &mut c);
                (Kind::LINERATE_DATAGRAM, socket.to_bits())
            }
            Event::DatagramLost { socket, error } => {
                c.status = loss(error);
                (Kind::LINERATE_DATAGRAM_LOST, socket.to_bits())
            }
        };
        c
    }

    /// Adds data to the batch.
    #[inline]
    fn add(&mut self, data: Slice<Buffer>, completion: &mut linerate_completion) {
        let is_foreign = data.data().bytes().is_none();
        let data = if is_foreign && !self.keep_foreign { self.private(&data) } else { data };
        completion.length = data.len();
        completion.data = if data.is_empty() { null() } else { address(&data) };
        // The capacity is that of a batch, so the buffer is not moved by those that follow.
        completion.buffer = self.data.as_ptr().wrapping_add(self.data.len());
        self.data.push(linerate_buffer { data, is_kept: false });
    }

    /// A copy in memory of this process.
    #[cold]
    fn private(&mut self, data: &Slice<Buffer>) -> Slice<Buffer> {
        let copy = self.pool.fill(data.len(), |to| data.copy_to(0, to));
        Slice::new(copy.unwrap_or_else(|| data.to_vec().into()))
    }
}

/// Sends what the program has queued, and waits for completions, at most `timeout_ms` milliseconds. Stores the address
/// of an array of at most `max` completions (1 to LINERATE_MAX_BATCH), and returns its length, which is 0 after the
/// timeout. The array and its data are valid until the next call of this function; linerate_buffer_keep keeps data
/// longer. One call receives at most one burst of each receive queue, and nothing while completions are pending.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_wait(
    host: *mut linerate_host,
    completions: *mut *const linerate_completion,
    max: usize,
    timeout_ms: u32,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            wanted(completions, "completions")?;
            if !(1..=LINERATE_MAX_BATCH).contains(&max) {
                return Err(crate::call::invalid(
                    format_args!("max is {max}"),
                    "pass 1 to LINERATE_MAX_BATCH",
                ));
            }
            let length = inner.wait(max, Duration::from_millis(timeout_ms.into()));
            store(completions, inner.batch.as_ptr());
            Ok(c_int::try_from(length).unwrap_or(c_int::MAX))
        })
    }
}

/// Sets the user data of a connection, also in the rest of the batch. Returns -ENOTCONN if the connection has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_set_user(host: *mut linerate_host, connection: u64, user: u64) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            let is_set = inner.queue.set_user(stack::tcp::ConnectionId::from_bits(connection), user);
            let (first, length) = (inner.batch.as_mut_ptr(), inner.batch.len());
            for at in 0..length {
                // The program holds a pointer to the array, so no reference to all of it is made.
                let completion = &mut *first.add(at);
                if is_of(completion.kind) && completion.id == connection {
                    completion.user = user;
                }
            }
            if is_set { Ok(0) } else { Err(crate::tcp::ended()) }
        })
    }
}

/// Whether a completion is one of a connection.
const fn is_of(kind: linerate_kind) -> bool {
    !matches!(kind, linerate_kind::LINERATE_DATAGRAM | linerate_kind::LINERATE_DATAGRAM_LOST)
}
