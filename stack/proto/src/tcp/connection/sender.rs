//! The sending side of a connection.

use crate::tcp::Seq;
use crate::tcp::send_queue::SendQueue;
use core::num::NonZeroU32;

/// The sending side (RFC 9293 section 3.3.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    /// First unacknowledged number.
    pub(crate) una: Seq,
    /// Next number to send.
    pub(crate) nxt: Seq,
    /// The peer's window in bytes, from `una` on.
    pub(crate) window: u32,
    /// Largest window of the peer so far.
    pub(crate) max_window: u32,
    /// Sequence and acknowledgement number of the segment that set the window last.
    pub(crate) wl1: Seq,
    pub(crate) wl2: Seq,
    /// Initial number.
    pub(crate) iss: Seq,
    /// Maximum payload of a segment in bytes, without options that only some segments have.
    pub(crate) mss: u16,
    /// Path MTU from which `mss` was computed; 0 if it must be computed again.
    pub(crate) mtu: u16,
    /// Maximum segment size that the peer announced.
    pub(crate) peer_mss: u16,
    /// Shift of windows that the peer announces.
    pub(crate) scale: u8,
    pub(crate) queue: SendQueue,
    /// Timestamp of the first retransmission since the last progress (RFC 3522).
    pub(crate) first_retransmit: Option<NonZeroU32>,
}

impl Sender {
    pub(super) const fn new(iss: Seq, mss: u16) -> Self {
        let first = Seq(iss.0.wrapping_add(1));
        Self {
            una: iss,
            nxt: iss,
            window: 0,
            max_window: 0,
            wl1: Seq(0),
            wl2: Seq(0),
            iss,
            mss,
            mtu: 0,
            peer_mss: u16::MAX,
            scale: 0,
            queue: SendQueue::new(first),
            first_retransmit: None,
        }
    }

    /// Whether the SYN is unacknowledged. After 4 GiB `una` can equal `iss` again, which is then not the SYN's number.
    #[inline]
    pub(crate) const fn awaits_syn_ack(&self) -> bool {
        self.una.is_before(self.queue.base())
    }
}
