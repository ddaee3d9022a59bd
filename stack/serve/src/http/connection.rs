//! State of a connection.

use super::content::Discarded;
use super::entry::Found;
use super::stream::Stream;
use files::Block;
use rustix::fs::Stat;
use stack::Time;
use stack::tcp::ConnectionId;
use std::collections::VecDeque;

/// Received bytes that were not processed. The receive window bounds them, because it opens when they are.
#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    start: usize,
    /// Bytes of the rest in which no end of a head was found.
    pub(super) scanned: usize,
}

impl Input {
    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Appends `len` bytes, written by `write`.
    pub(super) fn push(&mut self, len: usize, write: impl FnOnce(&mut [u8])) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let end = self.bytes.len();
        self.bytes.resize(end + len, 0);
        write(&mut self.bytes[end..]);
    }

    pub(super) fn consume(&mut self, len: usize) {
        self.start = (self.start + len).min(self.bytes.len());
        self.scanned = 0;
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }
}

/// State of a connection.
#[derive(Debug, Default)]
pub(super) enum State {
    /// Waits for the head of a request.
    #[default]
    Head,
    /// The file of the request is looked up; with `stat`, its bytes are being read.
    Lookup { path: Box<[u8]>, stat: Option<Box<Stat>> },
    /// The file of the request was looked up.
    Ready(Found),
    /// The body of the response is read and sent.
    Stream(Stream),
    /// The response was sent, and the content of the request is discarded.
    Discard,
    /// The sending side is closed; received bytes are discarded.
    Closing,
}

/// A connection.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others and of the state")]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    /// Distinguishes results of reads for this connection from those for a former one with the same index.
    pub(super) serial: u32,
    pub(super) input: Input,
    pub(super) state: State,
    /// Content of the current request.
    pub(super) content: Discarded,
    /// Whether the connection ends after the response.
    pub(super) closes: bool,
    /// Whether the client has finished sending.
    pub(super) is_finished: bool,
    /// Time since which the state has been waiting for the client.
    pub(super) since: Time,
    /// Bytes passed to the stack.
    pub(super) sent: u64,
    /// Blocks whose bytes may be unacknowledged, with the position of their end.
    pub(super) held: VecDeque<(u64, Block)>,
    pub(super) progress: Progress,
    /// Whether acknowledgements are reported.
    pub(super) reports: bool,
    /// Whether it is in the queue for a block, or for a further turn.
    pub(super) is_queued: bool,
}

/// Acknowledgements since the last look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Time of the last progress.
    pub(super) at: Time,
    /// Bytes whose memory the stack had released then.
    pub(super) released: u64,
    /// Bytes acknowledged since, as far as they are reported.
    pub(super) acked: u64,
}

impl Connection {
    pub(super) fn new(id: ConnectionId, serial: u32, now: Time) -> Self {
        Self {
            id,
            serial,
            input: Input::default(),
            state: State::Head,
            content: Discarded::NONE,
            closes: false,
            is_finished: false,
            since: now,
            sent: 0,
            held: VecDeque::new(),
            progress: Progress { at: now, released: 0, acked: 0 },
            reports: false,
            is_queued: false,
        }
    }
}
