//! Frame template: a frame that is built once and in which only varying fields are written.
//!
//! A template stores, per checksum, the sum of all constant bytes. The checksum of a frame is that sum plus the written
//! values, folded: RFC 1624 (equation 3) with the old value subtracted in advance. Generating a frame parses no headers
//! and allocates nothing.

use super::headers::{FieldPosition, FrameLayout, Summed};
use super::tag::TAG;
use port::MAX_HEAD;
use wire::checksum::{Sum, fold};

/// Maximum number of checksums of a frame: network, transport and outer network.
const SUMS: usize = 3;

/// A varying field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field(FieldPosition);

impl Field {
    pub(super) fn at(spot: FieldPosition) -> Self {
        Self(spot)
    }

    fn mask(self) -> u64 {
        if self.0.bits == 64 { u64::MAX } else { (1 << self.0.bits) - 1 }
    }

    /// Upper limit (exclusive) of the field's values.
    pub(super) fn limit(self) -> u128 {
        1 << self.0.bits
    }

    /// The value of the field in `frame`.
    pub(super) fn value_in(self, frame: &[u8]) -> u64 {
        self.window(frame) >> self.0.shift & self.mask()
    }

    /// The eight bytes before the field: the upper half, if the field is the lower half of an IPv6 address.
    pub(super) fn upper_half(self, frame: &[u8]) -> u64 {
        let from = self.0.at.saturating_sub(8);
        frame[from..self.0.at].iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
    }

    /// The bytes that contain the field, as a number.
    fn window(self, frame: &[u8]) -> u64 {
        frame[self.0.at..self.0.at + self.0.len].iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
    }

    /// Whether two fields share bytes.
    pub(super) fn overlaps(self, other: &Field) -> bool {
        let (a, b) = (self.0, other.0);
        a.at < b.at + b.len && b.at < a.at + a.len
    }
}

/// A varying field of a template.
#[derive(Clone, Copy, Debug)]
struct Patch {
    at: usize,
    len: usize,
    shift: u32,
    mask: u64,
    /// The bits around the field, which are constant.
    kept: u64,
    /// Per checksum: whether it covers these bytes.
    counts: [bool; SUMS],
}

/// A checksum of a template.
#[derive(Clone, Copy, Debug, Default)]
struct Check {
    at: usize,
    /// The sum of the constant bytes.
    base: u64,
    /// Whether the checksum covers the tag: `Some(true)` if the tag starts at an odd offset.
    tag: Option<bool>,
    nonzero: bool,
}

/// A frame of one size of one stream.
#[derive(Debug)]
pub(super) struct Template {
    /// The first bytes of the frame; for a long frame, `body` has the following ones.
    head: Vec<u8>,
    body: Vec<u8>,
    pub(super) len: usize,
    patches: Vec<Patch>,
    /// Checksums that vary per frame, each with its index.
    checks: Vec<(usize, Check)>,
}

/// The sum of the 16-bit words of `bytes` in network byte order (RFC 1071); a last odd byte is the upper half of a
/// word.
fn sum(bytes: &[u8]) -> u64 {
    u64::from(u16::from_be_bytes(Sum::of(bytes).partial()))
}

/// The sum of the words of a tag.
#[inline(always)]
fn sum_of_tag(tag: &[u8; TAG], odd: bool) -> u64 {
    let word = |at: usize| tag[at..].first_chunk().map_or(0, |bytes| u64::from(u32::from_be_bytes(*bytes)));
    let total = word(0) + word(4) + word(8) + word(12) + (word(14) & 0xffff);
    if odd { u64::from(fold(total).swap_bytes()) } else { total }
}

/// Writes a tag to the end of `head`.
#[inline(always)]
fn write_tag(head: &mut [u8], tag: &[u8; TAG]) {
    if let Some(place) = head.last_chunk_mut() {
        *place = *tag;
    }
}

impl Template {
    /// A template of a laid-out frame with these varying fields.
    pub(super) fn new(laid: &FrameLayout, fields: &[Field]) -> Self {
        let len = laid.bytes.len();
        let mut bytes = laid.bytes.clone();
        bytes[len - TAG..].fill(0);
        let patches = fields.iter().map(|field| patch(&bytes, *field, &laid.sums)).collect::<Vec<_>>();
        // The sums cover constant bytes only, so varying fields are zero while they are computed.
        let mut still = bytes.clone();
        for patch in &patches {
            still[patch.at..patch.at + patch.len].fill(0);
        }
        let checks: Vec<Check> = laid.sums.iter().map(|summed| check(&still, summed)).collect();
        let checks = settle(&mut bytes, checks, &patches);
        // Long frames are copied in whole cache lines.
        let line = laid.headers.next_multiple_of(64).min(MAX_HEAD).min(len - TAG);
        let split = if len <= MAX_HEAD { len } else { line };
        let body = bytes[split..].to_vec();
        bytes.truncate(split);
        let body = if len > MAX_HEAD { body[..body.len() - TAG].to_vec() } else { Vec::new() };
        Self { head: bytes, body, len, patches, checks }
    }

    /// Initial contents of the burst's private head.
    #[inline(always)]
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The bytes between head and tag of a frame that is too long for a private head.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether the tag is in separate memory behind the head.
    #[inline(always)]
    pub(super) fn is_long(&self) -> bool {
        self.len > MAX_HEAD
    }

    /// Writes the next value of each field, the tag and the checksums into `head`, a copy of this template's head.
    #[inline]
    pub(super) fn write(&self, head: &mut [u8], values: &mut [super::vary::Values], tag: &[u8; TAG]) {
        let mut sums = [0_u64; SUMS];
        for (patch, values) in self.patches.iter().zip(values) {
            let word = patch.kept | (values.next() & patch.mask) << patch.shift;
            let bytes = word.to_be_bytes();
            head[patch.at..patch.at + patch.len].copy_from_slice(&bytes[8 - patch.len..]);
            let total = (word & 0xffff_ffff) + (word >> 32);
            for (sum, counts) in sums.iter_mut().zip(patch.counts) {
                *sum += if counts { total } else { 0 };
            }
        }
        if !self.is_long() {
            write_tag(head, tag);
        }
        for (which, check) in &self.checks {
            let of_tag = check.tag.map_or(0, |odd| sum_of_tag(tag, odd));
            check.write(head, check.base + sums[*which] + of_tag);
        }
    }

    /// Replaces the tag `old` by `new` in a frame written before (RFC 1624, equation 3).
    pub(super) fn rewrite_tag(&self, head: &mut [u8], old: &[u8; TAG], new: &[u8; TAG]) {
        if !self.is_long() {
            write_tag(head, new);
        }
        for (_, check) in &self.checks {
            let (Some(odd), Some(place)) = (check.tag, head.get(check.at..check.at + 2)) else { continue };
            let before = !u16::from_be_bytes([place[0], place[1]]);
            let out = !fold(sum_of_tag(old, odd));
            check.write(head, u64::from(before) + u64::from(out) + sum_of_tag(new, odd));
        }
    }
}

impl Check {
    #[inline(always)]
    fn write(&self, head: &mut [u8], total: u64) {
        let sum = !fold(total);
        let sum = if self.nonzero && sum == 0 { u16::MAX } else { sum };
        head[self.at..self.at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Writes constant checksums into `bytes`. Returns the others.
fn settle(bytes: &mut [u8], checks: Vec<Check>, patches: &[Patch]) -> Vec<(usize, Check)> {
    let changes = |which: usize| patches.iter().any(|patch| patch.counts[which]);
    let (moving, settled): (Vec<_>, Vec<_>) =
        checks.into_iter().enumerate().partition(|(which, check)| check.tag.is_some() || changes(*which));
    for (_, check) in settled {
        check.write(bytes, check.base);
    }
    moving
}

fn patch(bytes: &[u8], field: Field, sums: &[Summed]) -> Patch {
    let FieldPosition { at, len, shift, .. } = field.0;
    let mut counts = [false; SUMS];
    for (counts, summed) in counts.iter_mut().zip(sums) {
        *counts = summed.ranges.iter().any(|range| range.start <= at && at + len <= range.end);
    }
    let kept = field.window(bytes) & !(field.mask() << shift);
    Patch { at, len, shift, mask: field.mask(), kept, counts }
}

fn check(still: &[u8], summed: &Summed) -> Check {
    let mut bytes = still.to_vec();
    bytes[summed.at..summed.at + 2].fill(0);
    let base = summed.ranges.iter().map(|range| sum(&bytes[range.clone()])).sum::<u64>() + summed.pseudo;
    let tag = still.len() - TAG;
    let of_tag = summed.ranges.iter().find(|range| range.start <= tag && still.len() <= range.end);
    let tag = of_tag.map(|range| (tag - range.start) % 2 == 1);
    Check { at: summed.at, base, tag, nonzero: summed.nonzero }
}
