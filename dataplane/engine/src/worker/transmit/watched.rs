//! Bursts of which packets are captured, or that are sampled.

use super::Transmit;
use crate::capture::{self, Capture, CaptureId};
use crate::trace::{BurstKey, PacketKey};
use crate::worker::sampler::Sampler;
use mem::copy::Choice;
use port::pcap::{CaptureDirection, Outcome};
use port::{
    BURST, Burst, BurstStats, DropReason, Flooded, Now, PortFault, PortId, Route, RxQueue, TxQueue, Verdicts,
};

/// Captures and samples of a worker.
pub(in crate::worker) struct Watch {
    /// Whether packets are captured, or a burst is sampled: almost always not.
    pub(in crate::worker) is_on: bool,
    pub(super) captures: Vec<Capture>,
    pub(in crate::worker) sampler: Sampler,
    ticks_per_ns: f64,
    /// The burst that is classified or sent now, and by index in an edited burst the packets of that one.
    current: Option<BurstKey>,
    origins: Option<[u8; BURST]>,
}

impl Watch {
    pub(super) fn new(ticks_per_ns: f64) -> Self {
        Self {
            is_on: false,
            captures: Vec::new(),
            sampler: Sampler::default(),
            ticks_per_ns,
            current: None,
            origins: None,
        }
    }
}

impl Transmit {
    /// Updates the flag after a change.
    pub(in crate::worker) fn update_watch(&mut self) {
        self.watch.is_on = !self.watch.captures.is_empty() || self.watch.sampler.is_on();
    }

    pub(in crate::worker) fn start_capture(&mut self, mut capture: Capture) {
        capture.begin();
        self.watch.captures.push(capture);
        self.update_watch();
    }

    pub(in crate::worker) fn stop_capture(&mut self, id: CaptureId) {
        self.watch.captures.retain(|capture| capture.id() != id);
        self.update_watch();
    }

    /// Captures the packets of a burst that was received from `port`; `None`: from a handoff queue.
    #[cold]
    pub(in crate::worker) fn capture_received(&mut self, burst: &mut Burst, port: Option<PortId>) {
        let captures = &mut self.watch.captures[..];
        match port {
            _ if captures.is_empty() => {}
            Some(port) => capture::received(captures, self.kernel, burst, port),
            None => capture::arrived(captures, self.kernel, burst),
        }
    }

    /// Has one of the next bursts of these queues sampled if the last sample was long ago.
    pub(in crate::worker) fn arm_sample(&mut self, now: Now, queues: usize) {
        self.watch.sampler.arm(now, queues);
        self.update_watch();
    }

    /// [`RxQueue::rx`] while packets are captured or a burst is to be sampled.
    #[cold]
    pub(in crate::worker) fn receive(
        &mut self,
        (queue, port): (&mut dyn RxQueue, PortId),
        burst: (&mut Burst, usize),
        stats: &mut BurstStats,
    ) -> Result<(), PortFault> {
        self.watch.sampler.receive(queue, burst, stats, self.counters.port(port))
    }

    /// Begins to classify burst `index`. Returns whether it is sampled or its packets may be followed.
    #[cold]
    pub(in crate::worker) fn begin_sample(&mut self, index: usize, burst: BurstKey) -> bool {
        self.watch.current = Some(burst);
        self.watch.sampler.begin(index) | capture::trace(&self.watch.captures)
    }

    #[cold]
    pub(in crate::worker) fn sample_classified(&mut self) {
        self.watch.sampler.classified();
        if let Some(burst) = self.watch.current {
            capture::classified(&mut self.watch.captures, burst);
        }
    }

    /// The sampled burst, of `packets` packets, is sent and completed.
    #[cold]
    pub(in crate::worker) fn finish_sample(&mut self, packets: usize) {
        self.watch.sampler.finish(packets, &self.counters);
        self.watch.current = None;
        self.update_watch();
    }

    /// The burst `index` is carried over. Returns when it was received, if it is sampled.
    pub(in crate::worker) fn take_sample(&mut self, index: usize) -> Option<u64> {
        let taken = self.watch.sampler.take(index);
        self.update_watch();
        taken
    }

    /// Continues with a burst that was carried over, which was received at that time if it is sampled.
    pub(in crate::worker) fn resume_sample(&mut self, received: Option<u64>, burst: BurstKey) {
        self.watch.current = Some(burst);
        if let Some(received) = received {
            self.watch.sampler.resume(received);
            self.update_watch();
        }
    }

    /// Ends what [`Transmit::resume_sample`] has begun.
    pub(in crate::worker) fn pause_sample(&mut self, received: Option<u64>) {
        self.watch.current = None;
        if received.is_some() {
            self.watch.sampler.pause();
            self.update_watch();
        }
    }

    /// The packets of an edited burst are those of the current burst with these indices.
    #[cold]
    pub(in crate::worker) fn set_origins(&mut self, origins: impl Iterator<Item = u8>) {
        let mut all = [0; BURST];
        all.iter_mut().zip(origins).for_each(|(to, origin)| *to = origin);
        self.watch.origins = Some(all);
    }

    /// The edited burst has ended.
    pub(in crate::worker) fn clear_origins(&mut self) {
        self.watch.origins = None;
    }

    /// Captures packets that were lost at a port.
    #[cold]
    pub(in crate::worker) fn capture_lost(
        &mut self,
        burst: &Burst,
        indices: impl Iterator<Item = u8>,
        at: (PortId, CaptureDirection),
        reason: DropReason,
    ) {
        let (kernel, lost) = (self.kernel, Outcome::Lost(reason));
        for index in indices {
            let key = packet(self.watch.current, self.watch.origins.as_ref(), index);
            capture::lost_or_sent(&mut self.watch.captures, kernel, (burst, index.into()), at, lost, key);
        }
        capture::notify(&mut self.watch.captures);
    }

    /// Whether a capture has the packets that are lost at `port`, or follows packets.
    #[cold]
    pub(super) fn watches(&self, port: PortId) -> bool {
        capture::concerns(&self.watch.captures, port) || capture::trace(&self.watch.captures)
    }

    /// [`Handoffs::send`](crate::handoff::Handoffs::send) of packets that are lost at `port` if they are. Captures have
    /// those, except flooded ones for a port without a peer, and the next stage learns which ones are followed.
    #[cold]
    pub(super) fn hand_over_watched(
        &mut self,
        (burst, indices): (&Burst, &[u8]),
        (route, port): (Route, PortId),
        work: u64,
        flooded: &Flooded,
        stats: &mut BurstStats,
    ) -> bool {
        let direction = if port == route.to { CaptureDirection::Out } else { CaptureDirection::In };
        let Self { watch: Watch { captures, current, origins, .. }, handoffs, kernel, alone, .. } = self;
        let key = |index| packet(*current, origins.as_ref(), index);
        let lost = |captures: &mut [Capture], index: u8, reason| {
            let (packet, at) = ((burst, usize::from(index)), (port, direction));
            capture::lost_or_sent(captures, *kernel, packet, at, Outcome::Lost(reason), key(index));
        };
        let each = |index: u8, buffer: Option<usize>| match buffer {
            Some(buffer) => capture::handed_over(captures, key(index), buffer),
            None if burst.pool_bufs(index.into()).is_some() => lost(captures, index, DropReason::HandoffFull),
            // Its buffer was handed over, because the packet is listed twice.
            None => {}
        };
        let is_routed = handoffs.send_watched((burst, indices), (route, *alone), work, stats, each);
        for &index in indices.iter().filter(|index| !is_routed && !flooded.contains(**index)) {
            lost(captures, index, DropReason::PortDown);
        }
        capture::notify(captures);
        is_routed
    }

    /// Captures the packets that a pipeline has dropped.
    #[cold]
    pub(super) fn capture_dropped(&mut self, packets: (&Burst, &Verdicts), from: PortId) {
        capture::dropped(&mut self.watch.captures, self.kernel, packets, from, self.watch.current);
    }

    /// [`TxQueue::tx`] on the queue at index `at` of a port, with its captures and samples. A queue that delays packets
    /// has no latency, because it has not sent what it has taken.
    #[cold]
    pub(super) fn send_watched(
        &mut self,
        burst: &Burst,
        (to, at): (PortId, usize),
        indices: &[u8],
        stats: &mut BurstStats,
    ) -> Result<usize, PortFault> {
        let queue = &mut *self.tx[usize::from(to.0)].queues[at].queue;
        let captures = (&mut self.watch.captures[..], self.kernel);
        let (current, origins) = (self.watch.current, self.watch.origins);
        let key = |index| packet(current, origins.as_ref(), index);
        let sent = send_captured(queue, burst, (to, indices), stats, captures, key);
        if let Some(age) = self.watch.sampler.age().filter(|_| stats.packets > 0) {
            if !queue.keeps_back() {
                self.counters.count_latency(to, (age as f64 / self.watch.ticks_per_ns) as u64, stats.packets);
            }
            if let Some(entries) = queue.depth() {
                self.counters.count_depth(to, entries);
            }
        }
        sent
    }
}

/// The packet of the current burst that `index` of the burst at hand is.
fn packet(current: Option<BurstKey>, origins: Option<&[u8; BURST]>, index: u8) -> Option<PacketKey> {
    let origin = origins.map_or(index, |origins| origins[usize::from(index)]);
    current.map(|burst| (burst, origin))
}

/// [`TxQueue::tx`] for a queue whose port may be captured.
fn send_captured(
    queue: &mut dyn TxQueue,
    burst: &Burst,
    (to, indices): (PortId, &[u8]),
    stats: &mut BurstStats,
    (captures, kernel): (&mut [Capture], Choice),
    key: impl Fn(u8) -> Option<PacketKey>,
) -> Result<usize, PortFault> {
    if !capture::concerns(captures, to) {
        return queue.tx(burst, indices, stats);
    }
    let sent = send_each(queue, burst, indices, stats, |indices, outcome| {
        for &index in indices {
            let (packet, at) = ((burst, usize::from(index)), (to, CaptureDirection::Out));
            capture::lost_or_sent(captures, kernel, packet, at, outcome, key(index));
        }
    });
    capture::notify(captures);
    sent
}

/// [`TxQueue::tx`], packet by packet, which passes the outcome of each to `add`. A queue that keeps packets back counts
/// older ones together with those that it takes, so the latter have no outcome yet.
fn send_each(
    queue: &mut dyn TxQueue,
    burst: &Burst,
    indices: &[u8],
    stats: &mut BurstStats,
    mut add: impl FnMut(&[u8], Outcome),
) -> Result<usize, PortFault> {
    let keeps_back = queue.keeps_back();
    let (mut done, mut one) = (0, BurstStats::default());
    for part in indices.chunks(if keeps_back { BURST } else { 1 }) {
        let sent = queue.tx(burst, part, &mut one);
        let outcome = match one.move_to(stats) {
            _ if keeps_back => Outcome::Queued,
            Some(reason) => Outcome::Lost(reason),
            None => Outcome::Moved,
        };
        // The packets that are left are lost with the queue.
        let sent = sent.inspect_err(|_| add(&indices[done..], Outcome::Lost(DropReason::PortFault)))?;
        add(&part[..sent], outcome);
        done += sent;
        if sent < part.len() {
            break;
        }
    }
    Ok(done)
}
