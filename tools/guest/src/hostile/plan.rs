//! What one device of an attack does, before any ring exists: features, memory, chains to send, buffers to receive into.

use super::super::frames::Mac;
use super::frames::HEADER;
use std::time::{Duration, Instant};

/// A feature and its name.
pub(super) type Need = (u64, &'static str);

/// Bytes of the image, as one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) at: u32,
    pub(super) len: u32,
}

/// Whom an attack concerns.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Address of the attacker's first device.
    pub own: Mac,
    /// Where its frames go: its second device, or a neighbour.
    pub to: Mac,
    /// The neighbour whose address `mac-theft` takes.
    pub victim: Option<Mac>,
    /// Entries of the ring that the attack concerns; left out: the largest that it has a use for.
    pub queue_size: Option<u16>,
}

impl Target {
    /// Seen from the second device, whose frames go to the first.
    pub(super) fn reversed(&self) -> Self {
        Self { own: self.to, to: self.own, ..*self }
    }
}

/// Buffers to receive into.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receive {
    pub(super) entries: u16,
    /// Bytes of each, virtio-net header included.
    pub(super) bytes: u32,
    /// Whether received buffers are made available again.
    pub(super) returns: bool,
}

/// One device of an attack.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) needs: &'static [Need],
    /// Memory regions, each with the same content.
    pub(super) regions: u8,
    /// Content of the memory behind the rings.
    pub(super) image: Vec<u8>,
    /// The chains that take turns; none: nothing is sent.
    pub(super) variants: Vec<Vec<Piece>>,
    /// Whether each chain lies in an indirect table.
    pub(super) tables: bool,
    /// Entries of the transmit ring.
    pub(super) entries: u16,
    /// Chains a second; left out: as many as the switch takes.
    pub(super) per_second: Option<u32>,
    /// Whether each frame gets a random source address.
    pub(super) random_source: bool,
    /// Whether every turn kicks.
    pub(super) kicks: bool,
    pub(super) receive: Receive,
}

/// When a plan's chains may be sent.
pub(super) struct Pace {
    every: Option<Duration>,
    due: Instant,
}

impl Pace {
    pub(super) fn of(plan: &Plan) -> Self {
        Self { every: plan.per_second.map(|rate| Duration::from_secs(1) / rate), due: Instant::now() }
    }

    /// How many chains this turn may send: `most` without a rate, and otherwise one when it is due.
    #[inline]
    pub(super) fn allowed(&mut self, most: usize) -> usize {
        let Some(every) = self.every else { return most };
        let now = Instant::now();
        if now < self.due {
            return 0;
        }
        self.due = now + every;
        1
    }
}

impl Default for Receive {
    fn default() -> Self {
        Self { entries: 1024, bytes: 2048, returns: true }
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            needs: &[],
            regions: 1,
            image: Vec::new(),
            variants: Vec::new(),
            tables: false,
            entries: 256,
            per_second: None,
            random_source: false,
            kicks: false,
            receive: Receive::default(),
        }
    }
}

/// Where frames begin in an image.
const ALIGN: usize = 256;

impl Plan {
    /// Frames, with their headers, that take turns, each in one buffer.
    pub(super) fn of(frames: Vec<Vec<u8>>) -> Self {
        Self::cut(frames, |at, len| vec![Piece { at, len }])
    }

    /// Every frame with its header, in one piece.
    pub(super) fn frames(&self) -> Vec<Vec<u8>> {
        let bytes = |piece: &Piece| &self.image[piece.at as usize..(piece.at + piece.len) as usize];
        self.variants.iter().map(|pieces| pieces.iter().flat_map(bytes).copied().collect()).collect()
    }

    /// The frame of an image that holds one, without the virtio-net header.
    pub(super) fn frame(&self) -> &[u8] {
        self.image.get(HEADER..).unwrap_or_default()
    }

    /// Frames in pieces: `cut` is told where a frame begins and its bytes.
    pub(super) fn cut(frames: Vec<Vec<u8>>, cut: impl Fn(u32, u32) -> Vec<Piece>) -> Self {
        let (mut image, mut variants) = (Vec::new(), Vec::new());
        for frame in frames {
            image.resize(image.len().next_multiple_of(ALIGN), 0);
            variants.push(cut(image.len() as u32, frame.len() as u32));
            image.extend(frame);
        }
        Self { image, variants, ..Self::default() }
    }
}

/// `count` buffers of one byte each at the end of `headers` bytes and the rest of the frame in the last one.
pub(super) fn one_byte_pieces(at: u32, len: u32, headers: usize, count: u16) -> Vec<Piece> {
    let front = (HEADER + headers) as u32;
    let singles = u32::from(count.saturating_sub(2)).min(len - front);
    let mut pieces = vec![Piece { at, len: front }];
    pieces.extend((0..singles).map(|k| Piece { at: at + front + k, len: 1 }));
    let rest = len - front - singles;
    if rest > 0 {
        pieces.push(Piece { at: at + front + singles, len: rest });
    }
    pieces
}

/// Buffers of `most` bytes.
pub(super) fn pages(at: u32, len: u32, most: u32) -> Vec<Piece> {
    let piece = |from: u32| Piece { at: at + from, len: most.min(len - from) };
    (0..len).step_by(most as usize).map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_as_many_as_asked_and_hold_the_whole_frame() {
        let pieces = one_byte_pieces(256, 65_000, 54, 1024);
        assert_eq!((pieces.len(), pieces[0].len, pieces[1].len), (1024, 66, 1));
        assert_eq!(pieces.iter().map(|piece| piece.len).sum::<u32>(), 65_000);
        assert_eq!(pages(0, 10_000, 4096).iter().map(|p| p.len).collect::<Vec<_>>(), [4096, 4096, 1808]);
    }
}
