//! The meaning of a received segment.

use super::Seq;
use core::ops::Range;
use wire::{Tcp, TcpFlags, TcpOption};

/// SACK ranges that are read from one segment: as many as fit into an option.
pub(crate) const MAX_SACK: usize = 4;

/// A received segment, in private memory except for its payload.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) seq: Seq,
    pub(crate) ack: Seq,
    pub(crate) flags: TcpFlags,
    /// Window, not scaled.
    pub(crate) window: u16,
    /// Offset of the header in the frame.
    header: usize,
    /// Range of the payload in the frame.
    pub(crate) payload: Range<usize>,
    /// Folded sum of the payload's words, if it was computed.
    pub(crate) sum: Option<u16>,
    /// Timestamp value and echo.
    pub(crate) timestamps: Option<(u32, u32)>,
    /// Congestion experienced.
    pub(crate) is_ce: bool,
    pub(crate) sack: [(Seq, Seq); MAX_SACK],
    pub(crate) sack_len: u8,
}

/// Fast Open cookie of a segment (RFC 7413 section 4.1.1); empty for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FastOpenCookie {
    bytes: [u8; 16],
    len: u8,
}

impl FastOpenCookie {
    /// Returns `None` if the length is not allowed: 0, or an even number from 4 to 16.
    pub(crate) fn of(cookie: &[u8]) -> Option<Self> {
        let is_allowed = matches!(cookie.len(), 0 | 4..=16) && cookie.len().is_multiple_of(2);
        let mut bytes = [0; 16];
        bytes.get_mut(..cookie.len()).filter(|_| is_allowed)?.copy_from_slice(cookie);
        Some(Self { bytes, len: cookie.len() as u8 })
    }

    /// The cookie's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Options of a SYN.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SynOptions {
    pub(crate) max_segment: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    /// Fast Open cookie, or a request for one.
    pub(crate) fast_open: Option<FastOpenCookie>,
}

impl Segment {
    /// A segment to be read into.
    #[inline]
    pub(crate) const fn empty() -> Self {
        Self {
            seq: Seq(0),
            ack: Seq(0),
            flags: TcpFlags(0),
            window: 0,
            header: 0,
            payload: 0..0,
            sum: None,
            timestamps: None,
            is_ce: false,
            sack: [(Seq(0), Seq(0)); MAX_SACK],
            sack_len: 0,
        }
    }

    /// Reads the header, in place: a copy of what was just written in parts would wait for the stores.
    #[inline]
    pub(crate) fn read(&mut self, view: &Tcp<'_>, payload: Range<usize>, sum: Option<u16>, is_ce: bool) {
        (self.seq, self.ack) = (Seq(view.sequence()), Seq(view.acknowledgement()));
        (self.flags, self.window) = (view.flags(), view.window());
        self.header = payload.start - view.header_len();
        (self.payload, self.sum, self.is_ce) = (payload, sum, is_ce);
        self.timestamps = view.aligned_timestamps();
        if self.timestamps.is_none() && view.header_len() > wire::TCP_HEADER {
            self.read_options(view);
        }
    }

    #[cold]
    fn read_options(&mut self, view: &Tcp<'_>) {
        for option in view.options() {
            match option {
                TcpOption::Timestamps(value, echo) => self.timestamps = Some((value, echo)),
                TcpOption::Sack(ranges) => self.read_sack(ranges),
                _ => {}
            }
        }
    }

    fn read_sack(&mut self, ranges: &[[u8; 8]]) {
        for (to, range) in self.sack.iter_mut().zip(ranges) {
            let (left, right) = wire::sack_range(*range);
            *to = (Seq(left), Seq(right));
        }
        self.sack_len = ranges.len().min(MAX_SACK) as u8;
    }

    /// Payload in bytes.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        (self.payload.end - self.payload.start) as u32
    }

    /// Sequence numbers: payload, SYN and FIN.
    #[inline]
    pub(crate) fn sequence_len(&self) -> u32 {
        self.len() + u32::from(self.flags.has(TcpFlags::SYN)) + u32::from(self.flags.has(TcpFlags::FIN))
    }

    /// Options of a SYN, whose frame starts with `head`.
    #[cold]
    pub(crate) fn syn_options(&self, head: &[u8]) -> SynOptions {
        let view = head.get(self.header..).and_then(Tcp::new);
        view.map_or_else(SynOptions::default, |view| SynOptions::of(&view))
    }

    /// SACK ranges.
    pub(crate) fn sack(&self) -> &[(Seq, Seq)] {
        &self.sack[..usize::from(self.sack_len)]
    }
}

impl SynOptions {
    fn of(view: &Tcp<'_>) -> Self {
        let mut syn = Self::default();
        for option in view.options() {
            match option {
                TcpOption::MaxSegment(bytes) => syn.max_segment = Some(bytes),
                // RFC 7323 section 2.3: a larger shift counts as 14.
                TcpOption::WindowScale(shift) => syn.window_scale = Some(shift.min(14)),
                TcpOption::SackPermitted => syn.sack_permitted = true,
                TcpOption::FastOpen(cookie) => syn.fast_open = FastOpenCookie::of(cookie),
                _ => {}
            }
        }
        syn
    }
}
