//! Ring messages.
//!
//! A disabled ring is not accessed, as in DPDK; according to the specification, packets sent by the guest should be
//! taken and discarded.
//!
//! If the front end changes addresses or descriptors of a running ring ("while processing the rings, the back-end
//! must support changing some configuration aspects on the fly"), the ring is stopped, changed and restarted at the
//! same position. Size and base of a running ring cannot be changed.

use super::vring::{Kick, MAX_SIZE, Vring};
use super::{RequestError, Served, Session, broken};
use crate::eventfd::{self, signal};
use crate::vhost::Features;
use crate::vhost::message::{ProtocolFeatures, Reply, VringAddress, VringFile, VringState};
use crate::{Attach, PortFault, QueueState, RxQueue, TxQueue};
use rustix::fd::{AsFd, OwnedFd};
use std::sync::Arc;

impl Session {
    fn vring(&mut self, index: u32) -> Result<&mut Vring, RequestError> {
        let rings = self.vrings.len();
        match self.vrings.get_mut(index as usize) {
            Some(vring) => Ok(vring),
            None => broken(format!("ring {index} was named, but the port has {rings}")),
        }
    }

    fn stopped_vring(&mut self, index: u32, message: &str) -> Result<&mut Vring, RequestError> {
        let vring = self.vring(index)?;
        if vring.running {
            return broken(format!("{message} came for ring {index} while it was running"));
        }
        Ok(vring)
    }

    pub(super) fn set_vring_num(
        &mut self,
        state: VringState,
        engine: &mut dyn Attach,
    ) -> Result<(), RequestError> {
        let vring = self.stopped_vring(state.index, "SET_VRING_NUM")?;
        if state.num == 0 || state.num > MAX_SIZE {
            return broken(format!(
                "ring {} has {} entries; 1 to {MAX_SIZE} are allowed",
                state.index, state.num
            ));
        }
        vring.size = Some(state.num as u16);
        self.settle(state.index, false, engine)
    }

    pub(super) fn set_vring_base(&mut self, state: VringState) -> Result<(), RequestError> {
        self.stopped_vring(state.index, "SET_VRING_BASE")?.base = Some(state.num);
        Ok(())
    }

    pub(super) fn set_vring_addr(
        &mut self,
        address: VringAddress,
        engine: &mut dyn Attach,
    ) -> Result<(), RequestError> {
        if address.flags & VringAddress::LOG != 0 && !self.protocol.has(ProtocolFeatures::LOG_SHMFD) {
            return broken("SET_VRING_ADDR asks for a log of writes, which was not negotiated");
        }
        let same = self.vring(address.index)?.address == Some(address);
        if same {
            return Ok(());
        }
        self.change(address.index, engine, |vring| vring.address = Some(address))
    }

    pub(super) fn set_vring_kick(
        &mut self,
        file: VringFile,
        descriptor: impl Iterator<Item = OwnedFd>,
        engine: &mut dyn Attach,
    ) -> Result<(), RequestError> {
        let kick = event("kick", descriptor)?.map_or(Kick::Polled, Kick::Event);
        self.change(u32::from(file.index), engine, |vring| vring.kick = Some(kick))
    }

    pub(super) fn set_vring_call(
        &mut self,
        file: VringFile,
        descriptor: impl Iterator<Item = OwnedFd>,
        engine: &mut dyn Attach,
    ) -> Result<(), RequestError> {
        let call = event("call", descriptor)?;
        self.change(u32::from(file.index), engine, |vring| vring.call = call)
    }

    pub(super) fn set_vring_err(
        &mut self,
        file: VringFile,
        mut descriptor: impl Iterator<Item = OwnedFd>,
    ) -> Result<(), RequestError> {
        self.vring(u32::from(file.index))?.err = descriptor.next();
        Ok(())
    }

    pub(super) fn set_vring_enable(
        &mut self,
        state: VringState,
        engine: &mut dyn Attach,
    ) -> Result<(), RequestError> {
        let enabled = match state.num {
            0 => false,
            1 => true,
            other => return broken(format!("invalid value {other} in SET_VRING_ENABLE: expected 0 or 1")),
        };
        let vring = self.vring(state.index)?;
        vring.enabled = enabled;
        vring.grace = vring.grace.take().filter(|_| enabled);
        self.settle(state.index, false, engine)
    }

    /// Stops the ring and returns its position.
    pub(super) fn get_vring_base(&mut self, index: u32, engine: &mut dyn Attach) -> Served {
        self.vring(index)?;
        self.stop(index, engine);
        let packed = self.features.is_some_and(|f| f.has(Features::RING_PACKED));
        self.forget_position(index as usize);
        let vring = self.vring(index)?;
        vring.stop();
        let (fresh, bits) = if packed { (0x8000_8000, u32::MAX) } else { (0, 0xffff) };
        Ok(Some(Reply::State(VringState { index, num: vring.base.unwrap_or(fresh) & bits })))
    }

    /// Stops every ring; each needs a new kick descriptor to start again.
    pub(super) fn stop_all(&mut self, engine: &mut dyn Attach) {
        for index in 0..self.vrings.len() as u32 {
            self.stop(index, engine);
            self.vrings[index as usize].stop();
        }
    }

    fn change(
        &mut self,
        index: u32,
        engine: &mut dyn Attach,
        change: impl FnOnce(&mut Vring),
    ) -> Result<(), RequestError> {
        let ran = self.vring(index)?.running;
        self.stop(index, engine);
        change(self.vring(index)?);
        self.settle(index, ran, engine)
    }

    pub(super) fn settle_all(&mut self, engine: &mut dyn Attach) -> Result<(), RequestError> {
        (0..self.vrings.len() as u32).try_for_each(|index| self.settle(index, false, engine))
    }

    /// Stops the running rings and starts them again at the same positions.
    pub(super) fn restart_all(&mut self, engine: &mut dyn Attach) -> Result<(), RequestError> {
        (0..self.vrings.len() as u32).try_for_each(|index| self.change(index, engine, |_| ()))
    }

    /// Starts or stops the ring according to its state. `ran` is whether it ran before a change. A driver does not
    /// withdraw `DRIVER_OK`; one that does keeps its running rings.
    fn settle(&mut self, index: u32, ran: bool, engine: &mut dyn Attach) -> Result<(), RequestError> {
        let vring = &self.vrings[index as usize];
        match (vring.is_ready(self.features), vring.running) {
            (true, false) if !self.is_held && (ran || self.is_driver_ready()) => self.start(index, engine)?,
            (false, true) => self.stop(index, engine),
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, index: u32, engine: &mut dyn Attach) -> Result<(), PortFault> {
        let (pair, is_guest_tx) = ((index / 2) as u16, index % 2 == 1);
        let log = self.active_log().cloned();
        let vring = &mut self.vrings[index as usize];
        let mut setup = vring.setup(&self.memory, self.features.unwrap_or_default(), log.as_ref())?;
        if let Some(positions) = self.positions.as_ref().filter(|_| setup.features.has(Features::RING_PACKED))
        {
            positions.complete(index as usize, &vring.address.unwrap_or_default(), &mut setup);
        }
        if is_guest_tx {
            engine.start_rx(pair, (self.queues.rx)(&setup)?);
        } else {
            engine.start_tx(pair, (self.queues.tx)(&setup)?);
        }
        vring.running = true;
        // Entries published just before the stop may have been notified to the old descriptor.
        if let Some(call) = &vring.call {
            signal(call.as_fd());
        }
        Ok(())
    }

    pub(super) fn stop(&mut self, index: u32, engine: &mut dyn Attach) {
        let (pair, is_guest_tx) = ((index / 2) as u16, index % 2 == 1);
        let vring = &mut self.vrings[index as usize];
        if !std::mem::take(&mut vring.running) {
            return;
        }
        let state = if is_guest_tx {
            engine.stop_rx(pair).map(RxQueue::freeze)
        } else {
            engine.stop_tx(pair).map(TxQueue::freeze)
        };
        if let Some(QueueState::Ring { base }) = state {
            vring.base = Some(base);
        }
    }
}

fn event(
    name: &'static str,
    mut descriptor: impl Iterator<Item = OwnedFd>,
) -> Result<Option<Arc<OwnedFd>>, PortFault> {
    let Some(fd) = descriptor.next() else { return Ok(None) };
    eventfd::check(&fd).map_err(|why| PortFault::BadDescriptor(name, why))?;
    Ok(Some(Arc::new(fd)))
}
