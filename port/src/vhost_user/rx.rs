//! A guest's transmit queue, as the switch receives from it.
//!
//! A sweep of descriptors is snapshot and translated, the frames' first lines are fetched, and the frames stay
//! where they are until the burst is completed. The virtio-net header says nothing and is not read where the guest may
//! leave no work to be done (VIRTIO 1.2 section 5.1.6.2); else headers are read behind the sweep ([`crate::header`]), when their
//! lines have had time to come.

use super::setup::QueueSetup;
use crate::eventfd;
use crate::header::{self, Allowed, Headers};
use crate::vhost::Features;
use crate::work::{self, RECEIVE_DESCRIPTORS};
use crate::{Burst, DropReason, PortFault, RxQueue, Tally};
use mem::{MapCell, Seg, Translator};
use ring::device::{DeviceRing, Packed, Split, Sweep};
use ring::{Descriptor, Direction, RingFault, Token, resolve};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Shortest frame: an Ethernet header.
const SHORTEST: usize = 14;
/// Longest frame: 64 KiB, the largest that any offload makes.
const LONGEST: usize = 65_550;

/// Makes receive queues. The ring's kind is chosen here, once.
#[derive(Debug)]
pub(super) struct VhostRx;

impl VhostRx {
    /// A queue that takes over the ring `setup` describes, stopped at its base.
    pub(super) fn start(setup: &QueueSetup) -> Result<Box<dyn RxQueue>, PortFault> {
        if setup.features.has(Features::RING_PACKED) {
            return Ok(Box::new(Rx::<Packed>::new(setup)?));
        }
        Ok(Box::new(Rx::<Split>::new(setup)?))
    }
}

struct Rx<R> {
    ring: R,
    memory: Arc<MapCell>,
    generation: u64,
    translator: Translator,
    /// Lent out while a burst is taken, so that the queue's other parts stay free; never absent between calls.
    sweep: Option<Box<Sweep>>,
    segs: Vec<Seg>,
    header: usize,
    headers: Headers,
    kick: Option<Arc<OwnedFd>>,
    call: Option<Arc<OwnedFd>>,
}

impl<R: DeviceRing> Rx<R> {
    fn new(setup: &QueueSetup) -> Result<Self, PortFault> {
        let mut generation = 0;
        let translator = setup.memory.current(&mut generation);
        Ok(Self {
            ring: R::new(&setup.layout(), translator.map())?,
            memory: setup.memory.clone(),
            generation,
            translator,
            sweep: Some(Box::default()),
            segs: Vec::with_capacity(2 * ring::MAX_PIECES),
            header: setup.features.header_len(),
            headers: Headers::new(Allowed::of_driver(setup.features.from_guest())),
            kick: setup.kick.clone(),
            call: setup.call.clone(),
        })
    }

    /// Buffers that are a header and a frame in one piece and nothing else. How many there were in a row.
    #[inline(always)]
    fn plain<const HEADERS: bool>(
        &mut self,
        heads: &[Descriptor],
        burst: &mut Burst,
        tally: &mut Tally,
    ) -> usize {
        // Apart from `tally`, so that they stay in registers.
        let (mut n, mut bytes) = (0, 0);
        for d in heads {
            let Some(seg) = self.translator.translate(d.address, d.len) else { break };
            let (header, frame) = seg.split_at(self.header);
            if Direction::Read.check(d.flags).is_err() || !(SHORTEST..=LONGEST).contains(&frame.len()) {
                break;
            }
            frame.prefetch_read(0);
            if frame.len() > 64 {
                frame.prefetch_read(64);
            }
            if HEADERS {
                self.headers.note(burst.len(), header);
            }
            burst.push(d.token(), frame);
            n += 1;
            bytes += frame.len() as u64;
        }
        tally.packets += n as u64;
        tally.bytes += bytes;
        n
    }

    /// Any other buffer: in several pieces, or not fit to be carried.
    #[cold]
    fn chain(
        &mut self,
        chain: &[Descriptor],
        token: Token,
        burst: &mut Burst,
        tally: &mut Tally,
    ) -> Result<(), PortFault> {
        self.segs.clear();
        tally.work += chain.len() as u64 * work::DESCRIPTOR;
        match resolve(chain, Direction::Read, &mut self.translator, &mut self.segs) {
            Err(RingFault::TooManyPieces) => {
                lose(0, DropReason::TooManyPieces, token, burst, tally);
                return Ok(());
            }
            resolved => resolved?,
        }
        let offload = header::of_chain(&self.segs);
        skip_front(&mut self.segs, self.header);
        let len = self.segs.iter().map(|s| s.len()).sum();
        if !(SHORTEST..=LONGEST).contains(&len) {
            let reason = if len < SHORTEST { DropReason::TooShort } else { DropReason::TooLong };
            lose(len, reason, token, burst, tally);
            return Ok(());
        }
        self.segs.iter().take(2).for_each(|seg| seg.prefetch_read(0));
        self.headers.note(burst.len(), Seg::EMPTY);
        burst.push_chain(token, &self.segs);
        tally.packets += 1;
        tally.bytes += len as u64;
        self.headers.judge_last(offload, burst, tally);
        Ok(())
    }
}

/// Counts a frame that cannot be carried; its buffer goes back with the burst.
#[cold]
fn lose(len: usize, reason: DropReason, token: Token, burst: &mut Burst, tally: &mut Tally) {
    tally.packets += 1;
    tally.bytes += len as u64;
    tally.drop(reason, 1);
    burst.give_back(token);
}

/// Takes `n` bytes off the front of a list of segments.
fn skip_front(segs: &mut Vec<Seg>, n: usize) {
    let mut left = n;
    let mut whole = 0;
    for seg in segs.iter_mut() {
        if seg.len() > left {
            *seg = seg.split_at(left).1;
            break;
        }
        left -= seg.len();
        whole += 1;
    }
    segs.drain(..whole);
}

impl<R: DeviceRing> RxQueue for Rx<R> {
    fn prefetch(&self) {
        self.ring.prefetch();
    }

    fn rx(&mut self, burst: &mut Burst, tally: &mut Tally) -> Result<(), PortFault> {
        let Some(mut sweep) = self.sweep.take() else { return Ok(()) };
        let mut taken = self.take(&mut sweep, burst, tally);
        // A sweep ends with a chain; what follows it is taken too, as long as chains still fit.
        let mut walked = 0;
        while taken.is_ok() && sweep.has_chain() && walked < RECEIVE_DESCRIPTORS && burst.has_chain_room() {
            walked += sweep.chain.len();
            taken = self.take(&mut sweep, burst, tally);
        }
        self.sweep = Some(sweep);
        taken
    }

    fn complete(&mut self, burst: &Burst) {
        if burst.tokens().is_empty() {
            return;
        }
        self.ring.push_read(burst.tokens());
        self.ring.publish();
    }

    fn notify(&mut self) {
        if self.ring.should_call() {
            eventfd::call(self.call.as_deref());
        }
    }

    fn arm(&mut self) -> Result<bool, PortFault> {
        Ok(self.ring.arm())
    }

    fn disarm(&mut self) {
        self.ring.disarm();
        if let Some(kick) = &self.kick {
            eventfd::clear(kick);
        }
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        self.kick.as_ref().map(|fd| fd.as_fd())
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        if let Some(translator) = self.memory.refresh(&mut self.generation) {
            self.translator = translator;
            self.ring.remap(self.translator.map())?;
        }
        Ok(())
    }

    fn base(&self) -> u32 {
        self.ring.base()
    }
}

impl<R: DeviceRing> Rx<R> {
    #[inline]
    fn take(&mut self, sweep: &mut Sweep, burst: &mut Burst, tally: &mut Tally) -> Result<(), PortFault> {
        let swept = self.ring.sweep(burst.room(), sweep, &mut self.translator);
        // Zeros that stand for lost memory may look like any other fault.
        if self.translator.is_lost() {
            return Err(PortFault::MemoryLost);
        }
        swept?;
        if sweep.len == 0 {
            return Ok(());
        }
        burst.pin(self.translator.map());
        let (plain, before) = (sweep.plain(), burst.len());
        let mut heads = &sweep.heads[..plain];
        let run = if self.headers.are_read() { Self::plain::<true> } else { Self::plain::<false> };
        while let Some((odd, after)) = heads[run(self, heads, burst, tally)..].split_first() {
            self.chain(&[*odd], odd.token(), burst, tally)?;
            heads = after;
        }
        if sweep.has_chain() {
            self.chain(&sweep.chain, sweep.token(plain), burst, tally)?;
        }
        self.headers.read(before, burst, tally);
        Ok(())
    }
}
