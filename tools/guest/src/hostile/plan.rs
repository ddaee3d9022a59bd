//! The plan of a device before its rings exist: features, memory, chains to send, buffers to receive into.

use super::super::frames::Mac;
use super::frames::HEADER;
use std::time::{Duration, Instant};

/// A feature bit and its name.
pub(super) type Need = (u64, &'static str);

/// A range of the image that forms one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) at: u32,
    pub(super) len: u32,
}

/// Addresses and ring size of an attack.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Address of the attacker's first device.
    pub own: Mac,
    /// Destination of its frames: its second device, or a neighbour.
    pub to: Mac,
    /// The neighbour whose address `mac-theft` uses.
    pub victim: Option<Mac>,
    /// Entries of the ring under attack; default: the largest useful size of the attack.
    pub queue_size: Option<u16>,
}

impl Target {
    /// The target as seen from the second device, which sends to the first.
    pub(super) fn reversed(&self) -> Self {
        Self { own: self.to, to: self.own, ..*self }
    }
}

/// Receive buffers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receive {
    pub(super) entries: u16,
    /// Bytes per buffer, virtio-net header included.
    pub(super) bytes: u32,
    /// Whether received buffers are posted again.
    pub(super) returns: bool,
}

/// Plan of a device.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) needs: &'static [Need],
    /// Number of memory regions, each with the same content.
    pub(super) regions: u8,
    /// Content of the memory behind the rings.
    pub(super) image: Vec<u8>,
    /// Chains to cycle through; if empty, nothing is sent.
    pub(super) variants: Vec<Vec<Piece>>,
    /// Whether each chain lies in an indirect table.
    pub(super) tables: bool,
    /// Entries of the transmit ring.
    pub(super) entries: u16,
    /// Chains per second; default: unlimited.
    pub(super) per_second: Option<u32>,
    /// Whether each frame gets a random source address.
    pub(super) random_source: bool,
    /// Whether every turn kicks, even without work.
    pub(super) kicks: bool,
    pub(super) receive: Receive,
}

/// Rate limit of a plan's chains.
pub(super) struct Pace {
    every: Option<Duration>,
    due: Instant,
}

impl Pace {
    pub(super) fn of(plan: &Plan) -> Self {
        Self { every: plan.per_second.map(|rate| Duration::from_secs(1) / rate), due: Instant::now() }
    }

    /// Number of chains that this turn may send: `most` without a rate limit, else one if it is due.
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

/// Alignment of frames in an image.
const ALIGN: usize = 256;

impl Plan {
    /// A plan that cycles through frames (with headers), each in one buffer.
    pub(super) fn of(frames: Vec<Vec<u8>>) -> Self {
        Self::cut(frames, |at, len| vec![Piece { at, len }])
    }

    /// The frames with their headers, each as one byte string.
    pub(super) fn frames(&self) -> Vec<Vec<u8>> {
        let bytes = |piece: &Piece| &self.image[piece.at as usize..(piece.at + piece.len) as usize];
        self.variants.iter().map(|pieces| pieces.iter().flat_map(bytes).copied().collect()).collect()
    }

    /// The frame of a single-frame image, without the virtio-net header.
    pub(super) fn frame(&self) -> &[u8] {
        self.image.get(HEADER..).unwrap_or_default()
    }

    /// A plan that cycles through frames split into pieces: `cut` receives offset and length of a frame.
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

/// A piece with the headers (`headers` bytes and the virtio-net header), then one-byte buffers and the rest of the
/// frame in the last one; at most `count` pieces.
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

/// Pieces of at most `most` bytes.
pub(super) fn pages(at: u32, len: u32, most: u32) -> Vec<Piece> {
    let piece = |from: u32| Piece { at: at + from, len: most.min(len - from) };
    (0..len).step_by(most as usize).map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_count_is_as_requested_and_covers_the_frame() {
        let pieces = one_byte_pieces(256, 65_000, 54, 1024);
        assert_eq!((pieces.len(), pieces[0].len, pieces[1].len), (1024, 66, 1));
        assert_eq!(pieces.iter().map(|piece| piece.len).sum::<u32>(), 65_000);
        assert_eq!(pages(0, 10_000, 4096).iter().map(|p| p.len).collect::<Vec<_>>(), [4096, 4096, 1808]);
    }
}
