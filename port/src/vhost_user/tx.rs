//! A guest's receive queue, as the switch sends to it.
//!
//! Buffers are taken ahead of need into a private stock, translated, and their lines fetched for writing, so that
//! when a frame comes its place is already in this core's cache. Used entries are published once per call.
//!
//! One worker owns the queue outright, without a lock; or several share it after [`TxQueue::fork`], and then the
//! rules of the `shared` module hold.

use super::fill::{self, LONG_HEADER, SHORT_HEADER};
use super::setup::QueueSetup;
use super::shared::Shared;
use super::stock::{Core, Place};
use crate::eventfd;
use crate::vhost::Features;
use crate::{BURST, Burst, Capabilities, DropReason, PortFault, Tally, TxQueue};
use mem::copy::Kernel;
use ring::device::{DeviceRing, Packed, Split};
use rustix::fd::OwnedFd;
use std::marker::PhantomData;
use std::sync::Arc;

/// Makes transmit queues. The ring's kind and the copy kernel are chosen here, once.
#[derive(Debug)]
pub(super) struct VhostTx;

impl VhostTx {
    /// A queue that takes over the ring `setup` describes, stopped at its base.
    pub(super) fn start(setup: &QueueSetup) -> Result<Box<dyn TxQueue>, PortFault> {
        mem::with_kernel!(mem::copy::chosen(), K => {
            if setup.features.has(Features::RING_PACKED) {
                Ok(Box::new(Owned::<Packed, K>::new(setup)?) as Box<dyn TxQueue>)
            } else {
                Ok(Box::new(Owned::<Split, K>::new(setup)?) as Box<dyn TxQueue>)
            }
        })
    }
}

/// The queue in the hands of one worker.
struct Owned<R, K> {
    core: Option<Core<R>>,
    shared: Option<Shared<R, K>>,
    call: Option<Arc<OwnedFd>>,
    capabilities: Capabilities,
    kernel: PhantomData<K>,
}

impl<R: DeviceRing, K: Kernel> Owned<R, K> {
    fn new(setup: &QueueSetup) -> Result<Self, PortFault> {
        let (core, capabilities) = (Some(Core::new(setup)?), setup.features.to_guest());
        Ok(Self { core, shared: None, call: setup.call.clone(), capabilities, kernel: PhantomData })
    }
}

impl<R: DeviceRing, K: Kernel> TxQueue for Owned<R, K> {
    fn tx(&mut self, burst: &Burst, picks: &[u8], tally: &mut Tally) -> Result<usize, PortFault> {
        match (&mut self.core, &mut self.shared) {
            (Some(core), _) => {
                let sent = send_alone::<R, K>(core, burst, picks, tally);
                // Zeros that stand for lost memory may look like any other fault.
                core.check_memory().and(sent)
            }
            (None, Some(shared)) => shared.tx(burst, picks, tally),
            (None, None) => Ok(0),
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn has_room(&mut self, len: usize) -> bool {
        match (&mut self.core, &mut self.shared) {
            (Some(core), _) => core.has_room(len),
            (None, Some(shared)) => shared.lock().core.has_room(len),
            (None, None) => false,
        }
    }

    fn notify(&mut self) {
        let wanted = match (&mut self.core, &mut self.shared) {
            (Some(core), _) => core.ring.should_call(),
            (None, Some(shared)) => shared.should_call(),
            (None, None) => false,
        };
        if wanted {
            eventfd::call(self.call.as_deref());
        }
    }

    fn fork(&mut self) -> Box<dyn TxQueue> {
        if let Some(core) = self.core.take() {
            self.shared = Some(Shared::new(core));
        }
        let shared = self.shared.as_ref().map(Shared::another);
        let (call, capabilities) = (self.call.clone(), self.capabilities);
        Box::new(Self { core: None, shared, call, capabilities, kernel: PhantomData })
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        match (&mut self.core, &mut self.shared) {
            (Some(core), _) => core.refresh(),
            (None, Some(shared)) => shared.refresh(),
            (None, None) => Ok(()),
        }
    }

    fn base(&self) -> u32 {
        match (&self.core, &self.shared) {
            (Some(core), _) => core.ring.base(),
            (None, Some(shared)) => shared.lock().core.ring.base(),
            (None, None) => 0,
        }
    }
}

/// Sends with nobody else at the queue.
fn send_alone<R: DeviceRing, K: Kernel>(
    core: &mut Core<R>,
    burst: &Burst,
    picks: &[u8],
    tally: &mut Tally,
) -> Result<usize, PortFault> {
    let sent = send_all::<R, K>(core, burst, picks, tally);
    // Also behind a fault: what counts as sent has to arrive.
    core.ring.publish();
    let done = sent?;
    core.stock_up()?;
    tally.work += core.take_work();
    Ok(done)
}

/// Sends until the queue is full. How many picks are done with.
#[inline(always)]
fn send_all<R: DeviceRing, K: Kernel>(
    core: &mut Core<R>,
    burst: &Burst,
    picks: &[u8],
    tally: &mut Tally,
) -> Result<usize, PortFault> {
    let mut done = 0;
    let run = match (core.form.header_len, burst.has_offloads(), burst.is_short()) {
        (LONG_HEADER, false, true) => send_plain::<R, K, LONG_HEADER, false, true>,
        (LONG_HEADER, false, false) => send_plain::<R, K, LONG_HEADER, false, false>,
        (LONG_HEADER, true, _) => send_plain::<R, K, LONG_HEADER, true, false>,
        (_, false, _) => send_plain::<R, K, SHORT_HEADER, false, false>,
        (_, true, _) => send_plain::<R, K, SHORT_HEADER, true, false>,
    };
    let mut next = Next::Plain;
    while done < picks.len() {
        if next == Next::Plain {
            done += run(core, burst, &picks[done..], tally);
        }
        let Some(&pick) = picks.get(done) else { break };
        next = send_other::<R, K>(core, burst, pick as usize, tally)?;
        if next == Next::Full {
            break;
        }
        done += 1;
    }
    Ok(done)
}

/// What stands at the front of the ring after a frame was sent, as far as that frame's place tells.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    /// Plain buffers that frames fit into.
    Plain,
    /// Buffers of which a frame needs several.
    Several,
    /// Nothing: the frame was not sent.
    Full,
}

/// Sends for as long as the plain buffer in front holds the next frame. How many were sent.
fn send_plain<R: DeviceRing, K: Kernel, const HEADER: usize, const OFFLOADS: bool, const SHORT: bool>(
    core: &mut Core<R>,
    burst: &Burst,
    picks: &[u8],
    tally: &mut Tally,
) -> usize {
    let form = core.form;
    let mut bytes = 0;
    let sent = core.fill_plain(picks, |map, pick, to| {
        let i = usize::from(pick) % BURST;
        let len = burst.frame_len(i);
        if to.len() < HEADER + len {
            return None;
        }
        fill::plain::<K, HEADER, OFFLOADS, SHORT>(map, form, to, (burst, i));
        bytes += len as u64;
        Some((HEADER + len) as u32)
    });
    tally.packets += sent as u64;
    tally.bytes += bytes;
    sent
}

/// Sends one frame for which there was no plain buffer in front.
#[cold]
fn send_other<R: DeviceRing, K: Kernel>(
    core: &mut Core<R>,
    burst: &Burst,
    pick: usize,
    tally: &mut Tally,
) -> Result<Next, PortFault> {
    let (frame, len, form) = (burst.frame(pick), burst.frame_len(pick), core.form);
    let next = match core.take(len)? {
        Place::Plain(token, seg) => {
            fill::any_plain::<K>(core.map(), form, seg, (burst, pick));
            core.ring.push_used(token, (form.header_len + len) as u32);
            Next::Plain
        }
        Place::Several(slots) => {
            fill::several::<K>(core.map(), form, &slots, &frame);
            slots.used(form.header_len + len).for_each(|(token, len)| core.ring.push_used(token, len));
            core.put_away(slots);
            Next::Several
        }
        Place::TooSmall => {
            tally.drop(DropReason::BufferTooSmall, 1);
            return Ok(Next::Plain);
        }
        Place::Full => return Ok(Next::Full),
    };
    tally.packets += 1;
    tally.bytes += len as u64;
    Ok(next)
}
