//! One stream between two stacks over a vhost-user socket, by the length of the data that the sender passes at a time:
//! by copy, by reference, and by reference over a port without offloads.

use anyhow::{Result, bail};
use counted::pair;
use host::{App, Buffer, BufferPool, PoolLimits};
use port::virtio_user;
use serve::{Discard, Server};
use stack::tcp::ConnectionId;
use stack::{Endpoint, Event, Slice, Stack, Time};
use std::time::{Duration, Instant};

const SERVER: Endpoint = Endpoint::new(pair::SERVER, 9);
const LIMIT: Duration = Duration::from_mins(1);
/// Bytes of a reading for each request of other studies.
const BYTES_PER_REQUEST: u64 = 1024;
/// Least number of bytes of a reading, which fills the send buffer several times.
const MIN_BYTES: u64 = 32 << 20;

/// How data is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A copy of each piece.
    Copy,
    /// The same bytes for each piece; the port gathers header and payload, segments and sums.
    Reference,
    /// [`Way::Reference`] over a port without segmentation and checksum offloads.
    WithoutOffloads,
}

/// Keeps the send buffer full.
struct Sender {
    bytes: Vec<u8>,
    piece: Slice<Buffer>,
    /// Memory of copies; `None` to send references.
    pool: Option<BufferPool>,
}

impl Sender {
    fn new(way: Way, len: usize) -> Self {
        let bytes = vec![7; len];
        let pool = (way == Way::Copy).then(|| BufferPool::new(PoolLimits::default()));
        Self { piece: Slice::new(Buffer::from(bytes.clone())), bytes, pool }
    }

    fn copy(&mut self) -> Option<Slice<Buffer>> {
        let Self { bytes, pool, .. } = self;
        let copy = pool.as_mut()?.fill(bytes.len(), |to| to.copy_from_slice(bytes));
        Some(Slice::new(copy.unwrap_or_else(|| Buffer::from(bytes.clone()))))
    }

    fn fill(&mut self, stack: &mut Stack<Buffer>, to: ConnectionId) {
        loop {
            // The last call fails, so that the stack reports when there is space again. It needs no copy.
            let has_space = stack.send_space(to) >= self.bytes.len();
            let copy = if has_space { self.copy() } else { None };
            if stack.send(to, copy.unwrap_or_else(|| self.piece.clone())).is_err() {
                return;
            }
        }
    }
}

impl App for Sender {
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, _now: Time) {
        if let Event::Connected { connection } | Event::Writable { connection } = event {
            self.fill(stack, connection);
        }
    }
}

/// Nanoseconds of the sender per KiB that the receiver has, and frames that the sender passed to its port per MiB.
///
/// # Errors
/// If a host cannot be created, or the receiver has too little within a minute.
pub fn measure(way: Way, len: usize, requests: u64) -> Result<(f64, f64)> {
    let offloads = way != Way::WithoutOffloads;
    let mut hosts = pair::with(virtio_user::Options { offloads, ..pair::options() })?;
    let [receiver, host] = hosts.as_mut_slice() else { bail!("two hosts are needed") };
    let (mut discard, mut sender) = (Discard::default(), Sender::new(way, len));
    receiver.stack().listen(SERVER, stack::tcp::Options::default())?;
    let now = host.now();
    host.stack().connect(Endpoint::default(), SERVER, stack::tcp::Options::default(), now)?;
    let begin = Instant::now();
    let mut run = |until: u64| -> Result<(Duration, u64, u64)> {
        let mut sent = Duration::ZERO;
        while discard.served().received < until {
            let start = Instant::now();
            while host.poll(&mut sender) {}
            sent += start.elapsed();
            while receiver.poll(&mut discard) {}
            if begin.elapsed() > LIMIT {
                bail!("only {} bytes in {LIMIT:?}", discard.served().received);
            }
        }
        Ok((sent, discard.served().received, host.stack().counters().frames_out))
    };
    let bytes = (requests * BYTES_PER_REQUEST).max(MIN_BYTES);
    let (_, before, frames) = run(bytes / 10)?;
    let (sent, after, all) = run(before + bytes)?;
    let received = (after - before) as f64;
    Ok((sent.as_nanos() as f64 / (received / 1024.0), (all - frames) as f64 / (received / 1_048_576.0)))
}
