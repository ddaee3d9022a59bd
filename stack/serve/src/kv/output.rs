//! Replies of connections before they are sent: text, values by reference, and places of replies that other workers
//! prepare.

use super::links::Answer;
use super::stats::Totals;
use host::{Buffer, BufferPool, PoolLimits};
use stack::{Payload, Slice};
use std::collections::VecDeque;

/// Minimum length in bytes of a value that is sent from the store's memory. Shorter ones are copied behind their
/// header, so that replies to pipelined requests are one piece of the send buffer.
pub(super) const MIN_REFERENCED: usize = 1024;
/// Length in bytes at which text becomes a piece.
const TEXT: usize = 16 << 10;
/// Bytes of replies that are prepared before they are sent.
const MAX_PREPARED: usize = 256 << 10;
/// Bytes that a reply of another worker counts until it arrives: a connection waits for at most 16 of them.
const AWAITED: usize = MAX_PREPARED / 16;
/// Buffers for text of each size that may be unacknowledged; more text is allocated.
const POOL: PoolLimits = PoolLimits([16_384, 16_384, 1_024, 1_024]);

/// A part of a connection's replies.
#[derive(Debug)]
pub(super) enum Piece {
    Ready(Slice<Buffer>),
    /// Place of the reply with this number.
    Awaited(u64),
    /// Place of statistics, and the number of workers whose part is missing.
    Gathered(u64, usize, Totals),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Ready(data) => data.len(),
            Self::Awaited(_) | Self::Gathered(..) => AWAITED,
        }
    }

    fn has_slot(&self, wanted: u64) -> bool {
        matches!(self, Self::Awaited(slot) | Self::Gathered(slot, ..) if *slot == wanted)
    }
}

/// Replies of a batch of requests, in order.
#[derive(Debug)]
pub(super) struct Output {
    text: Vec<u8>,
    pieces: VecDeque<Piece>,
    /// Bytes of the pieces, and of replies that wait before them.
    bytes: usize,
    pool: BufferPool,
}

impl Output {
    pub(super) fn new() -> Self {
        let text = Vec::with_capacity(TEXT + 2 * MIN_REFERENCED);
        Self { text, pieces: VecDeque::new(), bytes: 0, pool: BufferPool::new(POOL) }
    }

    /// Prepares replies that follow others.
    pub(super) fn begin(&mut self, before: &Replies) {
        self.bytes = before.bytes;
    }

    /// Whether further replies may be prepared.
    pub(super) fn has_room(&self) -> bool {
        self.bytes + self.text.len() < MAX_PREPARED
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
        if self.text.len() >= TEXT {
            self.finish();
        }
    }

    pub(super) fn number(&mut self, value: u64) {
        self.text.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    /// A line.
    pub(super) fn line(&mut self, text: &[u8]) {
        self.push(text);
        self.push(b"\r\n");
    }

    /// A value with its CR and LF.
    pub(super) fn value(&mut self, value: &Slice<Buffer>) {
        if value.len() >= MIN_REFERENCED {
            self.finish();
            return self.add(Piece::Ready(value.clone()));
        }
        match value.data().bytes().and_then(|bytes| bytes.get(value.range())) {
            Some(bytes) => self.push(bytes),
            None => self.push(&value.to_vec()),
        }
    }

    /// Keeps a place for a reply of another worker.
    pub(super) fn awaits(&mut self, slot: u64) {
        self.finish();
        self.add(Piece::Awaited(slot));
    }

    /// Statistics to which `missing` other workers contribute.
    pub(super) fn gathers(&mut self, slot: u64, missing: usize, totals: Totals) {
        if missing == 0 {
            return self.push(&totals.text());
        }
        self.finish();
        self.add(Piece::Gathered(slot, missing, totals));
    }

    fn add(&mut self, piece: Piece) {
        self.bytes += piece.len();
        self.pieces.push_back(piece);
    }

    /// Makes a piece of the text.
    fn finish(&mut self) {
        if self.text.is_empty() {
            return;
        }
        let text = &self.text;
        let pooled = self.pool.fill(text.len(), |to| to.copy_from_slice(text));
        let piece = pooled.unwrap_or_else(|| Buffer::copy_of(text));
        self.add(Piece::Ready(Slice::new(piece)));
        self.text.clear();
    }

    /// The reply to a command with one key.
    pub(super) fn answer(&mut self) -> [Option<Slice<Buffer>>; 2] {
        self.finish();
        debug_assert!(self.pieces.len() <= 2, "a line and a value");
        [(); 2].map(|()| match self.pieces.pop_front() {
            Some(Piece::Ready(data)) => Some(data),
            _ => None,
        })
    }
}

/// Replies of a connection that wait for send space, or for other workers.
#[derive(Debug, Default)]
pub(super) struct Replies {
    pieces: VecDeque<Piece>,
    bytes: usize,
}

impl Replies {
    /// Whether further replies may be prepared.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < MAX_PREPARED
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Moves the replies of a batch behind the others.
    pub(super) fn extend(&mut self, out: &mut Output) {
        out.finish();
        self.bytes = out.bytes;
        self.pieces.append(&mut out.pieces);
    }

    /// The first part, if it can be sent.
    pub(super) fn front(&self) -> Option<&Slice<Buffer>> {
        match self.pieces.front()? {
            Piece::Ready(data) => Some(data),
            _ => None,
        }
    }

    /// Removes the first part.
    pub(super) fn pop(&mut self) {
        self.bytes -= self.pieces.pop_front().map_or(0, |piece| piece.len());
    }

    /// Puts an answer in its place.
    pub(super) fn fill(&mut self, slot: u64, answer: Answer) {
        // Answers arrive nearly in the order of their places.
        let Some(at) = self.pieces.iter().position(|piece| piece.has_slot(slot)) else { return };
        let [first, second] = match (answer, &mut self.pieces[at]) {
            (Answer::Totals(part), Piece::Gathered(_, missing, totals)) => {
                totals.add(&part);
                *missing -= 1;
                if *missing > 0 {
                    return;
                }
                [Some(Slice::new(Buffer::from(totals.text()))), None]
            }
            (Answer::Reply(reply), _) => reply,
            (Answer::Totals(_), _) => [None, None],
        };
        self.bytes -= AWAITED;
        self.bytes += first.iter().chain(&second).map(Slice::len).sum::<usize>();
        match (first, second) {
            (Some(first), second) => {
                self.pieces[at] = Piece::Ready(first);
                if let Some(second) = second {
                    self.pieces.insert(at + 1, Piece::Ready(second));
                }
            }
            _ => drop(self.pieces.remove(at)),
        }
    }
}
