//! What every port's queues look like to the engine, and what a port's control side asks of the engine.
//!
//! Calls through these traits are made once per burst, never once per packet. A queue belongs to one worker at a
//! time and moves between control and worker as a whole, so it needs no locks; a transmit queue that several
//! workers use is forked into one handle each.

use crate::{Burst, Capabilities, DropReason, Now, PortFault, QueueState, Slots, work};
use ring::BufId;
use rustix::fd::BorrowedFd;
use std::time::Instant;

/// Most queue pairs of one port. vhost-user sets it: ring indices have eight bits in the messages that carry descriptors.
pub const MAX_QUEUE_PAIRS: u16 = 128;
/// Smallest MTU of a virtio network device (VIRTIO 1.2, 5.1.4.1), in bytes.
const MIN_MTU: u16 = 68;

/// A port's number in the running switch. Behind those of ports are those of the handoff queues between workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u16);

/// What one call of [`TxQueue::tx`] or [`RxQueue::rx`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurstStats {
    /// Packets moved.
    pub packets: u64,
    /// Bytes moved, frames without their checksum.
    pub bytes: u64,
    /// Units of work beyond what packets and bytes cost ([`crate::work`]): descriptors, pieces, copies into the port's own
    /// memory.
    pub work: u64,
    /// Packets lost, whatever the reason: most calls lose none, and need not look at each.
    pub lost: u64,
    /// Packets lost, by [`DropReason`].
    pub drops: [u64; DropReason::COUNT],
}

impl BurstStats {
    /// Counts `n` packets lost to `reason`.
    #[inline]
    pub fn drop(&mut self, reason: DropReason, n: u64) {
        self.drops[reason as usize] += n;
        self.lost += n;
    }

    /// Units of work of a receive call that kept `kept` packets. Packets that it dropped cost as much as others do to be
    /// received: the packets of a burst are charged when it is sent, and a queue that brings none of them must not be free.
    #[inline(always)]
    pub fn work_of_receiving(&self, kept: usize) -> u64 {
        self.work + self.packets.saturating_sub(kept as u64) * work::RECEIVED
    }
}

/// Settings that no virtio network device can have, on whichever side of it a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutOfRange {
    /// Queue pairs.
    #[error("{0} queue pairs were asked for; 1 to {MAX_QUEUE_PAIRS} are possible")]
    QueuePairs(u16),
    /// The MTU in bytes.
    #[error("an MTU of {0} bytes was asked for; it must be at least {MIN_MTU}")]
    Mtu(u16),
}

impl OutOfRange {
    /// Refuses such settings.
    pub(crate) fn check(queue_pairs: u16, mtu: Option<u16>) -> Result<(), Self> {
        match mtu {
            _ if !(1..=MAX_QUEUE_PAIRS).contains(&queue_pairs) => Err(Self::QueuePairs(queue_pairs)),
            Some(mtu) if mtu < MIN_MTU => Err(Self::Mtu(mtu)),
            _ => Ok(()),
        }
    }
}

/// Where packets enter.
pub trait RxQueue: Send {
    /// Fetches the lines that the next `rx` reads first. Called a little before it.
    fn prefetch(&self);

    /// Takes up to the burst's room: descriptors are checked and translated, the packets' first lines are on
    /// their way, heads are not yet copied (see [`Burst::load_heads`]). Frames that are too short or too long
    /// count in `stats` and are returned to the source with the others.
    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault>;

    /// Returns buffers that this queue took ([`Burst::buf_ids`]). One publish. Buffers of another party's memory come back in the
    /// order in which they were taken; buffers of memory of our own may come back in any order, some of them later.
    fn complete(&mut self, buffers: &[BufId]);

    /// Tells the source, if it wants to be told, about everything published since the last call. The caller has
    /// executed one sequentially consistent fence since then.
    fn notify(&mut self);

    /// Asks for kicks from now on. `true` when packets are already there, so that sleeping would lose them.
    fn enable_notification(&mut self) -> Result<bool, PortFault>;

    /// Asks for no more kicks, because the queue is polled again.
    fn disable_notification(&mut self);

    /// What becomes readable with a kick.
    fn kick_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Takes over a changed memory map; called at a burst boundary with no burst of this queue outstanding.
    fn refresh(&mut self) -> Result<(), PortFault>;

    /// Ends the queue at a burst boundary. Returns the state from which another queue continues ([`QueueState`]).
    fn freeze(self: Box<Self>) -> QueueState {
        QueueState::Fresh
    }

    /// Whether only the thread that first uses it may use it, so that no other worker can take it over.
    fn is_bound(&self) -> bool {
        false
    }
}

/// Which of the packets that a queue keeps back are to leave ([`TxQueue::flush`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Those that have waited long enough.
    Waited,
    /// Also those without a limit to their waiting: their worker has nothing to do, and comes by again.
    Idle,
    /// All: the queue is not visited again soon.
    All,
}

/// Where packets leave.
pub trait TxQueue: Send {
    /// Sends the packets `indices` (indices into `burst`) in order. Returns how many indices it is done with: the
    /// rest found the queue full, and the caller waits or drops them.
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault>;

    /// What may be left to be done for the packets that come to [`TxQueue::tx`]; the worker does the rest before. The
    /// answer does not change while the queue runs.
    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    /// How many frames of `len` bytes could be reserved now, at least; `usize::MAX` if the queue cannot tell. 0 means that the
    /// queue is full. Of frames that the queue could never take it takes one, which is counted and dropped: a caller that waits for room
    /// would wait for ever otherwise.
    fn room(&mut self, len: usize) -> usize {
        let _ = len;
        usize::MAX
    }

    /// Takes places for frames of these lengths, in order, for the caller to write ([`Slots::write`],
    /// [`Slots::write_packet`]). Returns how many lengths are done with: the rest found the queue full. A frame that the queue
    /// could never take is counted in `stats` and has no slot.
    ///
    /// The handle must not be used for anything else until [`TxQueue::commit`], which comes in the same burst. What may be left
    /// to be done for the frames is what [`TxQueue::capabilities`] covers, and checksums ([`Slots::write`]).
    fn reserve(
        &mut self,
        lengths: &[u32],
        slots: &mut Slots,
        stats: &mut BurstStats,
    ) -> Result<usize, PortFault> {
        let _ = stats;
        slots.stage(lengths, self.capabilities())
    }

    /// Sends the frames of `slots`, all of which are written, and empties it. Frames that cannot be sent count in `stats`, also
    /// if the queue fails.
    fn commit(&mut self, slots: &mut Slots, stats: &mut BurstStats) -> Result<(), PortFault> {
        slots.send_staged(stats, |burst, indices, stats| self.tx(burst, indices, stats))
    }

    /// Takes back the places of frames that have been sent.
    fn reap(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    /// Whether the queue may keep packets back that it was given, to send several at once. Then its owner calls
    /// [`TxQueue::flush`] now and then.
    fn keeps_back(&self) -> bool {
        false
    }

    /// Sends what is kept back, as far as it is `due` at `now`. Whether anything was sent. A packet that was kept back counts
    /// in `stats` now and not before.
    fn flush(&mut self, now: Now, due: Flush, stats: &mut BurstStats) -> Result<bool, PortFault> {
        let _ = (now, due, stats);
        Ok(false)
    }

    /// Counts what is still kept back as lost with its port, and forgets it.
    fn abandon(&mut self, stats: &mut BurstStats) {
        let _ = stats;
    }

    /// As [`RxQueue::notify`].
    fn notify(&mut self);

    /// Another handle to the same queue, for another worker.
    fn fork(&mut self) -> Box<dyn TxQueue>;

    /// As [`RxQueue::refresh`].
    fn refresh(&mut self) -> Result<(), PortFault>;

    /// As [`RxQueue::freeze`]. Other handles of the queue must not be used any more.
    fn freeze(self: Box<Self>) -> QueueState {
        QueueState::Fresh
    }
}

/// What a port's control side asks of the engine, for its own port only. Each call returns when every worker
/// that is concerned has passed a burst boundary: at most one burst later. A worker that does not answer is waited
/// for no longer than the engine's limit; then [`Attach::failure`] says so.
pub trait Attach {
    /// Hands the receive queue of queue pair `pair` to a worker.
    fn start_rx(&mut self, pair: u16, queue: Box<dyn RxQueue>);
    /// Takes it back, exactly where it stopped.
    fn stop_rx(&mut self, pair: u16) -> Option<Box<dyn RxQueue>>;
    /// Hands the transmit queue of queue pair `pair` to the workers.
    fn start_tx(&mut self, pair: u16, queue: Box<dyn TxQueue>);
    /// Takes it back from all of them.
    fn stop_tx(&mut self, pair: u16) -> Option<Box<dyn TxQueue>>;
    /// Has every queue of this port take over its changed map and waits until no worker holds the old one.
    fn refresh(&mut self);
    /// A frame that the switch should see as if it had come from this port (a gratuitous or reverse ARP).
    fn inject(&mut self, frame: &[u8]);
    /// Why a call so far did not do what it promises: a worker may still use rings or memory of this port, so its
    /// front end must not be told otherwise.
    fn failure(&self) -> Option<PortFault>;
    /// When the burst's clock stood at zero, in nanoseconds since the Unix epoch, judged by both clocks as they stand
    /// now: what turns [`crate::Now`] into a time of day. 0 if unknown.
    fn epoch(&self) -> u64 {
        0
    }
}

/// What a port is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortState {
    /// Waiting for the other side to connect, or for the next try.
    Waiting,
    /// Connected; queues may be running.
    Connected,
    /// Stopped because of what the other side did; it may reconnect.
    Faulted(PortFault),
    /// Closed by the operator.
    Closed,
}

/// One queue pair, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStatus {
    /// Ring entries.
    pub size: u16,
    /// Whether packets are taken from it.
    pub rx_running: bool,
    /// Whether packets are sent to it.
    pub tx_running: bool,
}

/// A port's state, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// What it is doing.
    pub state: PortState,
    /// The kind, as the configuration file spells it.
    pub kind: &'static str,
    /// Where it is: a socket's path, an interface's name.
    pub place: String,
    /// Negotiated features, by name.
    pub features: Vec<&'static str>,
    /// Its queue pairs.
    pub queues: Vec<QueueStatus>,
    /// How many times the other side has connected.
    pub connects: u64,
    /// Memory regions mapped, and their bytes.
    pub memory: (usize, u64),
    /// The last fault, if there has been one.
    pub last_fault: Option<PortFault>,
}

/// A port's life outside the fast path. One thread of the engine drives all of them.
pub trait PortControl: Send {
    /// What to wait for: readable means that [`PortControl::handle`] should run.
    fn poll_fd(&self) -> Option<BorrowedFd<'_>>;
    /// When [`PortControl::handle`] should run at the latest.
    fn deadline(&self) -> Option<Instant>;
    /// Something is readable, the deadline has passed, or both. Never blocks.
    fn handle(&mut self, now: Instant, engine: &mut dyn Attach);
    /// A worker found a queue of this port broken and has stopped using it.
    fn fault(&mut self, now: Instant, fault: PortFault, engine: &mut dyn Attach);
    /// Ends the port: queues stop, memory goes, sockets it made are removed.
    fn close(&mut self, engine: &mut dyn Attach);
    /// Its state, for people.
    fn status(&self) -> PortStatus;
    /// What there is to say besides, for people: names, and numbers or words behind them. A name once used stays.
    fn details(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
