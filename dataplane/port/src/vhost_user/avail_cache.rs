//! Private avail cache of a transmit queue: buffers taken ahead of need.
//!
//! Buffers are used in ring order, so the avail cache is a queue: the plain buffers of the last batch, then at most
//! one chain that ended the batch. For a frame that needs several buffers, gathering takes all or none; buffers
//! gathered in vain are returned. Nothing here writes to the guest.

mod gather;
mod plain;

use super::fill::{self, LONG_HEADER, SHORT_HEADER};
use super::setup::QueueSetup;
use crate::burst::layout::{ANY, IN_PLACE, WHOLE};
use crate::transmit::{Filled, Form, HeaderKind, Slots, Taken, TxRing};
use crate::vhost::Features;
use crate::{BURST, Burst, BurstStats, PortFault, QueueState, work};
use gather::Failed;
use mem::copy::Kernel;
use mem::{GuestMemory, MemTable, Translator, VolatileSlice};
use plain::{AvailCache, CacheFill};
use ring::device::DeviceRing;
use ring::{BufId, Descriptor, Direction, resolve};
use std::sync::Arc;

/// Number of plain buffers kept translated and prefetched.
pub const PREFETCH: usize = 64;
/// Minimum batch, if the ring has as many: four lines of descriptors. After bursts of a few frames, a batch for each
/// would read partial lines repeatedly (`docs/research/path-lines.md`).
pub const PART: usize = 16;

/// Identifier that returns a buffer.
#[inline(always)]
fn buf_id(filled: &Filled) -> BufId {
    BufId { id: filled.id, slots: filled.tag }
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
    /// Entries of the ring.
    size: u32,
    /// The chain after the plain buffers.
    chain: Option<BufId>,
    chain_descriptors: Vec<Descriptor>,
    /// Result of the last failed gathering, until a buffer is used.
    failed: Option<Failed>,
    /// Slots for gatherings that only test for room.
    probe: Slots,
    /// Descriptors of chains read, pieces gathered, and pieces returned, since [`Core::take_work`].
    walked: u64,
}

impl<R: DeviceRing> Core<R> {
    pub(super) fn new(setup: &QueueSetup) -> Result<Self, PortFault> {
        let mut generation = 0;
        let translator = setup.memory.current(&mut generation);
        let mut ring = R::new(&setup.layout(), translator.map())?;
        setup.log.iter().for_each(|log| ring.set_log(log.clone(), Direction::Write));
        setup.record().into_iter().for_each(|record| ring.set_record(record));
        Ok(Self {
            ring,
            form: Form {
                header_len: setup.features.header_len(),
                kind: HeaderKind::Driver(setup.features.to_guest()),
            },
            mergeable: setup.features.has(Features::MRG_RXBUF),
            memory: setup.memory.clone(),
            generation,
            translator,
            plain: AvailCache::new(),
            on_one_line: false,
            size: setup.size.into(),
            chain: None,
            chain_descriptors: Vec::with_capacity(ring::MAX_CHAIN),
            failed: None,
            probe: Slots::new(),
            walked: 0,
        })
    }

    /// Uses the next plain buffer for each of `indices` and calls `fill` to write it, until the avail cache is empty
    /// or `fill` refuses a buffer. `fill` returns the number of bytes written. Returns the number of buffers written.
    #[inline(always)]
    fn fill_plain(
        &mut self,
        indices: &[u8],
        mut fill: impl FnMut(&GuestMemory, u8, VolatileSlice) -> Option<u32>,
    ) -> usize {
        // Separate from `self`, so that they stay in registers while frames are written.
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

    /// Refills the avail cache if at least a batch has been used, and prefetches the lines to write next.
    #[inline]
    fn fill_cache(&mut self) -> Result<(), PortFault> {
        if self.chain.is_some() || self.plain.held > PREFETCH - PART {
            return Ok(());
        }
        let end = self.plain.make_place();
        let mut fill = CacheFill {
            window: self.translator.window(),
            translator: &mut self.translator,
            places: &mut self.plain.places,
            end,
            header_len: self.form.header_len,
            on_one_line: self.on_one_line,
        };
        let room = PREFETCH - self.plain.held;
        let taken = self.ring.pop_plain(room, Some(Direction::Write), &mut fill)?;
        if taken > 0 {
            let start = self.plain.places.segs[end].addr();
            self.on_one_line = (start ^ (start + self.form.header_len)) & !63 == 0;
        }
        self.plain.held += taken;
        if self.plain.held < PREFETCH && self.ring.has_beyond(0) { self.fill_chains() } else { Ok(()) }
    }

    /// Takes a buffer that is not plain or that crosses a region boundary, and keeps it as a chain.
    #[cold]
    fn fill_chains(&mut self) -> Result<(), PortFault> {
        self.chain_descriptors.clear();
        self.chain = self.ring.pop_any(&mut self.translator, &mut self.chain_descriptors)?;
        self.walked += self.chain_descriptors.len() as u64;
        Ok(())
    }

    /// Switches to a changed map: the avail cache is translated again. Its buffers stay taken up to the first that
    /// now crosses a region boundary; from there on nothing was written, so they are returned, taken and validated
    /// again. After a fault, too, nothing of the old map remains in the avail cache: other workers may still reserve
    /// buffers, and the old map is released before they receive the fault.
    fn take_over_map(&mut self) -> Result<(), PortFault> {
        let Some(translator) = self.memory.refresh(&mut self.generation) else { return Ok(()) };
        let old = std::mem::replace(&mut self.translator, translator);
        let translated = self.translate_cached(old.map());
        if translated.is_err() {
            self.rewind_from(0);
        }
        self.failed = None;
        translated
    }

    /// Translates the avail cache from the map `old` to the new one.
    fn translate_cached(&mut self, old: &GuestMemory) -> Result<(), PortFault> {
        self.ring.remap(self.translator.map())?;
        for k in 0..self.plain.held {
            let at = self.plain.place(k);
            let (seg, len) = (self.plain.places.segs[at], self.plain.places.segs[at].len() as u32);
            // Every segment of the avail cache was translated with the old map.
            let address = old.guest_address(seg).unwrap_or(u64::MAX);
            let Some(seg) = self.translator.translate(address, len) else {
                // An address outside all regions is reported here; a buffer in two regions is no fault.
                let described = [Descriptor { address, len, flags: Descriptor::WRITE, link: 0 }];
                resolve(&described, Direction::Write, &mut self.translator, &mut Vec::new())?;
                self.rewind_from(k);
                break;
            };
            self.plain.places.segs[at] = seg;
        }
        Ok(())
    }

    /// Returns the avail cache to the ring, newest first, from the end down to the `k`-th plain buffer.
    #[cold]
    fn rewind_from(&mut self, k: usize) {
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

    /// The avail cache is already filled after each call.
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

    /// Number of leading plain buffers that hold one frame each. If the first does not, 1 if gathered buffers or the
    /// following chain suffice.
    fn room(&mut self, len: usize) -> usize {
        let need = self.form.header_len + len;
        match self.fails_again(need) {
            Some(Taken::Full) => return 0,
            // Accepted so that it is counted.
            Some(_) => return 1,
            None => {}
        }
        if self.plain.held == 0 && self.chain.is_none() && self.fill_cache().is_err() {
            // The next call that sends finds and reports the fault again.
            return 1;
        }
        let fits = |k: &usize| self.plain.places.segs[self.plain.place(*k)].len() >= need;
        match (0..self.plain.held).take_while(fits).count() {
            0 if self.plain.held == 0 && self.chain.is_none() => 0,
            0 => usize::from(self.can_gather(need)),
            plain => plain,
        }
    }

    #[cold]
    fn depth(&mut self) -> usize {
        // The guest offers entries in order: this finds the first that it has not offered.
        let (mut least, mut most) = (0, self.size);
        while least < most {
            let middle = least.midpoint(most);
            if self.ring.has_beyond(middle) {
                least = middle + 1;
            } else {
                most = middle;
            }
        }
        let taken = self.plain.held + usize::from(self.chain.is_some());
        (self.size as usize).saturating_sub(least as usize + taken)
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

/// Sends while the first plain buffer holds the next frame. Returns the number of frames sent.
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
