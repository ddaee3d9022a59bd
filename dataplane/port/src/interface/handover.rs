//! Hand-over of the port to another process: the sockets of its queues, whose rings the other process maps too, and the
//! positions in them. The other process finds the interface by its name.

use super::life::{InterfacePort, Kind, Stopped, open_by};
use crate::handover::{HandOver, Handover, duplicate};
use crate::{Attach, PortFault, PortState, QueueState, RxQueue};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// The socket of a queue pair, in the order of pairs. Bytes: block, offset and number of frames left.
const QUEUE: u8 = 1;
/// Number of frames that the kernel has dropped.
const MISSED: u8 = 2;

/// Error for parts that are not those of this kind of port.
const INVALID: PortFault = PortFault::State("it is not that of a port on an interface");

impl<K: Kind> HandOver for InterfacePort<K> {
    fn hand_over(&mut self, engine: &mut dyn Attach) -> Result<Handover, PortFault> {
        let mut handover = Handover::default();
        let Some(running) = &mut self.running else { return Ok(handover) };
        // Set before anything can fail, so that the port continues with these states.
        self.stopped = (0..std::mem::take(&mut running.queues)).map(|pair| stop(pair, engine)).collect();
        engine.failure().map_or(Ok(()), Err)?;
        for (pair, socket) in running.opened.sockets.iter().enumerate() {
            let state = self.stopped.get(pair).unwrap_or(&QueueState::Fresh);
            handover.push(QUEUE, encode(state), vec![duplicate(&**socket)?]);
        }
        handover.push(MISSED, (running.opened.missed)().to_le_bytes().to_vec(), Vec::new());
        Ok(handover)
    }

    fn resume(&mut self, now: Instant, engine: &mut dyn Attach) {
        let states = std::mem::take(&mut self.stopped);
        let Some(running) = self.running.as_mut().filter(|_| !states.is_empty()) else { return };
        let queues = running.opened.sockets.iter().cloned().zip(states).collect();
        let stopped = Stopped { queues, missed: (running.opened.missed)() };
        match self.kind.adopt(&running.watch, stopped) {
            Ok(opened) => {
                (running.opened, running.since) = (opened, None);
                self.start(now, engine);
            }
            Err(error) => self.fail(error.into(), now, engine),
        }
    }

    fn release(&mut self, _: &mut dyn Attach) {
        (self.running, self.due, self.state) = (None, None, PortState::Closed);
    }

    fn take_over(
        &mut self,
        handover: Handover,
        now: Instant,
        engine: &mut dyn Attach,
    ) -> Result<(), PortFault> {
        let mut stopped = Stopped::default();
        for part in handover.parts {
            match part.tag {
                QUEUE => {
                    let [socket] = <[OwnedFd; 1]>::try_from(part.descriptors).map_err(|_| INVALID)?;
                    stopped.queues.push((Arc::new(socket), decode(&part.bytes).ok_or(INVALID)?));
                }
                MISSED => stopped.missed = u64::from_le_bytes(part.bytes.try_into().map_err(|_| INVALID)?),
                _ => return Err(INVALID),
            }
        }
        self.due = Some(now);
        if stopped.queues.is_empty() {
            // The interface was missing: it is opened now.
            return Ok(());
        }
        self.running = Some(open_by(&self.kind, |watch| self.kind.adopt(watch, stopped))?);
        (self.state, self.connects) = (PortState::Connected, self.connects + 1);
        self.start(now, engine);
        engine.failure().map_or(Ok(()), Err)
    }
}

fn encode(state: &QueueState) -> Vec<u8> {
    let QueueState::Blocks { block, at, left } = state else { return Vec::new() };
    [u32::from(*block), *at, *left].into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Returns `None` if the bytes are not a state.
fn decode(bytes: &[u8]) -> Option<QueueState> {
    if bytes.is_empty() {
        return Some(QueueState::Fresh);
    }
    let ([block, at, left], []) = bytes.as_chunks() else { return None };
    let [block, at, left] = [block, at, left].map(|word| u32::from_le_bytes(*word));
    Some(QueueState::Blocks { block: u16::try_from(block).ok()?, at, left })
}

/// Stops a queue pair. Returns the state of its receive queue.
fn stop(pair: u16, engine: &mut dyn Attach) -> QueueState {
    let left = engine.stop_rx(pair).map(RxQueue::freeze);
    drop(engine.stop_tx(pair));
    left.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_decoded_as_they_were() {
        for state in [QueueState::Fresh, QueueState::Blocks { block: 7, at: 1 << 16, left: 800 }] {
            assert_eq!(decode(&encode(&state)), Some(state));
        }
        assert_eq!((decode(&[0; 11]), decode(&[255; 12])), (None, None));
    }
}
