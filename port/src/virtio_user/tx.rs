//! A virtio-user port's transmit ring, as the switch sends to it.
//!
//! Buffers are used in turn. Those that come next are fetched for writing ahead of need, and what the back end has
//! sent is taken back a burst at a time once half of the buffers are out. A frame is written into its buffer, or into
//! several that become a chain, posted, and published with the others of the same call. Headers are looked after only
//! while any of them says something, or is to.
//!
//! One worker owns the queue outright, without a lock; or several share it after [`TxQueue::fork`], and then the
//! rules of the `shared` module hold.

use super::buffers::Buffers;
use super::device::QueueSetup;
use super::links::Links;
use super::offloads::{Headers, words};
use super::shared::Shared;
use crate::eventfd::signal;
use crate::{BURST, Burst, Capabilities, DropReason, Frame, PortFault, Tally, TxQueue, work};
use mem::copy::Kernel;
use ring::RingFault;
use ring::driver::{DriverRing, Packed, Post, Split, Used};
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
    pub(super) headers: Headers,
    pub(super) links: Links,
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
            headers: Headers::new(setup.layout.size),
            links: Links::new(setup.layout.size),
            free: Free::all(setup.layout.size),
            fetched: 0,
            used: [Used::default(); BURST],
        })
    }

    /// Buffers in all.
    pub(super) fn size(&self) -> usize {
        self.free.ids.len()
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

    /// Whether a buffer is there. A fault is found again, and reported, by the next call that sends.
    pub(super) fn has_room(&mut self) -> bool {
        self.gather(1).is_err() || self.free.held > 0
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
        if self.links.are_set() {
            self.unlink(n);
        } else {
            self.used[..n].iter().for_each(|used| self.free.push(used.id));
        }
        Ok(n)
    }

    /// Takes the first `n` of `used` back, and what followed them.
    #[cold]
    fn unlink(&mut self, n: usize) {
        for used in &self.used[..n] {
            let mut next = Some(used.id);
            while let Some(id) = next {
                self.free.push(id);
                next = self.links.take(id);
            }
        }
    }

    /// Buffers for a frame of `len` bytes that is too long for one, linked; `others` frames follow it.
    #[cold]
    pub(super) fn take_several(&mut self, len: usize, others: usize) -> Result<Place, RingFault> {
        let n = self.buffers.count(len);
        if n > BURST.min(self.size()) {
            return Ok(Place::TooSmall);
        }
        self.gather(n + others)?;
        if self.free.held < n {
            return Ok(Place::Full);
        }
        let Some(first) = self.take() else { return Ok(Place::Full) };
        let mut last = first;
        for _ in 1..n {
            let Some(id) = self.take() else { break };
            self.links.set(last, id);
            last = id;
        }
        Ok(Place::At(first))
    }

    /// Has the header of buffer `id` say what is left to be done for `frame`.
    #[inline(always)]
    fn mark(&mut self, id: u16, frame: &Frame<'_>) {
        if let Some(changed) = self.headers.change(id, words(frame)) {
            self.buffers.set_words(id, changed);
        }
    }

    /// Posts the frame of `len` bytes that begins in buffer `id`.
    #[inline(always)]
    pub(super) fn post(&mut self, id: u16, len: usize) {
        if len <= self.buffers.room() {
            self.ring.post(self.buffers.to_send(id, len));
        } else {
            self.post_several(id, len);
        }
    }

    #[cold]
    fn post_several(&mut self, first: u16, len: usize) {
        let room = self.buffers.room();
        let mut chain = [self.buffers.to_send(first, room); BURST];
        let behind = self.links.behind(first).zip((0..len).step_by(room).skip(1));
        let more = |(id, at): (u16, usize)| -> Post { self.buffers.to_send_more(id, room.min(len - at)) };
        let n = chain[1..].iter_mut().zip(behind.map(more)).map(|(to, post)| *to = post).count();
        self.ring.post_chain(&chain[..=n]);
    }
}

/// Where a frame goes.
pub(super) enum Place {
    /// Into this buffer, and into those that are linked behind it.
    At(u16),
    /// Nowhere: it would take all buffers and more, or more than a chain may have.
    TooSmall,
    /// Too many buffers are out.
    Full,
}

/// The queue in the hands of one worker.
struct Owned<R, K> {
    core: Option<Core<R>>,
    shared: Option<Shared<R, K>>,
    kick: Arc<OwnedFd>,
    capabilities: Capabilities,
    kernel: PhantomData<K>,
}

impl<R: DriverRing, K: Kernel> Owned<R, K> {
    fn new(setup: &QueueSetup) -> Result<Self, PortFault> {
        let core = Some(Core::new(setup).map_err(PortFault::UsedRing)?);
        let (kick, capabilities) = (setup.kick.clone(), setup.work);
        Ok(Self { core, shared: None, kick, capabilities, kernel: PhantomData })
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

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn has_room(&mut self, _len: usize) -> bool {
        match (&mut self.core, &mut self.shared) {
            (Some(core), _) => core.has_room(),
            (None, Some(shared)) => shared.lock().core.has_room(),
            (None, None) => false,
        }
    }

    fn notify(&mut self) {
        let wanted = match (&mut self.core, &mut self.shared) {
            (Some(core), _) => core.ring.should_kick(),
            (None, Some(shared)) => shared.should_kick(),
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
        let (kick, capabilities) = (self.kick.clone(), self.capabilities);
        Box::new(Self { core: None, shared, kick, capabilities, kernel: PhantomData })
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
    let sent = send_all::<R, K>(core, burst, picks, tally);
    // Also behind a fault: what counts as sent has to arrive.
    core.ring.publish();
    let done = sent?;
    core.prepare()?;
    Ok(done)
}

/// Sends until there is no buffer left. How many picks are done with.
#[inline(always)]
fn send_all<R: DriverRing, K: Kernel>(
    core: &mut Core<R>,
    burst: &Burst,
    picks: &[u8],
    tally: &mut Tally,
) -> Result<usize, RingFault> {
    let marked = burst.has_offloads() || core.headers.are_marked();
    let run = match (marked, burst.is_short()) {
        (true, _) => send_plain::<R, K, true, false>,
        (false, false) => send_plain::<R, K, false, false>,
        (false, true) => send_plain::<R, K, false, true>,
    };
    let mut done = 0;
    loop {
        done += run(core, burst, &picks[done..], tally);
        let Some((&pick, others)) = picks[done..].split_first() else { return Ok(done) };
        if !send_other::<R, K>(core, burst, pick as usize, others.len(), tally)? {
            return Ok(done);
        }
        done += 1;
    }
}

/// Sends for as long as frames fit into one buffer and there is one. How many were sent. `HEADERS`: whether any header
/// says something, or is to. `SHORT`: whether the burst [is short](Burst::is_short).
fn send_plain<R: DriverRing, K: Kernel, const HEADERS: bool, const SHORT: bool>(
    core: &mut Core<R>,
    burst: &Burst,
    picks: &[u8],
    tally: &mut Tally,
) -> usize {
    let (mut done, mut bytes) = (0, 0);
    for &pick in picks {
        let i = usize::from(pick) % BURST;
        let len = burst.frame_len(i);
        if len > core.buffers.room() {
            break;
        }
        let Some(id) = core.take() else { break };
        if HEADERS {
            core.mark(id, &burst.frame(i));
        }
        core.buffers.fill::<K, SHORT>(id, (burst, i), len);
        core.ring.post(core.buffers.to_send(id, len));
        done += 1;
        bytes += len as u64;
    }
    tally.packets += done as u64;
    tally.bytes += bytes;
    done
}

/// Units of work for the buffers of a frame beyond the first.
pub(super) fn work_of_buffers(n: usize) -> u64 {
    n.saturating_sub(1) as u64 * work::PIECE
}

/// Sends one frame that is too long for one buffer, or counts it; `others` frames follow it. `false`: there are too few
/// buffers.
#[cold]
fn send_other<R: DriverRing, K: Kernel>(
    core: &mut Core<R>,
    burst: &Burst,
    pick: usize,
    others: usize,
    tally: &mut Tally,
) -> Result<bool, RingFault> {
    let (frame, len) = (burst.frame(pick), burst.frame_len(pick));
    if len <= core.buffers.room() {
        return Ok(false);
    }
    match core.take_several(len, others)? {
        Place::At(first) => {
            core.mark(first, &frame);
            core.buffers.fill_several::<K>(first, core.links.behind(first), &frame);
            core.post(first, len);
            tally.work += work_of_buffers(core.buffers.count(len));
            tally.packets += 1;
            tally.bytes += len as u64;
        }
        Place::TooSmall => tally.drop(DropReason::BufferTooSmall, 1),
        Place::Full => return Ok(false),
    }
    Ok(true)
}
