//! Hand-over of a wrapped port: that of the port inside, whose queues the wrapper still wraps, and parts of the wrapper
//! itself, whose tags no port uses.

use crate::handover::{HandOver, Handover};
use crate::{Attach, PortControl, PortFault};
use std::time::Instant;

/// A port around another port.
pub trait Wrapper {
    /// Runs `act` on the inner port, with an engine that wraps its queues.
    fn with<R>(
        &mut self,
        engine: &mut dyn Attach,
        act: impl FnOnce(&mut dyn PortControl, &mut dyn Attach) -> R,
    ) -> R;

    /// Adds the wrapper's own parts. The queues are stopped. `epoch`: as in [`Attach::epoch`].
    fn add_parts(&mut self, epoch: u64, handover: &mut Handover) -> Result<(), PortFault> {
        let _ = (epoch, handover);
        Ok(())
    }

    /// Takes the wrapper's own parts over and removes them.
    fn take_parts(&mut self, handover: &mut Handover) -> Result<(), PortFault> {
        let _ = handover;
        Ok(())
    }

    /// Ends the refresh of the counters, because the inner port has closed.
    fn closed(&mut self);
}

impl<W: Wrapper> HandOver for W {
    fn describe(&mut self, engine: &mut dyn Attach) -> Result<Handover, PortFault> {
        with_handover(self, engine, |inner, engine| inner.describe(engine))?
    }

    fn hand_over(&mut self, engine: &mut dyn Attach) -> Result<Handover, PortFault> {
        let mut handover = with_handover(self, engine, |inner, engine| inner.hand_over(engine))??;
        self.add_parts(engine.epoch(), &mut handover)?;
        Ok(handover)
    }

    fn resume(&mut self, now: Instant, engine: &mut dyn Attach) {
        // Fails only for a port that was not handed over.
        let _ = with_handover(self, engine, |inner, engine| inner.resume(now, engine));
    }

    fn release(&mut self, engine: &mut dyn Attach) {
        let _ = with_handover(self, engine, |inner, engine| inner.release(engine));
        self.closed();
    }

    fn prepare(
        &mut self,
        description: Handover,
        now: Instant,
        engine: &mut dyn Attach,
    ) -> Result<(), PortFault> {
        with_handover(self, engine, |inner, engine| inner.prepare(description, now, engine))?
    }

    fn take_over(
        &mut self,
        mut handover: Handover,
        now: Instant,
        engine: &mut dyn Attach,
    ) -> Result<(), PortFault> {
        self.take_parts(&mut handover)?;
        with_handover(self, engine, |inner, engine| inner.take_over(handover, now, engine))?
    }
}

/// Runs `act` on the hand-over of the inner port, with an engine that wraps its queues.
fn with_handover<R>(
    wrapper: &mut impl Wrapper,
    engine: &mut dyn Attach,
    act: impl FnOnce(&mut dyn HandOver, &mut dyn Attach) -> R,
) -> Result<R, PortFault> {
    wrapper.with(engine, |inner, engine| match inner.as_handover() {
        Ok(inner) => Ok(act(inner, engine)),
        Err(why) => Err(PortFault::NotMade(why.to_string())),
    })
}
