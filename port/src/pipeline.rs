//! What decides where each packet goes, and the lists it decides into.
//!
//! A pipeline sees a burst whose heads are loaded and names, for each packet, the ports it leaves by or the
//! reason it does not. It must never block, allocate on the common path or keep anything of a burst after
//! [`Pipeline::process`] returns.

use crate::{BURST, Burst, DropReason, Now, PortId, Tally};

/// Decides where the packets of a burst go. Each worker has its own instance over shared tables.
pub trait Pipeline: Send {
    /// Judges every packet of `burst`, which came in by port `from`.
    fn process(&mut self, burst: &mut Burst, from: PortId, now: Now, out: &mut Outputs);

    /// As [`Pipeline::process`], for a frame that the switch made on behalf of the front end of port `from`. It was not
    /// sent by the guest, so a pipeline may trust it further.
    fn inject(&mut self, burst: &mut Burst, from: PortId, now: Now, out: &mut Outputs) {
        self.process(burst, from, now, out);
    }

    /// Whether `process` looks at packets. One that does not finds heads empty, and outputs take packets whole from where they
    /// lie.
    fn looks(&self) -> bool {
        true
    }

    /// Gives the picked packets the form that port `to` wants (a VLAN tag added or taken off), just before they
    /// are sent. Called for one port after the other, perhaps several times for one port, and for a burst that is carried over
    /// also after `process` was called for others: what `egress` needs of a packet is kept with it ([`Burst::set_note`]). A
    /// pipeline that changes nothing says so in [`Pipeline::rewrites`] and is not called.
    fn egress(&mut self, burst: &mut Burst, to: PortId, picks: &[u8]) {
        let _ = (burst, to, picks);
    }

    /// Whether `egress` has anything to do for port `to`.
    fn rewrites(&self, to: PortId) -> bool {
        let _ = to;
        false
    }
}

/// Makes each worker's pipeline over tables that they share.
pub trait Pipelines: Send + Sync {
    /// The pipeline of worker `index`.
    fn worker(&self, index: usize) -> Box<dyn Pipeline>;

    /// Receives changes of ports' states; `None` if the pipelines do not depend on them. Called once, at the start.
    fn observer(&self) -> Option<Box<dyn PortObserver>> {
        None
    }
}

/// Receives changes of ports' states on the control thread. Must not wait for a worker.
pub trait PortObserver: Send {
    /// The last queue of `port` has stopped: its peer disconnected, its link went down, or it was removed. No worker
    /// processes a packet of it after this call, until its next queue starts; a hung worker excepted.
    fn stopped(&mut self, port: PortId, now: Now);
}

/// The packets that leave by one port: indices into the burst, in order.
#[derive(Clone, Copy, Debug)]
pub struct Picks {
    n: u8,
    index: [u8; BURST],
}

impl Picks {
    /// None.
    pub const EMPTY: Picks = Picks { n: 0, index: [0; BURST] };

    /// The indices.
    #[inline(always)]
    pub fn as_slice(&self) -> &[u8] {
        &self.index[..self.n as usize]
    }

    /// Adds an index behind the others, of which there are fewer than [`BURST`].
    #[inline(always)]
    pub fn push(&mut self, i: u8) {
        self.index[self.n as usize & (BURST - 1)] = i;
        self.n += 1;
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.n = 0;
    }
}

/// Where the packets of one burst go. One per worker, reused for ever.
#[derive(Debug)]
pub struct Outputs {
    lists: Vec<Picks>,
    touched: Vec<PortId>,
    /// Losses that the pipeline decided, to be counted at the port that the burst came in by.
    pub dropped: Tally,
    /// Copies beyond the first, made by flooding: what came in plus this equals what left plus what was lost.
    pub replicated: u64,
    /// Units of work ([`crate::work`]) of the pipeline's beyond what every packet costs.
    pub work: u64,
}

impl Outputs {
    /// Lists for ports `0..ports`.
    pub fn new(ports: usize) -> Self {
        Self {
            lists: vec![Picks::EMPTY; ports],
            touched: Vec::with_capacity(ports),
            dropped: Tally::default(),
            replicated: 0,
            work: 0,
        }
    }

    /// Makes room for ports `0..ports`.
    pub fn grow(&mut self, ports: usize) {
        if self.lists.len() < ports {
            self.lists.resize(ports, Picks::EMPTY);
            self.touched.reserve(ports);
        }
    }

    /// Forgets the last burst.
    #[inline]
    pub fn clear(&mut self) {
        for port in self.touched.drain(..) {
            self.lists[port.0 as usize].n = 0;
        }
        self.dropped = Tally::default();
        (self.replicated, self.work) = (0, 0);
    }

    /// Packet `i` leaves by `to`, and by no other port.
    #[inline(always)]
    pub fn send(&mut self, i: usize, to: PortId) {
        let list = &mut self.lists[to.0 as usize];
        if list.n == 0 {
            self.touched.push(to);
        }
        list.push(i as u8);
    }

    /// Packet `i` leaves by every port of `to`; without any it is lost to [`DropReason::NoDestination`].
    pub fn flood(&mut self, i: usize, to: impl Iterator<Item = PortId>) {
        let mut copies = 0;
        for port in to {
            self.send(i, port);
            copies += 1;
        }
        match copies {
            0 => self.drop(DropReason::NoDestination),
            n => self.replicated += n - 1,
        }
    }

    /// A packet is lost.
    #[inline(always)]
    pub fn drop(&mut self, reason: DropReason) {
        self.dropped.drop(reason, 1);
    }

    /// The ports that have packets, in the order they were first named.
    #[inline(always)]
    pub fn ports(&self) -> &[PortId] {
        &self.touched
    }

    /// What leaves by `port`.
    #[inline(always)]
    pub fn picks(&self, port: PortId) -> &Picks {
        &self.lists[port.0 as usize]
    }
}
