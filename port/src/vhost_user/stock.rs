//! Buffers taken ahead of need: the private stock of a transmit queue.
//!
//! Only what stands at the front of the ring can be given out, so the stock is a queue: first the plain buffers
//! of the last sweep, then at most one chain with which that sweep ended. Taking for a frame that needs several
//! buffers is all or nothing; what was gathered in vain goes back. Nothing here writes to the guest.

use super::fill::Form;
use super::setup::QueueSetup;
use crate::vhost::Features;
use crate::{PortFault, work};
use mem::{Map, MapCell, Seg, Translator};
use ring::device::{DeviceRing, Sweep};
use ring::{Descriptor, Direction, RingFault, Token, resolve};
use std::sync::Arc;

/// Plain buffers kept translated and fetched ahead of need.
const AHEAD: usize = 64;
/// So many are taken at a time at least, where the ring has them: four lines of descriptors. After bursts of a few frames a
/// sweep for each would look at lines in part and again (`docs/decisions/0058-lines-of-our-own-path.md`).
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

/// Where one frame goes.
pub(super) enum Place {
    /// One buffer in one piece, large enough.
    Plain(Token, Seg),
    /// Several pieces, of one buffer or of several merged ones.
    Several(Several),
    /// The guest's buffers cannot hold the frame.
    TooSmall,
    /// The guest has made no more buffers available.
    Full,
}

/// Buffers for one frame, in order, and their pieces. Returned with [`Core::put_away`] to be used again.
#[derive(Debug, Default)]
pub(super) struct Several {
    buffers: Vec<(Token, usize)>,
    /// Bytes of all buffers.
    bytes: usize,
    /// The pieces of all buffers, in order.
    pub(super) pieces: Vec<Seg>,
}

impl Several {
    /// How many buffers, as the header's `num_buffers` says.
    pub(super) fn count(&self) -> u16 {
        self.buffers.len() as u16
    }

    /// Adds a buffer, whose pieces are added already. One without bytes is a fault.
    #[inline(always)]
    fn push(&mut self, token: Token, capacity: usize) -> Result<(), RingFault> {
        self.bytes += capacity;
        self.buffers.push((token, capacity));
        if capacity == 0 { Err(RingFault::NoRoom) } else { Ok(()) }
    }

    /// Whether no more is gathered for one frame.
    #[inline(always)]
    fn is_long(&self) -> bool {
        self.buffers.len() >= MOST_BUFFERS || self.pieces.len() > ring::MAX_PIECES
    }

    fn clear(&mut self) {
        self.bytes = 0;
        self.buffers.clear();
        self.pieces.clear();
    }

    /// The used entries when `total` bytes were written over the buffers in order.
    pub(super) fn used(&self, total: usize) -> impl Iterator<Item = (Token, u32)> {
        self.buffers.iter().scan(total, |left, &(token, capacity)| {
            let here = capacity.min(*left);
            *left -= here;
            Some((token, here as u32))
        })
    }
}

/// One plain buffer of the stock.
#[derive(Clone, Copy)]
struct Plain {
    token: Token,
    seg: Seg,
    address: u64,
}

impl Plain {
    const EMPTY: Plain = Plain { token: Token { id: 0, slots: 0 }, seg: Seg::EMPTY, address: 0 };

    /// As the guest described it; the flags were checked when it was taken.
    fn descriptor(self) -> Descriptor {
        Descriptor { address: self.address, len: self.seg.len() as u32, flags: Descriptor::WRITE, link: 0 }
    }
}

/// Plain buffers in the order of the ring: `places[(first + k) % SHELF]` for `k < held`.
struct Shelf {
    places: Box<[Plain; SHELF]>,
    first: usize,
    held: usize,
}

const SHELF: usize = 2 * AHEAD;

impl Shelf {
    fn new() -> Self {
        Self { places: Box::new([Plain::EMPTY; SHELF]), first: 0, held: 0 }
    }

    #[inline(always)]
    fn put(&mut self, plain: Plain) {
        self.places[(self.first + self.held) % SHELF] = plain;
        self.held += 1;
    }

    fn nth(&mut self, k: usize) -> &mut Plain {
        &mut self.places[(self.first + k) % SHELF]
    }

    /// The buffer in front.
    fn take(&mut self) -> Option<Plain> {
        if self.held == 0 {
            return None;
        }
        let plain = self.places[self.first];
        self.drop_front(1);
        Some(plain)
    }

    fn drop_front(&mut self, n: usize) {
        self.first = (self.first + n) % SHELF;
        self.held -= n;
    }

    fn take_back(&mut self) -> Option<Plain> {
        self.held = self.held.checked_sub(1)?;
        Some(self.places[(self.first + self.held) % SHELF])
    }
}

/// A ring with its stock.
pub(super) struct Core<R> {
    pub(super) ring: R,
    pub(super) form: Form,
    mergeable: bool,
    memory: Arc<MapCell>,
    generation: u64,
    translator: Translator,
    sweep: Sweep,
    plain: Shelf,
    /// The chain behind the plain buffers.
    chain: Option<Token>,
    chain_descriptors: Vec<Descriptor>,
    /// What became of gathering, until something is taken.
    failed: Option<Failed>,
    /// Descriptors of chains that were read, pieces that were gathered, and those given back, since [`Core::take_work`].
    walked: u64,
    spare: Vec<Several>,
}

impl<R: DeviceRing> Core<R> {
    pub(super) fn new(setup: &QueueSetup) -> Result<Self, PortFault> {
        let mut generation = 0;
        let translator = setup.memory.current(&mut generation);
        Ok(Self {
            ring: R::new(&setup.layout(), translator.map())?,
            form: Form { header_len: setup.features.header_len(), capabilities: setup.features.to_guest() },
            mergeable: setup.features.has(Features::MRG_RXBUF),
            memory: setup.memory.clone(),
            generation,
            translator,
            sweep: Sweep::default(),
            plain: Shelf::new(),
            chain: None,
            chain_descriptors: Vec::with_capacity(ring::MAX_CHAIN),
            failed: None,
            walked: 0,
            spare: vec![Several::default()],
        })
    }

    /// The map that every piece of the stock lies in.
    #[inline(always)]
    pub(super) fn map(&self) -> &Arc<Map> {
        self.translator.map()
    }

    /// Whether what was read and written so far was the guest's memory.
    #[inline(always)]
    pub(super) fn check_memory(&mut self) -> Result<(), PortFault> {
        if self.translator.is_lost() { Err(PortFault::MemoryLost) } else { Ok(()) }
    }

    /// Whether a buffer is there, and gathering for a frame of `len` bytes has not failed just now.
    pub(super) fn has_room(&mut self, len: usize) -> bool {
        if self.fails_again(self.form.header_len + len).is_some() {
            return false;
        }
        if self.plain.held > 0 || self.chain.is_some() {
            return true;
        }
        // A fault is found again, and reported, by the next call that sends.
        self.stock_up().is_err() || self.plain.held > 0 || self.chain.is_some()
    }

    /// The work of gathering since this was asked last, in units ([`crate::work`]).
    pub(super) fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.walked) * work::PIECE
    }

    /// A place for a frame of `len` bytes.
    #[inline]
    pub(super) fn take(&mut self, len: usize) -> Result<Place, PortFault> {
        let need = self.form.header_len + len;
        if self.failed.is_some()
            && let Some(place) = self.fails_again(need)
        {
            return Ok(place);
        }
        if self.plain.held == 0 {
            self.stock_up()?;
        }
        let Plain { token, seg, .. } = *self.plain.nth(0);
        if self.plain.held > 0 && seg.len() >= need {
            self.plain.drop_front(1);
            self.failed = None;
            return Ok(Place::Plain(token, seg.split_at(need).0));
        }
        self.take_several(need)
    }

    /// What becomes of a frame for which gathering would fail as it did before.
    #[cold]
    fn fails_again(&mut self, need: usize) -> Option<Place> {
        let failed = self.failed.filter(|failed| need > failed.bytes)?;
        if failed.too_small {
            return Some(Place::TooSmall);
        }
        // What was given back may stand in the stock again, so that the ring begins behind it.
        let stocked = self.plain.held as u32 + self.chain.map_or(0, |token| token.slots.into());
        (!self.ring.has_beyond(failed.slots.saturating_sub(stocked))).then_some(Place::Full)
    }

    /// Gives each of `frames` the plain buffer in front and has `fill` write it, until a frame does not fit into the
    /// buffer whose turn it is. `fill` gets what `frames` said, and the buffer cut to header and frame.
    #[inline(always)]
    pub(super) fn fill_plain<T>(
        &mut self,
        frames: impl Iterator<Item = (T, usize)>,
        mut fill: impl FnMut(&Map, T, Seg),
    ) {
        // Apart from `self`, so that they stay in registers while frames are written.
        let Shelf { ref places, first, held } = self.plain;
        let mut cursor = self.ring.cursor();
        let mut taken = 0;
        for (frame, len) in frames {
            let Plain { token, seg, .. } = &places[(first + taken) % SHELF];
            let need = self.form.header_len + len;
            if taken == held || seg.len() < need {
                break;
            }
            fill(self.translator.map(), frame, seg.split_at(need).0);
            self.ring.put_used(&mut cursor, *token, need as u32);
            taken += 1;
        }
        self.ring.advance(cursor);
        self.plain.drop_front(taken);
        if taken > 0 {
            self.failed = None;
        }
    }

    /// Gathers buffers until `need` bytes fit. The plain buffer in front, if there is one, is too small.
    #[cold]
    fn take_several(&mut self, need: usize) -> Result<Place, PortFault> {
        if !self.mergeable && self.plain.held > 0 {
            let front = self.plain.nth(0).seg.len();
            return if front == 0 { Err(RingFault::NoRoom.into()) } else { Ok(Place::TooSmall) };
        }
        let mut several = self.spare.pop().unwrap_or_default();
        let place = self.gather(need, &mut several);
        if let Ok(None) = place {
            self.failed = None;
            self.walked += several.pieces.len() as u64;
            return Ok(Place::Several(several));
        }
        let too_small = matches!(place, Ok(Some(Place::TooSmall)));
        self.ungather(&mut several, too_small);
        self.spare.push(several);
        place.map(|failed| failed.unwrap_or(Place::Full))
    }

    /// Takes buffers until `need` bytes fit, or returns why they do not.
    #[inline(always)]
    fn gather(&mut self, need: usize, several: &mut Several) -> Result<Option<Place>, PortFault> {
        while several.bytes < need {
            if several.is_long() || !self.mergeable && !several.buffers.is_empty() {
                return Ok(Some(Place::TooSmall));
            }
            if self.plain.held == 0 && self.chain.is_none() {
                self.stock_up()?;
            }
            if let Some(Plain { token, seg, .. }) = self.plain.take() {
                several.pieces.push(seg);
                several.push(token, seg.len())?;
            } else if !self.gather_chain(several)? {
                return Ok(Some(Place::Full));
            }
        }
        Ok(None)
    }

    /// Takes the chain behind the plain buffers. Returns whether there is one.
    #[cold]
    fn gather_chain(&mut self, several: &mut Several) -> Result<bool, PortFault> {
        let Some(token) = self.chain.take() else { return Ok(false) };
        let from = several.pieces.len();
        let resolved =
            resolve(&self.chain_descriptors, Direction::Write, &mut self.translator, &mut several.pieces);
        self.chain_descriptors.clear();
        let capacity = several.pieces[from..].iter().map(|s| s.len()).sum();
        let pushed = several.push(token, capacity);
        resolved?;
        pushed?;
        Ok(true)
    }

    /// What was gathered in vain goes back to the ring, with nothing behind it: the next frame may need less.
    #[cold]
    fn ungather(&mut self, several: &mut Several, too_small: bool) {
        self.walked += 2 * several.pieces.len() as u64;
        let slots = several.buffers.iter().map(|(token, _)| u32::from(token.slots)).sum();
        self.failed = Some(Failed { bytes: several.bytes, slots, too_small });
        self.untake_from(0);
        several.buffers.iter().rev().for_each(|(token, _)| self.ring.untake(&[*token]));
        several.clear();
    }

    /// Takes back the lists of a frame that was written.
    pub(super) fn put_away(&mut self, mut slots: Several) {
        slots.clear();
        self.spare.push(slots);
    }

    /// Fills the stock, unless little of it is gone, and fetches what will be written next.
    #[inline]
    pub(super) fn stock_up(&mut self) -> Result<(), PortFault> {
        if self.chain.is_some() || self.plain.held > AHEAD - PART {
            return Ok(());
        }
        self.ring.sweep(AHEAD - self.plain.held, &mut self.sweep, &mut self.translator)?;
        let plain = self.sweep.plain();
        for k in 0..plain {
            if !self.stock_plain(k)? {
                self.stock_crossing(k);
                return Ok(());
            }
        }
        if self.sweep.has_chain() {
            self.walked += self.sweep.chain.len() as u64;
            self.chain = Some(self.sweep.token(plain));
            std::mem::swap(&mut self.chain_descriptors, &mut self.sweep.chain);
        }
        Ok(())
    }

    #[inline(always)]
    fn stock_plain(&mut self, k: usize) -> Result<bool, PortFault> {
        let d = self.sweep.heads[k];
        Direction::Write.check(d.flags)?;
        let Some(seg) = self.translator.translate(d.address, d.len) else { return Ok(false) };
        if (seg.addr() ^ (seg.addr() + self.form.header_len)) & !63 == 0 {
            // Header and frame begin on one line, as Linux lays them out: both are written.
            seg.prefetch_write(0);
            seg.prefetch_write(64);
        } else {
            seg.prefetch_read(0);
            seg.prefetch_write(self.form.header_len);
        }
        self.plain.put(Plain { token: d.token(), seg, address: d.address });
        Ok(true)
    }

    /// A buffer that crosses from one region into the next is kept as a chain of one. What the sweep brought
    /// behind it goes back to the ring.
    #[cold]
    fn stock_crossing(&mut self, k: usize) {
        for later in (k + 1..self.sweep.len).rev() {
            self.ring.untake(&[self.sweep.token(later)]);
        }
        self.chain = Some(self.sweep.token(k));
        self.chain_descriptors.clear();
        self.chain_descriptors.push(self.sweep.heads[k]);
    }

    /// Takes over a changed map: the stock is translated anew. Its buffers stay taken, except from the first one on
    /// that lies over a region's edge now: nothing of those was written, so they are taken and judged again. After a
    /// fault nothing of the old map is left in the stock either: other workers may still ask for places, and the old
    /// map goes before they hear of it.
    pub(super) fn refresh(&mut self) -> Result<(), PortFault> {
        let Some(translator) = self.memory.refresh(&mut self.generation) else { return Ok(()) };
        self.translator = translator;
        let translated = self.translate_stock();
        if translated.is_err() {
            self.untake_from(0);
        }
        self.failed = None;
        translated
    }

    fn translate_stock(&mut self) -> Result<(), PortFault> {
        self.ring.remap(self.translator.map())?;
        for k in 0..self.plain.held {
            let plain = self.plain.nth(k);
            let Some(seg) = self.translator.translate(plain.address, plain.seg.len() as u32) else {
                // What lies nowhere any more is named here; what lies in two regions is no fault.
                let described = [plain.descriptor()];
                resolve(&described, Direction::Write, &mut self.translator, &mut Vec::new())?;
                self.untake_from(k);
                break;
            };
            plain.seg = seg;
        }
        Ok(())
    }

    /// Gives the stock back to the ring, newest first, down to the `k`-th plain buffer.
    #[cold]
    fn untake_from(&mut self, k: usize) {
        if let Some(token) = self.chain.take() {
            self.chain_descriptors.clear();
            self.ring.untake(&[token]);
        }
        while self.plain.held > k {
            let Some(plain) = self.plain.take_back() else { return };
            self.ring.untake(&[plain.token]);
        }
    }
}
