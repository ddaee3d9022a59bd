//! Captures of packets at running ports, on the worker that handles them.
//!
//! A worker has a list of captures, which is empty almost always: without one, it costs a comparison for each burst
//! that is received or sent. [`Engine::start_capture`] gives each worker an end of the capture at its next burst
//! boundary. A packet is captured when it was received, when a queue of a port has taken or refused it, when it is lost
//! on the way to one, and when a pipeline drops it. While a port is captured, packets are passed to its queues one by
//! one, because a queue does not report which of several it has dropped. A queue that keeps packets back reports no
//! outcome of the packets that it takes; they are captured as queued. A capture never waits: packets for which its ring
//! has no room are counted there.

use crate::Engine;
use crate::command::Command;
use crate::trace::{BurstKey, PacketKey, TraceOptions, Tracer};
use crate::worker_builder::Stage;
use mem::copy::Choice;
use port::pcap::{CaptureDirection, CaptureFeed, Filter, Outcome};
use port::{Burst, PortId, Verdicts};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What is captured.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Which ports, and their interfaces.
    pub ports: Arc<CapturedPorts>,
    /// Packets that the switch has received.
    pub received: bool,
    /// Packets that were sent.
    pub sent: bool,
    /// Packets that were dropped, with the reason.
    pub dropped: bool,
    /// Which packets.
    pub filter: Option<Filter>,
    /// Whether the packets are followed, each with a number.
    pub trace: Option<TraceOptions>,
}

/// How a capture has a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapturedPort {
    /// Index of the interface in the file, if the port is captured.
    pub interface: Option<u16>,
    /// Whether the packets that it receives are followed, if the capture follows packets.
    pub is_followed: bool,
}

/// The ports of a capture by number. A number may get another port while the capture runs.
#[derive(Debug)]
pub struct CapturedPorts {
    by_number: Box<[AtomicU32]>,
    others: CapturedPort,
}

impl CapturedPort {
    /// Bits above the interface.
    const CAPTURED: u32 = 1 << 16;
    const FOLLOWED: u32 = 1 << 17;

    fn encode(self) -> u32 {
        let interface = self.interface.map_or(0, |interface| u32::from(interface) | Self::CAPTURED);
        interface | if self.is_followed { Self::FOLLOWED } else { 0 }
    }

    fn decode(bits: u32) -> Self {
        let interface = (bits & Self::CAPTURED != 0).then_some(bits as u16);
        Self { interface, is_followed: bits & Self::FOLLOWED != 0 }
    }
}

impl CapturedPorts {
    /// `max_ports` numbers, and all above, that are captured as `others` until they are set.
    pub fn new(max_ports: usize, others: CapturedPort) -> Self {
        Self { by_number: (0..max_ports).map(|_| AtomicU32::new(others.encode())).collect(), others }
    }

    /// How ports are captured whose number is not set.
    pub fn others(&self) -> CapturedPort {
        self.others
    }

    /// Changes how the port with this number is captured. Must be called before its queues start: the commands for
    /// these order the change before their packets, in each worker.
    pub fn set(&self, id: PortId, port: CapturedPort) {
        if let Some(entry) = self.by_number.get(usize::from(id.0)) {
            entry.store(port.encode(), Ordering::Relaxed);
        }
    }

    /// How the port with this number is captured.
    pub fn get(&self, id: PortId) -> CapturedPort {
        let entry = self.by_number.get(usize::from(id.0));
        entry.map_or(self.others, |entry| CapturedPort::decode(entry.load(Ordering::Relaxed)))
    }
}

/// Identifies a capture of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureId(u64);

/// A capture that runs, also on workers that are added.
pub(crate) struct Running {
    id: CaptureId,
    trace: Option<TraceOptions>,
    end_for: Box<MakeEnd>,
}

type MakeEnd = dyn Fn(&Stage) -> Box<Capture> + Send;

/// One worker's end of a capture.
pub(crate) struct Capture {
    id: CaptureId,
    feed: CaptureFeed,
    options: Arc<CaptureOptions>,
    /// Zero of the clock of bursts, in nanoseconds since the Unix epoch.
    epoch: u64,
    tracer: Option<Tracer>,
}

impl Engine {
    /// Has every worker capture packets, each to a feed that `feed` makes; also workers that are added later.
    pub fn start_capture(
        &self,
        options: CaptureOptions,
        feed: impl Fn() -> CaptureFeed + Send + 'static,
    ) -> CaptureId {
        let (id, epoch, ticks_per_ns) = (CaptureId(self.now().0), self.epoch(), self.ticks_per_ns());
        let (trace, options) = (options.trace.clone(), Arc::new(options));
        let end_for = move |stage: &Stage| {
            let tracer = options.trace.clone().map(|trace| Tracer::new(trace, ticks_per_ns, stage));
            Box::new(Capture { id, feed: feed(), options: options.clone(), epoch, tracer })
        };
        let capture = Running { id, trace, end_for: Box::new(end_for) };
        let mut worker_set = self.worker_set();
        let end = |(_, stage): (usize, &Stage)| (stage.link.clone(), (capture.end_for)(stage));
        // All exist before the first worker begins, because no packet is followed before the last one has begun.
        let ends: Vec<_> = worker_set.running().map(end).collect();
        for (link, end) in ends {
            link.post(Command::StartCapture(end));
        }
        worker_set.captures.push(capture);
        id
    }

    /// Ends a capture. Workers drop their feeds at their next burst boundary.
    pub fn stop_capture(&self, id: CaptureId) {
        let mut worker_set = self.worker_set();
        worker_set.captures.retain(|capture| capture.id != id);
        for (_, stage) in worker_set.running() {
            stage.link.post(Command::StopCapture(id));
        }
    }
}

impl Running {
    /// Gives a stage that was added its end.
    pub(crate) fn begin_on(&self, stage: &Stage) {
        stage.link.post(Command::StartCapture((self.end_for)(stage)));
    }
}

impl Drop for Running {
    /// Workers end one by one; packets are no longer followed from one to the next.
    fn drop(&mut self) {
        if let Some(trace) = &self.trace {
            trace.end();
        }
    }
}

impl Capture {
    #[cfg(test)]
    pub(crate) fn new(options: CaptureOptions, feed: CaptureFeed) -> Self {
        Self { id: CaptureId(1), feed, options: Arc::new(options), epoch: 0, tracer: None }
    }

    pub(crate) fn id(&self) -> CaptureId {
        self.id
    }

    /// The worker has it now.
    pub(crate) fn begin(&mut self) {
        if let Some(tracer) = &mut self.tracer {
            tracer.begin();
        }
    }

    /// Interface of a port, if it is captured.
    fn interface(&self, port: PortId) -> Option<u16> {
        self.options.ports.get(port).interface
    }

    fn add(
        &mut self,
        kernel: Choice,
        (burst, i): (&Burst, usize),
        (port, direction): (PortId, CaptureDirection),
        outcome: Outcome,
        packet: Option<PacketKey>,
    ) {
        let Some(interface) = self.interface(port) else { return };
        let is_new = direction == CaptureDirection::In && outcome == Outcome::Moved;
        // A packet that is followed may not match any more, because it was edited.
        let accepts = |filter: &Filter| filter.accepts(burst.head(i), burst.frame_len(i));
        if (is_new || self.tracer.is_none()) && !self.options.filter.as_ref().is_none_or(accepts) {
            return;
        }
        if is_new && self.tracer.is_some() && !self.options.ports.get(port).is_followed {
            return;
        }
        let (time, step) = match &mut self.tracer {
            None => (burst.now(), None),
            Some(tracer) => {
                let found = if is_new {
                    packet.and_then(|packet| tracer.receive(packet))
                } else {
                    tracer.step(packet)
                };
                let Some((time, step)) = found else { return };
                (time, Some(step))
            }
        };
        let at = (interface, self.epoch.wrapping_add(time.0).wrapping_sub(burst.now().0));
        mem::with_kernel!(kernel, K => self.feed.add::<K>((burst, i), direction, outcome, at, step));
    }
}

/// Captures the packets of a burst that was received from `port`.
#[cold]
pub(crate) fn received(captures: &mut [Capture], kernel: Choice, burst: &mut Burst, port: PortId) {
    let key = BurstKey::of(burst);
    mem::with_kernel!(kernel, K => burst.load_heads::<K>());
    for capture in captures.iter_mut().filter(|capture| capture.options.received) {
        if let Some(tracer) = &mut capture.tracer {
            tracer.begin_burst(key);
        }
        for i in 0..burst.len() {
            capture.add(
                kernel,
                (burst, i),
                (port, CaptureDirection::In),
                Outcome::Moved,
                Some((key, i as u8)),
            );
        }
        capture.feed.notify();
    }
}

/// A burst has come from another stage, where its packets were captured.
#[cold]
pub(crate) fn arrived(captures: &mut [Capture], kernel: Choice, burst: &mut Burst) {
    if captures.iter().any(|capture| capture.options.filter.is_some()) {
        mem::with_kernel!(kernel, K => burst.load_heads::<K>());
    }
    for tracer in captures.iter_mut().filter_map(|capture| capture.tracer.as_mut()) {
        tracer.begin_burst(BurstKey::of(burst));
        tracer.arrive(burst);
    }
}

/// A packet goes to another stage in this buffer.
pub(crate) fn handed_over(captures: &[Capture], packet: Option<PacketKey>, buffer: usize) {
    let tracers = captures.iter().filter_map(|capture| capture.tracer.as_ref());
    tracers.for_each(|tracer| tracer.hand_over(packet, buffer));
}

/// Whether any capture follows packets.
pub(crate) fn trace(captures: &[Capture]) -> bool {
    captures.iter().any(|capture| capture.tracer.is_some())
}

/// The pipeline has classified a burst.
pub(crate) fn classified(captures: &mut [Capture], burst: BurstKey) {
    captures
        .iter_mut()
        .filter_map(|capture| capture.tracer.as_mut())
        .for_each(|tracer| tracer.classified(burst));
}

/// Captures the packets of a burst from `port` that a pipeline drops.
#[cold]
pub(crate) fn dropped(
    captures: &mut [Capture],
    kernel: Choice,
    (burst, verdicts): (&Burst, &Verdicts),
    port: PortId,
    current: Option<BurstKey>,
) {
    for capture in captures.iter_mut().filter(|capture| capture.options.dropped) {
        for (i, reason) in verdicts.drops().filter(|(i, _)| *i < burst.len()) {
            let packet = current.map(|key| (key, i as u8));
            capture.add(kernel, (burst, i), (port, CaptureDirection::In), Outcome::Lost(reason), packet);
        }
        capture.feed.notify();
    }
}

/// Captures a packet that was sent to a port or lost there.
#[cold]
pub(crate) fn lost_or_sent(
    captures: &mut [Capture],
    kernel: Choice,
    packet: (&Burst, usize),
    at: (PortId, CaptureDirection),
    outcome: Outcome,
    key: Option<PacketKey>,
) {
    let is_lost = matches!(outcome, Outcome::Lost(_));
    let wants = |options: &CaptureOptions| if is_lost { options.dropped } else { options.sent };
    for capture in captures.iter_mut().filter(|capture| wants(&capture.options)) {
        capture.add(kernel, packet, at, outcome, key);
    }
}

/// Wakes the threads of the captures if needed.
pub(crate) fn notify(captures: &mut [Capture]) {
    for capture in captures {
        capture.feed.notify();
    }
}

/// Whether any capture is of `port`.
pub(crate) fn concerns(captures: &[Capture], port: PortId) -> bool {
    captures.iter().any(|capture| capture.interface(port).is_some())
}
