//! Attackers at memif and stream ports: a memif client and a stream peer. A turn sends at most one frame, which is
//! copied, so their share of the thread is larger than that of a prepared ring.

use super::super::GuestError;
use super::back_end::Violation;
use super::device::Counts;
use super::group::Unit;
use super::memif::RingAttack;
use port::memif::{AttachError, Endpoint, Options};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Connection of a device to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// A vhost-user socket, as front end.
    Vhost,
    /// A vhost-user socket, as back end, for a switch whose port is the driver.
    BackEnd(Violation),
    /// A memif socket; buffer size in bytes.
    Memif(u32),
    /// A memif socket, with rings that the attacker writes directly.
    RawMemif(RingAttack),
    /// A stream socket with a length in front of each frame.
    Stream,
}

/// Turns between two polls for received data.
const POLL_TURNS: u32 = 64;

/// A memif client.
struct Memif {
    endpoint: Endpoint,
    frame: Vec<u8>,
    turns: u32,
    counts: Counts,
}

/// A peer of a stream socket.
struct Stream {
    socket: UnixStream,
    /// A frame with its length prefix, and the number of bytes written so far.
    bytes: Vec<u8>,
    at: usize,
    turns: u32,
    counts: Counts,
}

/// Attaches to the memif socket at `path` with buffers of `buffer_size` bytes.
pub(super) fn memif(
    path: &Path,
    buffer_size: u32,
    frame: Vec<u8>,
    timeout: Duration,
) -> Result<Box<dyn Unit>, GuestError> {
    let endpoint = Endpoint::attach(path, Options { buffer_size, ..Options::default() }, timeout)?;
    Ok(Box::new(Memif { endpoint, frame, turns: 0, counts: Counts::default() }))
}

/// Connects to the stream socket at `path`.
pub(super) fn stream(path: &Path, frame: &[u8]) -> Result<Box<dyn Unit>, GuestError> {
    let socket = UnixStream::connect(path).map_err(|_| GuestError::Closed)?;
    socket.set_nonblocking(true).map_err(|_| GuestError::Closed)?;
    let bytes = [&(frame.len() as u32).to_be_bytes(), frame].concat();
    Ok(Box::new(Stream { socket, bytes, at: 0, turns: 0, counts: Counts::default() }))
}

impl From<AttachError> for GuestError {
    fn from(error: AttachError) -> Self {
        match error {
            AttachError::NoServer(..) | AttachError::Timeout(_) | AttachError::Closed => Self::Closed,
            error => Self::Memory(error.to_string()),
        }
    }
}

impl Unit for Memif {
    fn step(&mut self) -> Result<(), GuestError> {
        self.counts.sent += self.endpoint.send([&self.frame[..]])? as u64;
        self.turns += 1;
        if self.turns.is_multiple_of(POLL_TURNS) {
            self.counts.received += self.endpoint.receive(|_| {})? as u64;
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

impl Unit for Stream {
    fn step(&mut self) -> Result<(), GuestError> {
        match self.socket.write(&self.bytes[self.at..]) {
            Ok(written) => self.at += written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return Err(GuestError::Closed),
        }
        if self.at == self.bytes.len() {
            self.at = 0;
            self.counts.sent += 1;
        }
        self.turns += 1;
        if self.turns.is_multiple_of(POLL_TURNS) {
            // Received data is discarded; only the end of the stream is checked.
            if matches!(self.socket.read(&mut [0; 4096]), Ok(0)) {
                return Err(GuestError::Closed);
            }
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}
