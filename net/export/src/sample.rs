//! Packet sampling in the workers: one in N packets of each port, at random distances (RFC 3176, section 2; sFlow
//! version 5, section 3.1).
//!
//! A pipeline around another one ([`Sampled`]) counts down to the next packet, copies its header, and reads from the
//! verdicts where it is sent. It writes only to memory of its worker, once for a burst, and must never change a
//! verdict. Samples pass to control through a bounded ring for each worker; those that do not fit are counted.

mod counts;
mod outputs;
mod skip;
mod worker;

pub use counts::Counts;
pub use outputs::Outputs;
pub use worker::Sampled;

use counts::LaneCounts;
use port::{Pipelines, PortId, Published};
use ring::spsc::{Consumer, Producer};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use worker::Table;

/// Maximum bytes of a packet that a sample has.
pub const MAX_HEADER: usize = 256;
/// Samples that wait in the queue of a worker at most.
pub const QUEUE: usize = 1024;

/// Purpose of a sample. Each has its own sampling rate; its value is an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// sFlow.
    Sflow,
    /// IPFIX.
    Ipfix,
}

impl Purpose {
    /// All purposes, by index.
    pub const ALL: [Self; 2] = [Self::Sflow, Self::Ipfix];
}

/// Sampling of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortSampling {
    /// Mean number of received packets for each sample, by [`Purpose`]; 0: none is sampled.
    pub rates: [u32; 2],
    /// Bytes that are copied of a packet, at most [`MAX_HEADER`].
    pub header: u16,
}

/// A sampled packet.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Port that received it.
    pub port: PortId,
    /// Whether it was sampled, by [`Purpose`].
    pub purposes: [bool; 2],
    /// Length of the frame in bytes, without its frame check sequence.
    pub len: u32,
    /// Where it was sent.
    pub outputs: Outputs,
    stored: u16,
    bytes: [u8; MAX_HEADER],
}

impl Sample {
    /// The first bytes of the packet as it was received.
    pub fn header(&self) -> &[u8] {
        &self.bytes[..usize::from(self.stored)]
    }
}

/// The sampling of all ports, as control sees it.
pub struct Sampling {
    table: Published<Table>,
    lanes: Mutex<Vec<Lane>>,
    ports: usize,
    seed: u64,
}

/// The samples of one worker.
struct Lane {
    samples: Consumer<Sample>,
    counts: Arc<LaneCounts>,
}

impl std::fmt::Debug for Sampling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampling").field("ports", &self.ports).finish_non_exhaustive()
    }
}

impl Sampling {
    /// Sampling of ports numbered below `ports`, none of which is sampled yet. `seed` should be random, so that a
    /// sender cannot predict which packets are sampled.
    pub fn new(ports: usize, seed: u64) -> Arc<Self> {
        Arc::new(Self { table: Published::default(), lanes: Mutex::default(), ports, seed })
    }

    /// `inner`, with its received packets sampled.
    pub fn sampled(self: &Arc<Self>, inner: Arc<dyn Pipelines>) -> Sampled {
        Sampled::new(self.clone(), inner)
    }

    /// Sets or ends the sampling of a port. Workers apply the change from their next burst on. Must be called by one
    /// thread at a time.
    pub fn set(&self, port: PortId, sampling: Option<PortSampling>) {
        let mut table = Table::clone(&self.table.current());
        table.set(port, sampling.filter(|_| usize::from(port.0) < self.ports));
        self.table.publish(Arc::new(table));
    }

    /// Takes the samples that are there, at most [`QUEUE`] of each worker.
    pub fn take(&self, mut each: impl FnMut(Sample)) {
        for lane in self.lanes().iter_mut() {
            lane.samples.drain(QUEUE).for_each(&mut each);
        }
    }

    /// Counts of a port number since the start, over all workers. They go on if another port gets the number.
    pub fn counts(&self, port: PortId) -> Counts {
        self.lanes().iter().fold(Counts::default(), |sum, lane| sum + lane.counts.of(port))
    }

    /// Begins the queue of a worker.
    fn open(&self) -> (Producer<Sample>, Arc<LaneCounts>) {
        let (producer, samples) = ring::spsc::ring(QUEUE);
        let counts = Arc::new(LaneCounts::new(self.ports));
        self.lanes().push(Lane { samples, counts: counts.clone() });
        (producer, counts)
    }

    /// A poisoned lock is valid: a lane changes in one step.
    fn lanes(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
