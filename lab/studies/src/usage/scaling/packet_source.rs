//! A port that always has packets: frames of many flows lie in memory, distributed over its queues by hash, and packets
//! sent to it are copied into the sender's own memory. Only workers need a CPU.

use mem::copy::chosen;
use port::{
    Attach, BufId, Burst, BurstStats, DropReason, PortControl, PortFault, PortState, PortStatus, QueueStatus,
    Rss, RxQueue, Steering, TxQueue,
};
use rustix::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE: usize = 64;
const FLOWS: usize = 1024;
/// Number of frames in a sender's memory.
const PLACES: usize = 1024;
const SEED: u64 = 0x7370;
const PAUSE: Duration = Duration::from_secs(1);

pub(in crate::usage) type Frame = [u8; SIZE];

/// The port.
pub(super) struct PacketSource {
    /// Frames of each queue, and the maximum number of packets per queue.
    queues: Vec<Arc<[Frame]>>,
    most: u64,
    /// Station whose address it announces at start.
    station: u8,
    state: PortState,
    resume: Option<Instant>,
}

/// Station addresses of the two ports.
pub(super) const STATIONS: [u8; 2] = [1, 2];

impl PacketSource {
    /// Creates a port whose queues yield frames for `to`, at most `most` each; without queues it only transmits.
    pub(super) fn new(queues: usize, [from, to]: [u8; 2], most: u64) -> Self {
        let queues = deal(queues, [from, to]);
        Self { queues, most, station: from, state: PortState::Waiting(None), resume: Some(Instant::now()) }
    }
}

/// Returns frames of many flows by queue: the hash selects an entry of an indirection table, as on a network card.
fn deal(queues: usize, stations: [u8; 2]) -> Vec<Arc<[Frame]>> {
    let (steering, mut rng) = (Steering::new(Rss::Toeplitz), fastrand::Rng::with_seed(SEED));
    let mut dealt: Vec<Vec<Frame>> = vec![Vec::new(); queues];
    for _ in 0..if queues > 0 { FLOWS } else { 0 } {
        let frame = udp(stations, rng.u32(..), rng.u16(1024..));
        let hash = steering.hash(&frame).unwrap_or_default() as usize;
        dealt[hash % 128 % queues].push(frame);
    }
    dealt.into_iter().map(Arc::from).collect()
}

/// Returns a frame of one flow.
fn udp([from, to]: [u8; 2], source: u32, port: u16) -> Frame {
    let mut frame = [0; SIZE];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17]);
    frame[26] = 10;
    frame[27..30].copy_from_slice(&source.to_be_bytes()[1..]);
    frame[30..34].copy_from_slice(&[10, 0, 0, to]);
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    frame[36..40].copy_from_slice(&[0, 9, 0, 30]);
    frame
}

impl PortControl for PacketSource {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn deadline(&self) -> Option<Instant> {
        self.resume
    }

    fn handle(&mut self, now: Instant, engine: &mut dyn Attach) {
        if self.resume.take_if(|at| *at <= now).is_none() {
            return;
        }
        // The bridge learns the station's address before anything is sent to it.
        engine.inject(&udp([self.station, u8::MAX], 0, 0));
        engine.start_tx(0, Box::new(Sink::default()));
        for (pair, frames) in (0..).zip(&self.queues) {
            engine.start_rx(pair, Box::new(SourceQueue::new(frames.clone(), self.most)));
        }
        match engine.failure() {
            None => self.state = PortState::Connected,
            Some(failure) => self.fault(now, failure, engine),
        }
    }

    fn fault(&mut self, now: Instant, fault: PortFault, engine: &mut dyn Attach) {
        self.close(engine);
        (self.state, self.resume) = (PortState::Faulted(fault), Some(now + PAUSE));
    }

    fn close(&mut self, engine: &mut dyn Attach) {
        (0..self.queues.len() as u16).for_each(|pair| drop(engine.stop_rx(pair)));
        drop(engine.stop_tx(0));
        (self.state, self.resume) = (PortState::Closed, None);
    }

    fn status(&self) -> PortStatus {
        let runs = self.state == PortState::Connected;
        let queue = QueueStatus { size: 0, rx_running: runs, tx_running: runs };
        PortStatus {
            state: self.state.clone(),
            kind: "packet-source",
            place: String::new(),
            features: Vec::new(),
            queues: vec![queue; self.queues.len().max(1)],
            connects: u64::from(runs),
            memory: (0, 0),
        }
    }
}

/// A receive queue.
pub(in crate::usage) struct SourceQueue {
    frames: Arc<[Frame]>,
    at: usize,
    left: u64,
}

impl SourceQueue {
    /// Yields these frames in turn, at most `most`.
    pub(in crate::usage) fn new(frames: Arc<[Frame]>, most: u64) -> Self {
        Self { frames, at: 0, left: most }
    }
}

impl RxQueue for SourceQueue {
    fn prefetch(&self) {}

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        let most = self.left.min(port::BURST as u64);
        // The burst's heads are written directly, so they are marked as loaded.
        mem::with_kernel!(chosen(), K => burst.load_heads::<K>());
        for _ in 0..most {
            let Some(frame) = self.frames.get(self.at) else { break };
            if !burst.push_own(frame) {
                break;
            }
            self.at = if self.at + 1 < self.frames.len() { self.at + 1 } else { 0 };
            self.left -= 1;
            stats.packets += 1;
            stats.bytes += SIZE as u64;
        }
        Ok(())
    }

    fn complete(&mut self, _: &[BufId]) {}

    fn notify(&mut self) {}

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        Ok(self.left > 0)
    }

    fn disable_notification(&mut self) {}

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}

/// A transmit queue; each handle has its own memory, like a network card with a queue per core.
pub(in crate::usage) struct Sink {
    memory: Vec<Frame>,
    at: usize,
}

impl Default for Sink {
    fn default() -> Self {
        Self { memory: vec![[0; SIZE]; PLACES], at: 0 }
    }
}

impl TxQueue for Sink {
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        for pick in indices {
            let head = burst.head((*pick).into());
            let Some(place) = self.memory[self.at].get_mut(..head.len()) else {
                stats.drop(DropReason::TooLong, 1);
                continue;
            };
            place.copy_from_slice(head);
            self.at = (self.at + 1) % PLACES;
            stats.packets += 1;
            stats.bytes += head.len() as u64;
        }
        Ok(indices.len())
    }

    fn notify(&mut self) {}

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(Sink::default())
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_has_its_share_of_flows_and_no_flow_two_queues() {
        for queues in [1, 2, 4] {
            let dealt = deal(queues, STATIONS);
            assert_eq!(dealt.iter().map(|frames| frames.len()).sum::<usize>(), FLOWS);
            let fair = FLOWS / queues;
            assert!(dealt.iter().all(|frames| frames.len().abs_diff(fair) < fair / 4), "{queues} queues");
            let again = deal(queues, STATIONS);
            assert_eq!(dealt, again);
        }
    }
}
