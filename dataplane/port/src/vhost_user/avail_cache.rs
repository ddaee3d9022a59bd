//! Buffers taken ahead of need: the private avail cache of a transmit queue.
//!
//! Only what stands at the front of the ring can be given out, so the avail cache is a queue: first the plain buffers
//! of the last batch, then at most one chain with which that batch ended. Taking for a frame that needs several
//! buffers is all or nothing; what was gathered in vain goes back. Nothing here writes to the guest.

use super::fill::{self, LONG_HEADER, SHORT_HEADER};
use super::setup::QueueSetup;
use crate::burst::layout::{ANY, IN_PLACE, WHOLE};
use crate::transmit::{Filled, Form, Slots, Taken, Told, TxRing};
use crate::vhost::Features;
use crate::{BURST, Burst, BurstStats, PortFault, QueueState, work};
use mem::copy::Kernel;
use mem::{GuestMemory, MemTable, Translator, VolatileSlice, Window};
use ring::device::{DeviceRing, VisitPlain};
use ring::{BufId, Descriptor, Direction, RingFault, resolve};
use std::sync::Arc;

/// Plain buffers kept translated and fetched ahead of need.
const AHEAD: usize = 64;
/// So many are taken at a time at least, where the ring has them: four lines of descriptors. After bursts of a few frames a
/// batch for each would look at lines in part and again (`docs/research/path-lines.md`).
const PART: usize = 16;

/// Most buffers of one frame: 64 KiB in buffers of 1 KiB, and no guest's driver makes smaller ones.
const MOST_BUFFERS: usize = 64;

/// Buffers were gathered for a frame and did not suffice. As long as the front of the ring is what it was, gathering again
/// would end in the same way.
#[derive(Clone, Copy)]
struct Failed {
    /// Bytes that the buffers had: a frame that needs more fails again.
    bytes: usize,
    /// Ring entries that they took.
    slots: u32,
    /// Whether no more buffers are gathered for a frame, however many there are.
    too_small: bool,
}

/// Adds a buffer, whose pieces are added already. One without bytes is a fault.
#[inline(always)]
fn add_buffer(slots: &mut Slots, buf_id: BufId, capacity: usize) -> Result<(), RingFault> {
    slots.add_buffer(Filled::new(buf_id.id, buf_id.slots, capacity));
    if capacity == 0 { Err(RingFault::NoRoom) } else { Ok(()) }
}

/// What returns a buffer.
#[inline(always)]
fn buf_id(filled: &Filled) -> BufId {
    BufId { id: filled.id, slots: filled.tag }
}

/// Plain buffers in the order of the ring: those at `first + k` for `k < held`.
struct AvailCache {
    places: Box<Places>,
    first: usize,
    held: usize,
}

const SHELF: usize = 2 * AHEAD;

/// By place: the segment, and the number that returns it.
struct Places {
    segs: [VolatileSlice; SHELF],
    ids: [u16; SHELF],
}

impl Places {
    /// Returns `false` if there is no such place.
    #[inline(always)]
    fn put(&mut self, at: usize, buffer: Descriptor, seg: VolatileSlice) -> bool {
        if at >= SHELF {
            return false;
        }
        (self.segs[at], self.ids[at]) = (seg, buffer.link);
        true
    }
}

impl AvailCache {
    fn new() -> Self {
        Self {
            places: Box::new(Places { segs: [VolatileSlice::EMPTY; SHELF], ids: [0; SHELF] }),
            first: 0,
            held: 0,
        }
    }

    /// Where the `k`-th buffer is.
    #[inline(always)]
    fn place(&self, k: usize) -> usize {
        self.first + k
    }

    /// Makes place for as many buffers as are kept ahead, and says where the next one goes.
    #[inline(always)]
    fn make_place(&mut self) -> usize {
        if self.held == 0 {
            self.first = 0;
        } else if self.first + AHEAD > SHELF {
            let held = self.first..self.first + self.held;
            self.places.segs.copy_within(held.clone(), 0);
            self.places.ids.copy_within(held, 0);
            self.first = 0;
        }
        self.first + self.held
    }

    /// The buffer in front.
    fn front(&self) -> Option<(BufId, VolatileSlice)> {
        let at = self.place(0);
        (self.held > 0).then(|| (BufId::plain(self.places.ids[at]), self.places.segs[at]))
    }

    fn drop_front(&mut self, n: usize) {
        self.first = self.place(n);
        self.held -= n;
    }

    /// Takes the last buffer back.
    fn take_back(&mut self) -> Option<BufId> {
        self.held = self.held.checked_sub(1)?;
        Some(BufId::plain(self.places.ids[self.place(self.held)]))
    }
}

/// Puts plain buffers into the avail cache and has what will be written of them fetched. Apart from the queue, so that its fields
/// stay in registers.
struct CacheFill<'a> {
    window: Window,
    translator: &'a mut Translator,
    places: &'a mut Places,
    /// The place of the first one.
    end: usize,
    header_len: usize,
    /// Whether header and frame begin on one line in the buffers that came last: drivers lay out all of them alike.
    on_one_line: bool,
}

impl VisitPlain for CacheFill<'_> {
    #[inline(always)]
    fn visit(&mut self, k: usize, buffer: Descriptor) -> bool {
        let seg = if let Some(seg) = self.window.translate(buffer.address, buffer.len) {
            seg.seg()
        } else {
            let (seg, window) = self.translator.beyond_window(buffer.address, buffer.len);
            let Some(seg) = seg else { return false };
            self.window = window;
            seg
        };
        self.fetch(seg);
        self.places.put(self.end + k, buffer, seg)
    }
}

impl CacheFill<'_> {
    /// Fetches the lines where header and frame begin.
    #[inline(always)]
    fn fetch(&self, seg: VolatileSlice) {
        if self.on_one_line {
            // As Linux lays them out: both are written.
            seg.prefetch_write(0);
            seg.prefetch_write(64);
        } else {
            seg.prefetch_read(0);
            seg.prefetch_write(self.header_len);
        }
    }
}

/// A ring with its avail cache.
pub(super) struct Core<R> {
    ring: R,
    form: Form,
    mergeable: bool,
    memory: Arc<MemTable>,
    generation: u64,
    translator: Translator,
    plain: AvailCache,
    on_one_line: bool,
    /// The chain behind the plain buffers.
    chain: Option<BufId>,
    chain_descriptors: Vec<Descriptor>,
    /// What became of gathering, until something is taken.
    failed: Option<Failed>,
    /// For gathering that only tells whether there is room.
    probe: Slots,
    /// Descriptors of chains that were read, pieces that were gathered, and those given back, since [`Core::take_work`].
    walked: u64,
}

impl<R: DeviceRing> Core<R> {
    pub(super) fn new(setup: &QueueSetup) -> Result<Self, PortFault> {
        let mut generation = 0;
        let translator = setup.memory.current(&mut generation);
        Ok(Self {
            ring: R::new(&setup.layout(), translator.map())?,
            form: Form {
                header_len: setup.features.header_len(),
                told: Told::Driver(setup.features.to_guest()),
            },
            mergeable: setup.features.has(Features::MRG_RXBUF),
            memory: setup.memory.clone(),
            generation,
            translator,
            plain: AvailCache::new(),
            on_one_line: false,
            chain: None,
            chain_descriptors: Vec::with_capacity(ring::MAX_CHAIN),
            failed: None,
            probe: Slots::new(),
            walked: 0,
        })
    }

    /// What becomes of a frame for which gathering would fail as it did before.
    #[cold]
    fn fails_again(&mut self, need: usize) -> Option<Taken> {
        let failed = self.failed.filter(|failed| need > failed.bytes)?;
        if failed.too_small {
            return Some(Taken::TooSmall);
        }
        // What was given back may stand in the avail cache again, so that the ring begins behind it.
        let stocked = self.plain.held as u32 + self.chain.map_or(0, |buf_id| buf_id.slots.into());
        (!self.ring.has_beyond(failed.slots.saturating_sub(stocked))).then_some(Taken::Full)
    }

    /// Gives each of `indices` the plain buffer in front and has `fill` write it, until the avail cache is used up or `fill` refuses a
    /// buffer. `fill` says how many bytes it has written. Returns how many buffers were written.
    #[inline(always)]
    fn fill_plain(
        &mut self,
        indices: &[u8],
        mut fill: impl FnMut(&GuestMemory, u8, VolatileSlice) -> Option<u32>,
    ) -> usize {
        // Apart from `self`, so that they stay in registers while frames are written.
        let AvailCache { ref places, first, held } = self.plain;
        let map = &**self.translator.map();
        let (segs, ids) = (&places.segs[first..][..held], &places.ids[first..][..held]);
        let mut cursor = self.ring.cursor();
        let mut taken = 0;
        for ((&pick, seg), id) in indices.iter().zip(segs).zip(ids) {
            let Some(written) = fill(map, pick, *seg) else { break };
            self.ring.put_used(&mut cursor, BufId::plain(*id), written);
            taken += 1;
        }
        self.ring.advance(cursor);
        self.plain.drop_front(taken);
        if taken > 0 {
            self.failed = None;
        }
        taken
    }

    /// Gathers buffers until `need` bytes fit. The plain buffer in front, if there is one, is too small.
    #[cold]
    fn take_several(&mut self, need: usize, slots: &mut Slots) -> Result<Taken, PortFault> {
        if !self.mergeable && self.plain.held > 0 {
            let is_empty = self.plain.front().is_some_and(|(_, seg)| seg.is_empty());
            return if is_empty { Err(RingFault::NoRoom.into()) } else { Ok(Taken::TooSmall) };
        }
        let taken = self.gather(need, slots);
        if let Ok(Taken::Slot) = taken {
            self.failed = None;
            self.walked += slots.gathered().0.len() as u64;
        } else {
            self.ungather(slots, &taken);
        }
        taken
    }

    /// Whether a frame of `need` bytes can be taken, or has to come to be counted. The ring stays as it is.
    #[cold]
    fn can_gather(&mut self, need: usize) -> bool {
        let mut probe = std::mem::take(&mut self.probe);
        let taken = self.take_several(need, &mut probe);
        if matches!(taken, Ok(Taken::Slot)) {
            self.ungather(&mut probe, &taken);
            self.failed = None;
        }
        self.probe = probe;
        // A fault is found again, and reported, by the next call that sends.
        !matches!(taken, Ok(Taken::Full))
    }

    /// Takes buffers until `need` bytes fit, or returns why they do not.
    #[inline(always)]
    fn gather(&mut self, need: usize, slots: &mut Slots) -> Result<Taken, PortFault> {
        let (mut bytes, mut buffers) = (0, 0);
        let most = if self.mergeable { MOST_BUFFERS } else { 1 };
        while bytes < need {
            if buffers >= most || slots.gathered().0.len() > ring::MAX_PIECES {
                return Ok(Taken::TooSmall);
            }
            buffers += 1;
            if self.plain.held == 0 && self.chain.is_none() {
                self.fill_cache()?;
            }
            if let Some((buf_id, seg)) = self.plain.front() {
                self.plain.drop_front(1);
                slots.add_piece(seg);
                add_buffer(slots, buf_id, seg.len())?;
                bytes += seg.len();
            } else {
                let Some(capacity) = self.gather_chain(slots)? else { return Ok(Taken::Full) };
                bytes += capacity;
            }
        }
        Ok(Taken::Slot)
    }

    /// Takes the chain behind the plain buffers. Returns how many bytes it has, or `None` if there is none.
    #[cold]
    fn gather_chain(&mut self, slots: &mut Slots) -> Result<Option<usize>, PortFault> {
        let Some(buf_id) = self.chain.take() else { return Ok(None) };
        let from = slots.gathered().0.len();
        let resolved =
            resolve(&self.chain_descriptors, Direction::Write, &mut self.translator, slots.pieces_mut());
        self.chain_descriptors.clear();
        let capacity = slots.gathered().0[from..].iter().map(|s| s.len()).sum();
        let added = add_buffer(slots, buf_id, capacity);
        resolved?;
        added?;
        Ok(Some(capacity))
    }

    /// What was gathered in vain goes back to the ring, with nothing behind it: the next frame may need less.
    #[cold]
    fn ungather(&mut self, gathered: &mut Slots, taken: &Result<Taken, PortFault>) {
        let (pieces, buffers) = gathered.gathered();
        self.walked += 2 * pieces.len() as u64;
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        let slots = buffers.iter().map(|buffer| u32::from(buffer.tag)).sum();
        // A fault is found again by the next call.
        let too_small = matches!(taken, Ok(Taken::TooSmall));
        self.failed = taken.is_ok().then_some(Failed { bytes, slots, too_small });
        self.untake_from(0);
        buffers.iter().rev().for_each(|buffer| self.ring.rewind(&[buf_id(buffer)]));
        gathered.ungather();
    }

    /// Fills the avail cache, unless little of it is gone, and fetches what will be written next.
    #[inline]
    fn fill_cache(&mut self) -> Result<(), PortFault> {
        if self.chain.is_some() || self.plain.held > AHEAD - PART {
            return Ok(());
        }
        let end = self.plain.make_place();
        let mut stocking = CacheFill {
            window: self.translator.window(),
            translator: &mut self.translator,
            places: &mut self.plain.places,
            end,
            header_len: self.form.header_len,
            on_one_line: self.on_one_line,
        };
        let room = AHEAD - self.plain.held;
        let taken = self.ring.pop_plain(room, Some(Direction::Write), &mut stocking)?;
        if taken > 0 {
            let start = self.plain.places.segs[end].addr();
            self.on_one_line = (start ^ (start + self.form.header_len)) & !63 == 0;
        }
        self.plain.held += taken;
        if self.plain.held < AHEAD && self.ring.has_beyond(0) { self.stock_odd() } else { Ok(()) }
    }

    /// Takes a buffer that is not plain, or that crosses from one region into the next: it is kept as a chain.
    #[cold]
    fn stock_odd(&mut self) -> Result<(), PortFault> {
        self.chain_descriptors.clear();
        self.chain = self.ring.pop_any(&mut self.translator, &mut self.chain_descriptors)?;
        self.walked += self.chain_descriptors.len() as u64;
        Ok(())
    }

    /// Takes over a changed map: the avail cache is translated anew. Its buffers stay taken, except from the first one on
    /// that lies over a region's edge now: nothing of those was written, so they are taken and judged again. After a
    /// fault nothing of the old map is left in the avail cache either: other workers may still ask for places, and the old
    /// map goes before they hear of it.
    fn take_over_map(&mut self) -> Result<(), PortFault> {
        let Some(translator) = self.memory.refresh(&mut self.generation) else { return Ok(()) };
        let old = std::mem::replace(&mut self.translator, translator);
        let translated = self.translate_stock(old.map());
        if translated.is_err() {
            self.untake_from(0);
        }
        self.failed = None;
        translated
    }

    /// Finds the avail cache, which lies in the map `old`, in the new one.
    fn translate_stock(&mut self, old: &GuestMemory) -> Result<(), PortFault> {
        self.ring.remap(self.translator.map())?;
        for k in 0..self.plain.held {
            let at = self.plain.place(k);
            let (seg, len) = (self.plain.places.segs[at], self.plain.places.segs[at].len() as u32);
            // Every segment of the avail cache was translated with the old map.
            let address = old.guest_address(seg).unwrap_or(u64::MAX);
            let Some(seg) = self.translator.translate(address, len) else {
                // What lies nowhere any more is named here; what lies in two regions is no fault.
                let described = [Descriptor { address, len, flags: Descriptor::WRITE, link: 0 }];
                resolve(&described, Direction::Write, &mut self.translator, &mut Vec::new())?;
                self.untake_from(k);
                break;
            };
            self.plain.places.segs[at] = seg;
        }
        Ok(())
    }

    /// Gives the avail cache back to the ring, newest first, down to the `k`-th plain buffer.
    #[cold]
    fn untake_from(&mut self, k: usize) {
        if let Some(buf_id) = self.chain.take() {
            self.chain_descriptors.clear();
            self.ring.rewind(&[buf_id]);
        }
        while self.plain.held > k {
            let Some(buf_id) = self.plain.take_back() else { return };
            self.ring.rewind(&[buf_id]);
        }
    }
}

impl<R: DeviceRing> TxRing for Core<R> {
    fn form(&self) -> Form {
        self.form
    }

    #[inline(always)]
    fn map(&self) -> &Arc<GuestMemory> {
        self.translator.map()
    }

    /// The avail cache is filled after each call already.
    #[inline(always)]
    fn prepare(&mut self, _: usize) -> Result<(), PortFault> {
        Ok(())
    }

    #[inline(always)]
    fn send_plain<K: Kernel>(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> usize {
        let run = match (self.form.header_len, burst.has_offloads(), burst.layout()) {
            (LONG_HEADER, false, WHOLE) => send_plain::<R, K, LONG_HEADER, false, WHOLE>,
            (LONG_HEADER, false, IN_PLACE) => send_plain::<R, K, LONG_HEADER, false, IN_PLACE>,
            (LONG_HEADER, false, _) => send_plain::<R, K, LONG_HEADER, false, ANY>,
            (LONG_HEADER, true, _) => send_plain::<R, K, LONG_HEADER, true, ANY>,
            (_, false, _) => send_plain::<R, K, SHORT_HEADER, false, ANY>,
            (_, true, _) => send_plain::<R, K, SHORT_HEADER, true, ANY>,
        };
        run(self, burst, indices, stats)
    }

    #[inline]
    fn take(&mut self, len: usize, _: usize, slots: &mut Slots) -> Result<Taken, PortFault> {
        let need = self.form.header_len + len;
        if self.failed.is_some()
            && let Some(taken) = self.fails_again(need)
        {
            return Ok(taken);
        }
        if self.plain.held == 0 {
            self.fill_cache()?;
        }
        match self.plain.front() {
            Some((buf_id, seg)) if seg.len() >= need => {
                self.plain.drop_front(1);
                self.failed = None;
                slots.add_piece(seg);
                slots.add_buffer(Filled::new(buf_id.id, buf_id.slots, seg.len()));
                Ok(Taken::Slot)
            }
            _ => self.take_several(need, slots),
        }
    }

    fn post(&mut self, filled: &[Filled]) {
        for buffer in filled {
            self.ring.push_used(buf_id(buffer), buffer.len);
        }
    }

    #[inline(always)]
    fn publish(&mut self) {
        self.ring.flush_used();
    }

    #[inline(always)]
    fn refill(&mut self) -> Result<(), PortFault> {
        self.fill_cache()
    }

    /// Plain buffers in front that would hold the frame each. If the first one would not: one, if buffers suffice that are
    /// merged, or the chain behind them.
    fn room(&mut self, len: usize) -> usize {
        let need = self.form.header_len + len;
        match self.fails_again(need) {
            Some(Taken::Full) => return 0,
            // It has to come here to be counted.
            Some(_) => return 1,
            None => {}
        }
        if self.plain.held == 0 && self.chain.is_none() && self.fill_cache().is_err() {
            // A fault is found again, and reported, by the next call that sends.
            return 1;
        }
        let fits = |k: &usize| self.plain.places.segs[self.plain.place(*k)].len() >= need;
        match (0..self.plain.held).take_while(fits).count() {
            0 if self.plain.held == 0 && self.chain.is_none() => 0,
            0 => usize::from(self.can_gather(need)),
            plain => plain,
        }
    }

    #[inline(always)]
    fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.walked) * work::PIECE
    }

    #[inline(always)]
    fn needs_notification(&mut self) -> bool {
        self.ring.needs_notification()
    }

    #[inline(always)]
    fn check_memory(&mut self) -> Result<(), PortFault> {
        if self.translator.is_lost() { Err(PortFault::MemoryLost) } else { Ok(()) }
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        self.take_over_map()
    }

    fn freeze(&mut self) -> QueueState {
        QueueState::Ring { base: self.ring.base() }
    }
}

/// Sends for as long as the plain buffer in front holds the next frame. Returns how many were sent.
fn send_plain<R: DeviceRing, K: Kernel, const HEADER: usize, const OFFLOADS: bool, const LAYOUT: u8>(
    core: &mut Core<R>,
    burst: &Burst,
    indices: &[u8],
    stats: &mut BurstStats,
) -> usize {
    let form = core.form;
    let mut bytes = 0;
    let sent = core.fill_plain(indices, |map, pick, to| {
        let i = usize::from(pick) % BURST;
        let len = burst.frame_len(i);
        if to.len() < HEADER + len {
            return None;
        }
        fill::plain::<K, HEADER, OFFLOADS, LAYOUT>(map, form, to, (burst, i, len));
        bytes += len as u64;
        Some((HEADER + len) as u32)
    });
    stats.packets += sent as u64;
    stats.bytes += bytes;
    sent
}
