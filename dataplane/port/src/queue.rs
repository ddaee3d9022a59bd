//! Queue traits between ports and the engine, and the control interface of a port.
//!
//! Queue methods are called once per burst, never once per packet. A queue belongs to one worker at a time and moves
//! between control thread and workers as a whole, so it needs no locks. A transmit queue used by several workers is
//! forked into one handle per worker.

use crate::Remedy;
use crate::handover::{HandOver, NotHandedOver};
use crate::{
    Burst, Capabilities, DropReason, Now, PortDetails, PortFault, QueueState, RssTable, Slots, work,
};
use ring::BufId;
use rustix::fd::BorrowedFd;
use std::borrow::Cow;
use std::time::Instant;

/// Maximum queue pairs of one port. The limit is that of vhost-user: messages that carry descriptors hold 8-bit ring
/// indices.
pub const MAX_QUEUE_PAIRS: u16 = 128;
/// Minimum MTU of a virtio network device (VIRTIO 1.2 section 5.1.4.1), in bytes.
const MIN_MTU: u16 = 68;

/// Number of a port in the running switch. The numbers after those of the ports belong to the handoff queues between
/// workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u16);

/// A queue of a port, by queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueId {
    /// Receive queue.
    Rx(u16),
    /// Transmit queue.
    Tx(u16),
}

/// Result of one call of [`TxQueue::tx`] or [`RxQueue::rx`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstStats {
    /// Packets moved.
    pub packets: u64,
    /// Bytes moved, without frame check sequences.
    pub bytes: u64,
    /// Units of work beyond the base cost of packets and bytes ([`crate::work`]): descriptors, segments, copies into
    /// the port's own memory.
    pub work: u64,
    /// Packets lost, for any reason. Usually 0; `drops` need not be read then.
    pub lost: u64,
    /// Packets lost, by [`DropReason`].
    pub drops: [u64; DropReason::COUNT],
}

impl Default for BurstStats {
    /// Nothing moved, nothing lost. Arrays of this length have no default of their own.
    #[inline]
    fn default() -> Self {
        Self { packets: 0, bytes: 0, work: 0, lost: 0, drops: [0; DropReason::COUNT] }
    }
}

impl BurstStats {
    /// Counts `n` packets lost to `reason`.
    #[inline]
    pub fn drop(&mut self, reason: DropReason, n: u64) {
        self.drops[reason as usize] += n;
        self.lost += n;
    }

    /// Adds the result of a call with one packet to `all`, and becomes empty. Returns why the packet was lost, if it
    /// was. Reads and writes `drops` only then.
    pub fn move_to(&mut self, all: &mut Self) -> Option<DropReason> {
        all.packets += std::mem::take(&mut self.packets);
        all.bytes += std::mem::take(&mut self.bytes);
        all.work += std::mem::take(&mut self.work);
        if self.lost == 0 {
            return None;
        }
        all.lost += std::mem::take(&mut self.lost);
        let drops = std::mem::replace(&mut self.drops, [0; DropReason::COUNT]);
        all.drops.iter_mut().zip(drops).for_each(|(all, n)| *all += n);
        DropReason::ALL.iter().find(|reason| drops[**reason as usize] > 0).copied()
    }

    /// Units of work of a receive call that kept `kept` packets. Dropped packets are charged here: other packets are
    /// charged when they are sent, and a queue with dropped packets only must not be free.
    #[inline(always)]
    pub fn work_of_receiving(&self, kept: usize) -> u64 {
        self.work + self.packets.saturating_sub(kept as u64) * work::RECEIVED
    }
}

/// Settings outside the range of a virtio network device, for the driver and the device side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutOfRange {
    /// Queue pairs.
    #[error("invalid number of queue pairs {0}")]
    QueuePairs(u16),
    /// The MTU in bytes.
    #[error("invalid MTU {0}")]
    Mtu(u16),
}

impl Remedy for OutOfRange {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::QueuePairs(..) => format!("write 1 to {MAX_QUEUE_PAIRS}").into(),
            Self::Mtu(..) => format!("write at least {MIN_MTU}").into(),
        })
    }
}

impl OutOfRange {
    /// Returns an error if a setting is out of range.
    pub(crate) fn check(queue_pairs: u16, mtu: Option<u16>) -> Result<(), Self> {
        match mtu {
            _ if !(1..=MAX_QUEUE_PAIRS).contains(&queue_pairs) => Err(Self::QueuePairs(queue_pairs)),
            Some(mtu) if mtu < MIN_MTU => Err(Self::Mtu(mtu)),
            _ => Ok(()),
        }
    }
}

/// Receive queue.
pub trait RxQueue: Send {
    /// Prefetches the lines that the next `rx` reads first. Called shortly before `rx`.
    fn prefetch(&self);

    /// Receives packets up to the burst's capacity. Descriptors are validated and translated and the first lines of
    /// the packets are prefetched; heads are not copied yet (see [`Burst::load_heads`]). Frames that are too short or
    /// too long count in `stats` and are returned to the source with the others.
    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault>;

    /// Returns buffers taken by this queue ([`Burst::buf_ids`]) with one publish. Buffers in another party's memory
    /// return in the order in which they were taken. Buffers in the port's own memory may return in any order, some
    /// of them later.
    fn complete(&mut self, buffers: &[BufId]);

    /// Notifies the source, if it has enabled notifications, of everything published since the last call. The caller
    /// must have executed a sequentially consistent fence since then.
    fn notify(&mut self);

    /// Enables notifications (kicks). Returns `true` if packets are already available; the caller must not sleep
    /// then.
    fn enable_notification(&mut self) -> Result<bool, PortFault>;

    /// Disables notifications (kicks), for a queue that is polled.
    fn disable_notification(&mut self);

    /// Descriptor that becomes readable with a kick.
    fn kick_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Switches to a changed memory map. Called at a burst boundary with no burst of this queue outstanding.
    fn refresh(&mut self) -> Result<(), PortFault>;

    /// Ends the queue at a burst boundary. Returns the state from which another queue continues ([`QueueState`]).
    fn freeze(self: Box<Self>) -> QueueState {
        QueueState::Fresh
    }

    /// Whether the queue is bound to the thread that uses it first, so that no other worker can take it over.
    fn is_bound(&self) -> bool {
        false
    }
}

/// Which of the packets held back by a queue to send ([`TxQueue::flush`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Packets whose delay has expired.
    Waited,
    /// Also packets without a delay limit: the worker is idle and calls again.
    Idle,
    /// All packets: the queue is not visited again soon.
    All,
}

/// Transmit queue.
pub trait TxQueue: Send {
    /// Sends the packets `indices` (indices into `burst`) in order. Returns the number of indices processed. The
    /// queue had no room for the rest; the caller waits or drops them.
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault>;

    /// Offloads accepted for packets passed to [`TxQueue::tx`]; the worker completes all others first. The result
    /// does not change while the queue runs.
    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    /// Minimum number of frames of `len` bytes that could be reserved now; `usize::MAX` if unknown. 0 means that the
    /// queue is full. For frames that the queue can never take the result is at least 1, so that they are counted and
    /// dropped: a caller that waits for room would otherwise wait forever.
    fn room(&mut self, len: usize) -> usize {
        let _ = len;
        usize::MAX
    }

    /// Entries of the ring that the peer has not returned: packets that it has not taken, and in the ring of a guest
    /// also buffers that it has not offered again. `None` without such a ring. Reads lines of the peer: for samples.
    fn depth(&mut self) -> Option<usize> {
        None
    }

    /// Reserves slots for frames of these lengths, in order, to be written by the caller ([`Slots::write`],
    /// [`Slots::write_packet`]). Returns the number of lengths processed; the queue had no room for the rest. A frame
    /// that the queue can never take is counted in `stats` and has no slot.
    ///
    /// The handle must not be used otherwise before [`TxQueue::commit`], which must follow in the same burst. The
    /// frames may leave the offloads of [`TxQueue::capabilities`], and checksums ([`Slots::write`]).
    fn reserve(
        &mut self,
        lengths: &[u32],
        slots: &mut Slots,
        stats: &mut BurstStats,
    ) -> Result<usize, PortFault> {
        let _ = stats;
        slots.stage(lengths, self.capabilities())
    }

    /// Sends the frames of `slots`, all of which must be written, and empties it. Frames that cannot be sent count in
    /// `stats`, also if the queue fails.
    fn commit(&mut self, slots: &mut Slots, stats: &mut BurstStats) -> Result<(), PortFault> {
        slots.send_staged(stats, |burst, indices, stats| self.tx(burst, indices, stats))
    }

    /// Reclaims the buffers of frames that have been sent.
    fn reap(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    /// Whether the queue may hold packets back to send several at once. The owner must then call [`TxQueue::flush`]
    /// regularly.
    fn keeps_back(&self) -> bool {
        false
    }

    /// Sends the packets held back that are `due` at `now`. Returns whether any were sent. Packets held back count in
    /// `stats` when they are sent.
    fn flush(&mut self, now: Now, due: Flush, stats: &mut BurstStats) -> Result<bool, PortFault> {
        let _ = (now, due, stats);
        Ok(false)
    }

    /// Counts the packets still held back as lost with the port, and discards them.
    fn abandon(&mut self, stats: &mut BurstStats) {
        let _ = stats;
    }

    /// Like [`RxQueue::notify`].
    fn notify(&mut self);

    /// Creates another handle to the same queue, for another worker.
    fn fork(&mut self) -> Box<dyn TxQueue>;

    /// Like [`RxQueue::refresh`].
    fn refresh(&mut self) -> Result<(), PortFault>;

    /// Like [`RxQueue::freeze`]. Other handles of the queue must not be used afterwards.
    fn freeze(self: Box<Self>) -> QueueState {
        QueueState::Fresh
    }
}

/// Engine operations for the control side of a port, limited to that port. Each call returns when every affected
/// worker has passed a burst boundary, at most one burst later. If a worker does not respond within the engine's
/// limit, the call returns and [`Attach::failure`] reports it.
pub trait Attach {
    /// Passes the receive queue of queue pair `pair` to a worker.
    fn start_rx(&mut self, pair: u16, queue: Box<dyn RxQueue>);
    /// Takes the receive queue back, in the state in which it stopped.
    fn stop_rx(&mut self, pair: u16) -> Option<Box<dyn RxQueue>>;
    /// Passes the transmit queue of queue pair `pair` to the workers.
    fn start_tx(&mut self, pair: u16, queue: Box<dyn TxQueue>);
    /// Takes the transmit queue back from all workers.
    fn stop_tx(&mut self, pair: u16) -> Option<Box<dyn TxQueue>>;
    /// Makes every queue of this port use its changed map, and waits until no worker holds the old one.
    fn refresh(&mut self);
    /// Injects a frame as if it had been received on this port (gratuitous or reverse ARP).
    fn inject(&mut self, frame: &[u8]);
    /// Reason why a previous call did not complete. A worker may then still use rings or memory of this port, and its
    /// front end must not be told otherwise.
    fn failure(&self) -> Option<PortFault>;
    /// Queue that a worker found faulty, during [`PortControl::fault`]; `None` if unknown.
    fn faulty_queue(&self) -> Option<QueueId> {
        None
    }
    /// Origin of the burst clock in nanoseconds since the Unix epoch, computed from the current values of both
    /// clocks. Converts [`crate::Now`] to wall-clock time. 0 if unknown.
    fn epoch(&self) -> u64 {
        0
    }
}

/// State of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortState {
    /// Waiting for a connection, for the next attempt to connect, or for the end of the condition given as reason.
    Waiting(Option<PortFault>),
    /// Connected; queues may be running.
    Connected,
    /// Stopped because of a fault of the peer; the peer may reconnect.
    Faulted(PortFault),
    /// Stopped because of this fault, and never runs again: its connection cannot be replaced.
    Ended(PortFault),
    /// Closed by the operator.
    Closed,
}

impl PortState {
    /// Reason for this state; `None` if the port is connected, closed, or waits for its first connection.
    pub fn reason(&self) -> Option<&PortFault> {
        match self {
            Self::Waiting(reason) => reason.as_ref(),
            Self::Faulted(fault) | Self::Ended(fault) => Some(fault),
            Self::Connected | Self::Closed => None,
        }
    }
}

/// Status of one queue pair, for display.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStatus {
    /// Ring entries.
    pub size: u16,
    /// Whether the receive queue runs.
    pub rx_running: bool,
    /// Whether the transmit queue runs.
    pub tx_running: bool,
}

/// Status of a port, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// State.
    pub state: PortState,
    /// Kind, as in the configuration file.
    pub kind: &'static str,
    /// Socket path or interface name.
    pub place: String,
    /// Names of the negotiated features.
    pub features: Vec<&'static str>,
    /// Queue pairs.
    pub queues: Vec<QueueStatus>,
    /// Number of connections so far.
    pub connects: u64,
    /// Number of mapped memory regions and their total bytes.
    pub memory: (usize, u64),
}

/// Control side of a port, outside the fast path. One thread of the engine drives all ports.
pub trait PortControl: Send {
    /// Descriptor to poll; [`PortControl::handle`] should be called if it is readable.
    fn poll_fd(&self) -> Option<BorrowedFd<'_>>;
    /// Latest time of the next call of [`PortControl::handle`].
    fn deadline(&self) -> Option<Instant>;
    /// Processes events: the descriptor is readable, the deadline has passed, or both. Never blocks.
    fn handle(&mut self, now: Instant, engine: &mut dyn Attach);
    /// Reports that a worker found a queue of this port broken and has stopped using it.
    fn fault(&mut self, now: Instant, fault: PortFault, engine: &mut dyn Attach);
    /// Closes the port: stops its queues, releases its memory and removes the sockets that it created.
    fn close(&mut self, engine: &mut dyn Attach);
    /// Current status, for display.
    fn status(&self) -> PortStatus;
    /// Further details, for display.
    fn details(&self) -> PortDetails {
        PortDetails::new()
    }
    /// The port as one that another process can continue, or why it cannot.
    fn as_handover(&mut self) -> Result<&mut dyn HandOver, NotHandedOver> {
        Err(NotHandedOver::Kind(self.status().kind))
    }
    /// How the port distributes flows over its queues. Returns `None` if that is not known.
    fn rss(&self) -> Option<RssTable> {
        None
    }
}
