//! Hand-over of the interface to another process: the descriptors of its queues, so that the interface stays, and the
//! frames that this process has already read.

use super::control::Tap;
use super::device::Device;
use super::waiting::Waiting;
use crate::handover::{HandOver, Handover, Part, duplicate};
use crate::{Attach, PortFault, PortState};
use rustix::fd::OwnedFd;
use std::time::Instant;

/// The descriptor of a queue, in the order of pairs.
const QUEUE: u8 = 1;
/// A frame of the last pair that was not received yet, behind its offload header.
const FRAME: u8 = 2;
/// The next queue pair.
const PAIR: u8 = 3;

/// Error for parts that are not those of this kind of port.
const INVALID: PortFault = PortFault::State("it is not that of a TAP port");

impl HandOver for Tap {
    fn describe(&mut self, _: &mut dyn Attach) -> Result<Handover, PortFault> {
        self.leave_gone();
        let mut handover = Handover::default();
        for queue in self.device.iter().flat_map(|device| device.queues().iter()) {
            handover.push(QUEUE, Vec::new(), vec![duplicate(queue)?]);
        }
        Ok(handover)
    }

    fn hand_over(&mut self, engine: &mut dyn Attach) -> Result<Handover, PortFault> {
        self.take_back(engine);
        let mut handover = Handover::default();
        for waiting in &self.waiting {
            handover.push(PAIR, Vec::new(), Vec::new());
            for frame in waiting.frames() {
                handover.push(FRAME, frame.to_vec(), Vec::new());
            }
        }
        Ok(handover)
    }

    fn resume(&mut self, now: Instant, engine: &mut dyn Attach) {
        if self.started.is_some()
            && self.running == 0
            && let Err(fault) = self.start(engine)
        {
            self.pause(fault, now, engine);
        }
    }

    fn release(&mut self, _: &mut dyn Attach) {
        (self.device, self.started, self.due) = (None, None, None);
        self.state = PortState::Closed;
    }

    fn prepare(&mut self, description: Handover, _: Instant, _: &mut dyn Attach) -> Result<(), PortFault> {
        let queue = |part: Part| match (part.tag, <[OwnedFd; 1]>::try_from(part.descriptors)) {
            (QUEUE, Ok([queue])) => Ok(queue),
            _ => Err(INVALID),
        };
        let queues: Vec<_> = description.parts.into_iter().map(queue).collect::<Result<_, _>>()?;
        if queues.is_empty() {
            return Ok(());
        }
        if queues.len() != usize::from(self.options.queue_pairs) {
            return Err(PortFault::State("it has another number of queue pairs"));
        }
        let device = Device::adopt(&self.options, queues);
        self.device = Some(device.map_err(|error| PortFault::Interface(error.to_string()))?);
        Ok(())
    }

    fn take_over(
        &mut self,
        handover: Handover,
        now: Instant,
        engine: &mut dyn Attach,
    ) -> Result<(), PortFault> {
        let mut waiting = Vec::<Vec<Box<[u8]>>>::new();
        for part in handover.parts {
            match (part.tag, waiting.last_mut()) {
                (PAIR, _) => waiting.push(Vec::new()),
                (FRAME, Some(frames)) => frames.push(part.bytes.into()),
                _ => return Err(INVALID),
            }
        }
        self.due = Some(now);
        // Without its interface, the port opens it now.
        if self.device.is_some() {
            self.waiting = waiting.into_iter().map(Waiting::from).collect();
            self.begin(now, engine)?;
        }
        Ok(())
    }
}
