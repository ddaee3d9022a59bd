//! Control side: the port runs from creation to close.

use super::tx::Tx;
use crate::handover::{HandOver, NotHandedOver};
use crate::{Attach, PortControl, PortFault, PortState, PortStatus, QueueStatus};
use rustix::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Retry interval if the engine could not take the queue.
const PAUSE: Duration = Duration::from_secs(1);

/// A port that discards packets.
#[derive(Debug)]
pub struct Null {
    kind: &'static str,
    state: PortState,
    resume: Option<Instant>,
}

impl Null {
    /// A port whose queue starts with the first [`PortControl::handle`].
    pub fn new(now: Instant) -> Self {
        Self::named("null", now)
    }

    /// The same for a kind of port whose packets a pipeline sends otherwise, such as a tunnel.
    pub fn named(kind: &'static str, now: Instant) -> Self {
        Self { kind, state: PortState::Waiting(None), resume: Some(now) }
    }
}

impl PortControl for Null {
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
        engine.start_tx(0, Box::new(Tx));
        match engine.failure() {
            None => self.state = PortState::Connected,
            Some(failure) => self.fault(now, failure, engine),
        }
    }

    fn fault(&mut self, now: Instant, fault: PortFault, engine: &mut dyn Attach) {
        drop(engine.stop_tx(0));
        (self.state, self.resume) = (PortState::Faulted(fault), Some(now + PAUSE));
    }

    fn close(&mut self, engine: &mut dyn Attach) {
        drop(engine.stop_tx(0));
        (self.state, self.resume) = (PortState::Closed, None);
    }

    fn as_handover(&mut self) -> Result<&mut dyn HandOver, NotHandedOver> {
        Err(NotHandedOver::Internal)
    }

    fn status(&self) -> PortStatus {
        let tx_running = self.state == PortState::Connected;
        PortStatus {
            state: self.state.clone(),
            kind: self.kind,
            place: String::new(),
            features: Vec::new(),
            queues: vec![QueueStatus { size: 0, rx_running: false, tx_running }],
            connects: u64::from(tx_running),
            memory: (0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vhost_user::fake::FakeEngine;
    use crate::{Burst, BurstStats};

    #[test]
    fn null_port_counts_sent_packets_and_receives_none() {
        let (now, mut engine) = (Instant::now(), FakeEngine::default());
        let mut port = Null::new(now);
        port.handle(now, &mut engine);
        assert_eq!((port.status().state, engine.rx.len()), (PortState::Connected, 0));
        let mut burst = Burst::new();
        burst.begin(0);
        assert!(burst.push_own(&[7; 60]) && burst.push_own(&[7; 100]));
        let mut stats = BurstStats::default();
        let queue = engine.tx.get_mut(&0).unwrap();
        assert_eq!(queue.tx(&burst, &[0, 1, 1], &mut stats), Ok(3));
        assert_eq!(queue.fork().tx(&burst, &[0], &mut stats), Ok(1));
        assert_eq!(stats, BurstStats { packets: 4, bytes: 60 + 100 + 100 + 60, ..BurstStats::default() });
        port.close(&mut engine);
        assert_eq!((port.status().state, engine.tx.len()), (PortState::Closed, 0));
    }
}
