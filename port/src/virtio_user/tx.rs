//! A virtio-user port's transmit ring, as the switch sends to it.
//!
//! Buffers are used in turn. Those that come next are fetched for writing ahead of need, and what the back end has
//! sent is taken back a burst at a time once half of the buffers are out. A frame is written into its buffer, posted,
//! and published with the others of the same call.
//!
//! One worker owns the queue outright, without a lock; or several share it after [`TxQueue::fork`], and then the
//! rules of the `shared` module hold.

use super::buffers::Buffers;
use super::device::QueueSetup;
use super::shared::Shared;
use crate::vhost_user::signal::signal;
use crate::{BURST, Burst, DropReason, PortFault, Tally, TxQueue};
use mem::copy::Kernel;
use ring::RingFault;
use ring::driver::{DriverRing, Packed, Split, Used};
use rustix::fd::{AsFd, OwnedFd};
use std::marker::PhantomData;
use std::sync::Arc;

/// A queue over a fresh ring. The ring's kind and the copy kernel are chosen here, once.
pub(super) fn start(setup: &QueueSetup) -> Result<Box<dyn TxQueue>, PortFault> {
    mem::with_kernel!(mem::copy::chosen(), K => {
        if setup.packed {
            Ok(Box::new(Owned::<Packed, K>::new(setup)?) as Box<dyn TxQueue>)
        } else {
            Ok(Box::new(Owned::<Split, K>::new(setup)?) as Box<dyn TxQueue>)
        }
    })
}

/// Identifiers of buffers that are not out, in the order in which they came back.
struct Free {
    ids: Box<[u16]>,
    first: usize,
    held: usize,
}

impl Free {
    fn all(size: u16) -> Self {
        Self { ids: (0..size).collect(), first: 0, held: usize::from(size) }
    }

    #[inline(always)]
    fn place(&self, k: usize) -> usize {
        let at = self.first + k;
        if at >= self.ids.len() { at - self.ids.len() } else { at }
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<u16> {
        if self.held == 0 {
            return None;
        }
        let id = self.ids[self.first];
        self.first = self.place(1);
        self.held -= 1;
        Some(id)
    }

    /// The ring hands out each identifier once, so there is always a place.
    #[inline(always)]
    fn push(&mut self, id: u16) {
        let at = self.place(self.held);
        self.ids[at] = id;
        self.held += 1;
    }
}

/// A ring with its buffers.
pub(super) struct Core<R> {
    pub(super) ring: R,
    pub(super) buffers: Buffers,
    free: Free,
    /// How many buffers at the front of `free` are fetched.
    fetched: usize,
    used: [Used; BURST],
}

impl<R: DriverRing> Core<R> {
    pub(super) fn new(setup: &QueueSetup) -> Result<Self, RingFault> {
        let buffers = setup.buffers.clone();
        Ok(Self {
            ring: R::new(&setup.layout, buffers.map())?,
            buffers,
            free: Free::all(setup.layout.size),
            fetched: 0,
            used: [Used::default(); BURST],
        })
    }

    /// A buffer to fill.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<u16> {
        self.fetched = self.fetched.saturating_sub(1);
        self.free.pop()
    }

    /// Sees to it that `n` buffers are here, if the back end has returned as many.
    #[inline]
    pub(super) fn gather(&mut self, n: usize) -> Result<(), RingFault> {
        while self.free.held < n && self.reclaim()? > 0 {}
        Ok(())
    }

    /// Takes back what is half due, and fetches what comes next.
    #[inline]
    pub(super) fn prepare(&mut self) -> Result<(), RingFault> {
        if self.free.held < self.free.ids.len() / 2 {
            self.reclaim()?;
        }
        while self.fetched < self.free.held.min(BURST) {
            self.buffers.prefetch_write(self.free.ids[self.free.place(self.fetched)]);
            self.fetched += 1;
        }
        Ok(())
    }

    #[inline]
    fn reclaim(&mut self) -> Result<usize, RingFault> {
        let n = self.ring.take(&mut self.used)?;
        self.used[..n].iter().for_each(|used| self.free.push(used.id));
        Ok(n)
    }
}

/// The queue in the hands of one worker.
struct Owned<R, K> {
    core: Option<Core<R>>,
    shared: Option<Shared<R, K>>,
    kick: Arc<OwnedFd>,
    kernel: PhantomData<K>,
}

impl<R: DriverRing, K: Kernel> Owned<R, K> {
    fn new(setup: &QueueSetup) -> Result<Self, PortFault> {
        let core = Some(Core::new(setup).map_err(PortFault::UsedRing)?);
        Ok(Self { core, shared: None, kick: setup.kick.clone(), kernel: PhantomData })
    }
}

impl<R: DriverRing, K: Kernel> TxQueue for Owned<R, K> {
    fn tx(&mut self, burst: &Burst, picks: &[u8], tally: &mut Tally) -> Result<usize, PortFault> {
        let sent = match (&mut self.core, &mut self.shared) {
            (Some(core), _) => send_alone::<R, K>(core, burst, picks, tally),
            (None, Some(shared)) => shared.tx(burst, picks, tally),
            (None, None) => Ok(0),
        };
        sent.map_err(PortFault::UsedRing)
    }

    fn notify(&mut self) {
        let wanted = match (&mut self.core, &mut self.shared) {
            (Some(core), _) => core.ring.should_kick(),
            (None, Some(shared)) => shared.lock().core.ring.should_kick(),
            (None, None) => false,
        };
        if wanted {
            signal(self.kick.as_fd());
        }
    }

    fn fork(&mut self) -> Box<dyn TxQueue> {
        if let Some(core) = self.core.take() {
            self.shared = Some(Shared::new(core));
        }
        let shared = self.shared.as_ref().map(Shared::another);
        Box::new(Self { core: None, shared, kick: self.kick.clone(), kernel: PhantomData })
    }

    /// The memory is the port's own and stays as it is.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    /// Each connection begins with a fresh ring, so nobody asks where an old one stopped.
    fn base(&self) -> u32 {
        0
    }
}

/// Sends with nobody else at the queue.
fn send_alone<R: DriverRing, K: Kernel>(
    core: &mut Core<R>,
    burst: &Burst,
    picks: &[u8],
    tally: &mut Tally,
) -> Result<usize, RingFault> {
    core.gather(picks.len())?;
    let mut done = 0;
    for &pick in picks {
        let (frame, len) = (burst.frame(pick as usize), burst.frame_len(pick as usize));
        if len > core.buffers.room() {
            tally.drop(DropReason::BufferTooSmall, 1);
            done += 1;
            continue;
        }
        let Some(id) = core.take() else { break };
        core.buffers.fill::<K>(id, &frame, len);
        core.ring.post(core.buffers.to_send(id, len));
        tally.packets += 1;
        tally.bytes += len as u64;
        done += 1;
    }
    core.ring.publish();
    core.prepare()?;
    Ok(done)
}
