//! A device ring with a driver that writes arbitrary contents under control of a script.
//!
//! The script writes descriptors, indices and raw words into guest memory and calls the device in between, in the way
//! of a receive or transmit queue: batch, resolve, copy, return, publish, enable notifications, rewind, remap, restart
//! at the base. Invariants: every call returns, returned segments are inside the shared memory, no more is taken than
//! the ring has, and the device writes only where the ring format permits.

use super::driver::{Driver, Script, WRITE};
use mem::copy::Portable;
use mem::{GuestMemory, Translator, VolatileSlice};
use ring::device::{AvailBatch, DeviceRing, MAX_BATCH};
use ring::mock::{Mock, RINGS, Shape, USER};
use ring::{BufId, Descriptor, Direction, Layout, RingFault, resolve};
use std::sync::Arc;

/// A buffer that the device has taken and not returned.
struct Taken {
    buf_id: BufId,
    segs: Vec<VolatileSlice>,
}

/// A ring, its driver's memory and the buffers taken.
pub struct Play<R> {
    driver: Driver,
    direction: Direction,
    ring: R,
    translator: Translator,
    batch: AvailBatch,
    taken: Vec<Taken>,
    /// Whether another thread modifies the memory concurrently.
    raced: bool,
}

/// Runs a script against its own ring.
///
/// # Panics
/// If the device violates an invariant.
pub fn play<R: DeviceRing>(packed: bool, script: &[u8]) {
    let mut script = Script(script);
    let (mock, shape, direction) = stage(packed, &mut script);
    Play::<R>::new(mock, shape, direction, false).run(&mut script);
}

/// Runs a script on the memory of `mock`, which another thread modifies.
///
/// # Panics
/// As [`play`].
pub fn play_raced<R: DeviceRing>(mock: Mock, shape: Shape, direction: Direction, script: &[u8]) {
    Play::<R>::new(mock, shape, direction, true).run(&mut Script(script));
}

/// Creates a ring from the first bytes of the script.
pub fn stage(packed: bool, script: &mut Script<'_>) -> (Mock, Shape, Direction) {
    let shape = script.shape(packed);
    let direction = if script.byte() & 1 == 0 { Direction::Read } else { Direction::Write };
    (Mock::new(shape), shape, direction)
}

impl<R: DeviceRing> Play<R> {
    fn new(mock: Mock, shape: Shape, direction: Direction, raced: bool) -> Self {
        let ring = R::new(&mock.layout, &mock.map).expect("the mock's layout is valid");
        let translator = Translator::new(mock.map.clone());
        let driver = Driver::new(mock, shape, if direction == Direction::Write { WRITE } else { 0 });
        Self { driver, direction, ring, translator, batch: AvailBatch::default(), taken: vec![], raced }
    }

    fn run(&mut self, script: &mut Script<'_>) {
        while !script.0.is_empty() {
            match script.byte() % 16 {
                0..=2 => self.describe(script),
                3 => self.driver.table(script, self.driver.usual(), |script, _| script.below(16)),
                4 => self.driver.poke(script),
                5 => self.index(script),
                6..=8 => self.take(script),
                9 => self.copy(),
                10 | 11 => self.give_back(script),
                12 => self.notifications(script),
                13 => self.rewind(script),
                14 => self.remap(script),
                _ => self.start_again(script),
            }
        }
    }

    /// Writes the next descriptor and makes it available, or writes another one.
    fn describe(&mut self, script: &mut Script<'_>) {
        let driver = &mut self.driver;
        let (size, how) = (driver.shape.size, script.byte());
        let at = if how & 1 == 0 { driver.next.0 % size } else { script.below(size) % size };
        let place = (script.address(), script.len());
        let (flags, link) = (script.flags(driver.usual()), script.below(size));
        driver.write(driver.mock.layout.descriptors, at, place, flags, link);
        if how & 3 == 0 {
            driver.advance(at);
        }
    }

    /// Sets the available index, or an available entry.
    fn index(&mut self, script: &mut Script<'_>) {
        let Driver { mock, shape, next, .. } = &mut self.driver;
        if shape.packed {
            return;
        }
        if script.byte() & 1 == 0 {
            next.0 = next.0.wrapping_add(script.below(shape.size + 2));
            mock.available_index(next.0);
        } else {
            let slot = script.below(shape.size) % shape.size;
            mock.offer(slot, script.below(shape.size));
        }
    }

    /// Takes a batch and resolves it as the queues do.
    fn take(&mut self, script: &mut Script<'_>) {
        let max = usize::from(script.byte()) % (MAX_BATCH + 2);
        let before = self.seal();
        let popped = self.ring.pop_avail(max, &mut self.batch, &mut self.translator);
        self.check_seal(&before);
        if let Err(fault) = popped {
            return self.broken(fault);
        }
        assert!(self.batch.len <= max.min(MAX_BATCH), "a batch has at most the requested length");
        let plain = self.batch.len - usize::from(self.batch.has_chain());
        for k in 0..self.batch.len {
            let buf_id = self.batch.buf_id(k);
            let chain = if k < plain { &self.batch.heads[k..=k] } else { &self.batch.chain[..] };
            let mut segs = vec![];
            let resolved = resolve(chain, self.direction, &mut self.translator, &mut segs);
            if let Err(fault) = resolved {
                return self.broken(fault);
            }
            check_segs(chain, &segs, self.translator.map());
            assert!(
                self.driver.shape.packed || buf_id.id < self.driver.shape.size,
                "a head is in the descriptor table"
            );
            self.taken.push(Taken { buf_id, segs });
        }
        let slots: usize = self.taken.iter().map(|t| usize::from(t.buf_id.slots)).sum();
        assert!(slots <= usize::from(self.driver.shape.size), "taken slots exceed the ring");
    }

    fn copy(&mut self) {
        let mut bytes = vec![0; 4096];
        for seg in self.taken.iter().flat_map(|t| &t.segs) {
            let n = seg.len().min(bytes.len());
            // SAFETY: the translator holds the map of every segment in `taken`; a remap clears the segments.
            unsafe {
                match self.direction {
                    Direction::Read => seg.copy_out::<Portable>(&mut bytes[..n]),
                    Direction::Write => seg.copy_in::<Portable>(&bytes[..n]),
                }
            }
        }
    }

    fn give_back(&mut self, script: &mut Script<'_>) {
        let (how, n) = (script.byte(), usize::from(script.byte()).min(self.taken.len()));
        let before = self.seal();
        let buf_ids: Vec<BufId> = self.taken.drain(..n).map(|t| t.buf_id).collect();
        if how & 1 == 0 {
            self.ring.push_read(&buf_ids);
        } else {
            for buf_id in &buf_ids {
                self.ring.push_used(*buf_id, u32::from(how));
            }
        }
        if how & 2 == 0 {
            self.ring.flush_used();
        }
        self.check_seal(&before);
    }

    fn notifications(&mut self, script: &mut Script<'_>) {
        let before = self.seal();
        match script.byte() & 3 {
            0 => {
                self.ring.enable_notification();
            }
            1 => self.ring.disable_notification(),
            2 => {
                self.ring.needs_notification();
            }
            _ => self.ring.prefetch(),
        }
        self.check_seal(&before);
    }

    fn rewind(&mut self, script: &mut Script<'_>) {
        let n = usize::from(script.byte()).min(self.taken.len());
        let buf_ids: Vec<BufId> = self.taken.drain(self.taken.len() - n..).map(|t| t.buf_id).collect();
        self.ring.rewind(&buf_ids);
    }

    /// Replaces the map by one of the same memory, sometimes without one of its regions.
    fn remap(&mut self, script: &mut Script<'_>) {
        let mut regions = self.driver.mock.map.regions().to_vec();
        if script.byte() & 3 == 0 {
            regions.remove(usize::from(script.byte()) % regions.len());
        }
        let map = Arc::new(GuestMemory::new(regions).expect("fewer regions of a map are one"));
        let has_rings = map.by_user(USER + RINGS, 1).is_some();
        assert_eq!(self.ring.remap(&map).is_ok(), has_rings);
        self.translator = Translator::new(map);
        if !has_rings {
            self.broken(RingFault::Area("descriptor"));
        }
        for taken in &mut self.taken {
            taken.segs.clear();
        }
    }

    /// Abandons taken buffers and starts a new ring at the base of the previous one.
    fn start_again(&mut self, script: &mut Script<'_>) {
        let base = self.ring.base();
        let wild = script.byte() & 7 == 0;
        let base = if wild { script.long() as u32 } else { base };
        let started = R::new(&Layout { base, ..self.driver.mock.layout }, &self.driver.mock.map);
        assert!(wild || started.is_ok(), "a ring starts at the base that it reported");
        self.translator = Translator::new(self.driver.mock.map.clone());
        self.taken.clear();
        if let Ok(ring) = started {
            self.ring = ring;
        }
    }

    /// Continues with a new ring over the same memory after a fault, which would stop a port.
    fn broken(&mut self, fault: RingFault) {
        assert!(!fault.to_string().is_empty());
        self.taken.clear();
        self.translator = Translator::new(self.driver.mock.map.clone());
        self.ring =
            R::new(&self.driver.mock.layout, &self.driver.mock.map).expect("the mock's layout is valid");
        self.driver.begin_again();
    }

    /// The words of the ring region that the device must not write.
    fn seal(&self) -> Vec<u64> {
        let (layout, n) = (&self.driver.mock.layout, u64::from(self.driver.shape.size));
        if self.raced {
            return vec![];
        }
        let words = |from: u64, to: u64| (from..to).step_by(8).map(|at| self.driver.mock.peek64(at));
        // In packed descriptors the device writes only the second word.
        let step = if self.driver.shape.packed { 16 } else { 8 };
        let end = layout.descriptors + n * 16;
        let table = (layout.descriptors..end).step_by(step).map(|at| self.driver.mock.peek64(at));
        let used = if self.driver.shape.packed { 8 } else { (6 + n * 8).next_multiple_of(8) };
        let rest = self.driver.mock.map.regions()[0].spec();
        table
            .chain(words(end, layout.device))
            .chain(words(layout.device + used, rest.user + rest.len))
            .collect()
    }

    fn check_seal(&self, before: &[u64]) {
        assert!(self.seal() == before, "the device wrote where only the driver may");
    }
}

/// Checks that every segment is in one region and that together they cover the chain.
fn check_segs(chain: &[Descriptor], segs: &[VolatileSlice], map: &GuestMemory) {
    let whole: u64 = chain.iter().map(|d| u64::from(d.len)).sum();
    assert_eq!(segs.iter().map(|s| s.len() as u64).sum::<u64>(), whole, "a chain is translated whole");
    for seg in segs {
        let inside = map.regions().iter().any(|r| {
            let all = r.seg(0, r.spec().len as u32).expect("test regions are small");
            seg.addr() >= all.addr() && seg.addr() + seg.len() <= all.addr() + all.len()
        });
        assert!(inside, "a segment reaches out of the shared memory");
    }
}
