//! The receiving side of a connection.

use crate::tcp::{Options, Seq};

/// Duplicate acknowledgements with which a peer retransmits (RFC 5681 section 3.2).
const DUPLICATES: u8 = 3;

/// The receiving side (RFC 9293 section 3.3.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiver {
    /// Next number expected.
    pub(crate) nxt: Seq,
    /// Number after the window that was announced last.
    pub(crate) edge: Seq,
    /// Acknowledgement number that was sent last.
    pub(crate) acked: Seq,
    /// Bytes that the application holds.
    pub(crate) held: u32,
    /// Memory that their buffers occupy beyond them, in bytes.
    pub(crate) overhead: u32,
    /// Receive buffer in bytes.
    pub(crate) limit: u32,
    /// Timestamp to echo, and when it was set, in milliseconds.
    pub(crate) ts_recent: u32,
    pub(crate) ts_recent_at: u32,
    /// Largest payload of a segment received, in bytes: the peer's segment size. Coalesced segments count as full ones.
    pub(crate) segment: u16,
    /// Segment size that was announced, in bytes.
    pub(crate) mss: u16,
    /// Shift of windows that are announced.
    pub(crate) scale: u8,
    /// Segments that were held out of order since the last gap was filled, at most [`DUPLICATES`].
    out_of_order: u8,
    /// Duplicate acknowledgements that are due after the next acknowledgement.
    pub(crate) duplicates: u8,
    /// Initial number.
    pub(crate) irs: Seq,
    /// Sequence number of the peer's FIN, with [`super::Flags::FIN_NOTED`].
    pub(crate) fin: Seq,
    /// Range that arrived twice, to be reported (RFC 2883).
    pub(crate) duplicate: Option<(Seq, Seq)>,
}

impl Receiver {
    /// The scale is the smallest with which the window field can announce the whole buffer (RFC 7323 section 2.3).
    pub(super) fn new(limit: u32, mss: u16, options: &Options) -> Self {
        let bits = (32 - limit.leading_zeros()).saturating_sub(16).min(14) as u8;
        Self {
            nxt: Seq(0),
            edge: Seq(0),
            acked: Seq(0),
            held: 0,
            overhead: 0,
            limit,
            ts_recent: 0,
            ts_recent_at: 0,
            segment: 0,
            mss,
            scale: if options.window_scale { bits } else { 0 },
            out_of_order: 0,
            duplicates: 0,
            irs: Seq(0),
            fin: Seq(0),
            duplicate: None,
        }
    }

    /// A segment is held out of order. Each is acknowledged (RFC 5681 section 4.2) until the peer has the duplicates
    /// with which it retransmits; later ones are acknowledged once for a burst. `is_due`: the acknowledgement that is
    /// due is that of an earlier segment.
    pub(crate) fn note_out_of_order(&mut self, is_due: bool) {
        if self.out_of_order < DUPLICATES {
            self.out_of_order += 1;
            self.duplicates += u8::from(is_due);
        }
    }

    /// A gap is filled: the next acknowledgement is a new one.
    pub(crate) fn note_filled(&mut self) {
        (self.out_of_order, self.duplicates) = (0, 0);
    }

    /// Memory of what the application holds, in bytes.
    #[inline]
    pub(crate) const fn used(&self) -> u32 {
        self.held + self.overhead
    }

    /// The application has returned this many bytes, and their share of the memory.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: u32) {
        if bytes >= self.held {
            (self.held, self.overhead) = (0, 0);
            return;
        }
        let share = u64::from(self.overhead) * u64::from(bytes) / u64::from(self.held);
        (self.held, self.overhead) = (self.held - bytes, self.overhead - share as u32);
    }
}
