//! A device ring played against a driver that writes whatever the script says.
//!
//! The script pokes descriptors, indices and raw words into guest memory and calls the device in between, the way
//! a receive or transmit queue does: sweep, resolve, copy, give back, publish, arm, untake, remap, start again at
//! the base. Whatever it does, a call returns, what it returns lies inside the shared memory, no more is taken
//! than the ring has, and the device writes nothing but what the ring kind lets it write.

use mem::copy::Portable;
use mem::{Map, Seg, Translator};
use ring::device::{DeviceRing, SWEEP, Sweep};
use ring::mock::{BUFFERS, Mock, REGION, RINGS, Shape, USER};
use ring::{Descriptor, Direction, Layout, RingFault, Token, resolve};
use std::sync::Arc;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
const AVAIL: u16 = 1 << 7;
const USED: u16 = 1 << 15;

/// Lengths that are worth a try.
const LENGTHS: [u32; 16] =
    [0, 1, 9, 10, 12, 13, 16, 26, 64, 128, 1514, 4096, 65_562, 0x2_0000, 0x4_0000, u32::MAX];

/// Bytes that say what happens next.
pub struct Script<'a>(pub &'a [u8]);

impl Script<'_> {
    /// The next byte, or zero at the end.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(crate) fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Mostly below `n`.
    pub(crate) fn below(&mut self, n: u16) -> u16 {
        match self.byte() {
            251.. => self.word(),
            small => u16::from(small) % n.max(1),
        }
    }

    pub(crate) fn long(&mut self) -> u64 {
        u64::from(self.word()) | u64::from(self.word()) << 32
    }

    pub(crate) fn len(&mut self) -> u32 {
        match self.byte() {
            240.. => u32::from(self.word()) << (self.byte() & 15),
            known => LENGTHS[usize::from(known) % LENGTHS.len()],
        }
    }

    /// Mostly a buffer, often near an edge; sometimes a ring, sometimes nowhere.
    pub(crate) fn address(&mut self) -> u64 {
        let near = u64::from(self.byte());
        match self.byte() {
            at @ 0..=127 => BUFFERS + u64::from(at) * 2048 + (near & 15),
            128..=159 => BUFFERS + REGION - near,
            160..=175 => BUFFERS + 2 * REGION - near,
            176..=207 => RINGS + near * 16,
            208..=223 => BUFFERS.wrapping_sub(near),
            224..=239 => u64::MAX - near,
            _ => self.long(),
        }
    }

    /// Mostly flags that a driver may write.
    pub(crate) fn flags(&mut self, usual: u16) -> u16 {
        match self.byte() {
            0..=95 => usual,
            96..=159 => usual | NEXT,
            160..=207 => usual | INDIRECT,
            208..=223 => usual ^ WRITE,
            224..=239 => usual | NEXT | INDIRECT,
            _ => self.word(),
        }
    }

    pub(crate) fn shape(&mut self, packed: bool) -> Shape {
        let (bits, n) = (self.byte(), self.byte());
        let size = if packed { u16::from(n % 67) + 1 } else { 1 << (n % 8) };
        Shape { packed, size, in_order: bits & 1 != 0, event_idx: bits & 2 != 0, indirect: bits & 4 == 0 }
    }
}

/// What a device took and has not given back.
struct Taken {
    token: Token,
    segs: Vec<Seg>,
}

/// One ring, its driver's memory and what is between them.
pub struct Play<R> {
    mock: Mock,
    shape: Shape,
    direction: Direction,
    ring: R,
    translator: Translator,
    sweep: Sweep,
    taken: Vec<Taken>,
    /// Where a driver would write next: index, and for packed rings the wrap counter.
    next: (u16, bool),
    /// Whether somebody else writes to the memory meanwhile.
    raced: bool,
}

/// Plays a script against a ring of its own.
///
/// # Panics
/// When the device does what it must not: that is what a fuzzer looks for.
pub fn play<R: DeviceRing>(packed: bool, script: &[u8]) {
    let mut script = Script(script);
    let shape = script.shape(packed);
    let direction = if script.byte() & 1 == 0 { Direction::Read } else { Direction::Write };
    let mock = Mock::new(shape);
    Play::<R>::new(mock, shape, direction, false).run(&mut script);
}

/// Plays a script on the memory of `mock`, which somebody else is rewriting.
///
/// # Panics
/// As [`play`].
pub fn play_raced<R: DeviceRing>(mock: Mock, shape: Shape, direction: Direction, script: &[u8]) {
    Play::<R>::new(mock, shape, direction, true).run(&mut Script(script));
}

/// A ring for [`play_raced`], as the script's first bytes say.
pub fn stage(packed: bool, script: &mut Script<'_>) -> (Mock, Shape, Direction) {
    let shape = script.shape(packed);
    let direction = if script.byte() & 1 == 0 { Direction::Read } else { Direction::Write };
    (Mock::new(shape), shape, direction)
}

impl<R: DeviceRing> Play<R> {
    fn new(mock: Mock, shape: Shape, direction: Direction, raced: bool) -> Self {
        let ring = R::new(&mock.layout, &mock.map).expect("the mock's layout is right");
        let translator = Translator::new(mock.map.clone());
        let next = (0, true);
        Self { mock, shape, direction, ring, translator, sweep: Sweep::default(), taken: vec![], next, raced }
    }

    fn run(&mut self, script: &mut Script<'_>) {
        while !script.0.is_empty() {
            match script.byte() % 16 {
                0..=2 => self.describe(script),
                3 => self.table(script),
                4 => self.poke(script),
                5 => self.index(script),
                6..=8 => self.take(script),
                9 => self.copy(),
                10 | 11 => self.give_back(script),
                12 => self.ask(script),
                13 => self.untake(script),
                14 => self.remap(script),
                _ => self.start_again(script),
            }
        }
    }

    /// What the driver would usually set.
    fn usual(&self) -> u16 {
        let way = if self.direction == Direction::Write { WRITE } else { 0 };
        match (self.shape.packed, self.next.1) {
            (false, _) => way,
            (true, true) => way | AVAIL,
            (true, false) => way | USED,
        }
    }

    /// Writes the next descriptor and makes it available, or writes some other one.
    fn describe(&mut self, script: &mut Script<'_>) {
        let (size, how) = (self.shape.size, script.byte());
        let at = if how & 1 == 0 { self.next.0 % size } else { script.below(size) % size };
        let (address, len) = (script.address(), script.len());
        let (flags, link) = (script.flags(self.usual()), script.below(size));
        let table = self.mock.layout.descriptors;
        if self.shape.packed {
            self.mock.packed_descriptor(table, at, address, len, link, flags);
        } else {
            self.mock.split_descriptor(table, at, address, len, flags, link);
        }
        if how & 3 == 0 {
            self.advance(at);
        }
    }

    fn advance(&mut self, head: u16) {
        if !self.shape.packed {
            self.mock.offer(self.next.0 % self.shape.size, head);
            self.next.0 = self.next.0.wrapping_add(1);
            self.mock.available_index(self.next.0);
        } else if self.next.0 + 1 == self.shape.size {
            self.next = (0, !self.next.1);
        } else {
            self.next.0 += 1;
        }
    }

    /// Writes an entry of an indirect table that lies in a buffer.
    fn table(&mut self, script: &mut Script<'_>) {
        let (at, table) = (script.below(16) % 128, USER.wrapping_add(script.address() & !7));
        if self.mock.map.by_user(table, 128 * 16).is_none() {
            return;
        }
        let (address, len, flags) = (script.address(), script.len(), script.flags(self.usual()));
        let link = script.below(16);
        if self.shape.packed {
            self.mock.packed_descriptor(table, at, address, len, link, flags);
        } else {
            self.mock.split_descriptor(table, at, address, len, flags, link);
        }
    }

    /// Writes any eight bytes of the ring areas.
    fn poke(&mut self, script: &mut Script<'_>) {
        let regions = self.mock.map.regions();
        let words = regions[0].spec().len / 8;
        let at = USER + RINGS + u64::from(script.word()) % words * 8;
        let value = script.long();
        self.mock.poke64(at, value);
    }

    /// Sets the available index, or an available entry.
    fn index(&mut self, script: &mut Script<'_>) {
        if self.shape.packed {
            return;
        }
        if script.byte() & 1 == 0 {
            self.next.0 = self.next.0.wrapping_add(script.below(self.shape.size + 2));
            self.mock.available_index(self.next.0);
        } else {
            let slot = script.below(self.shape.size) % self.shape.size;
            let head = script.below(self.shape.size);
            self.mock.offer(slot, head);
        }
    }

    /// A sweep, resolved the way the queues do it.
    fn take(&mut self, script: &mut Script<'_>) {
        let max = usize::from(script.byte()) % (SWEEP + 2);
        let before = self.seal();
        let swept = self.ring.sweep(max, &mut self.sweep, &mut self.translator);
        self.check_seal(&before);
        if let Err(fault) = swept {
            return self.broken(fault);
        }
        assert!(self.sweep.len <= max.min(SWEEP), "a sweep takes no more than it was asked for");
        let plain = self.sweep.len - usize::from(self.sweep.has_chain());
        for k in 0..self.sweep.len {
            let token = self.sweep.token(k);
            let chain = if k < plain { &self.sweep.heads[k..=k] } else { &self.sweep.chain[..] };
            let mut segs = vec![];
            let resolved = resolve(chain, self.direction, &mut self.translator, &mut segs);
            if let Err(fault) = resolved {
                return self.broken(fault);
            }
            check_segs(chain, &segs, self.translator.map());
            assert!(self.shape.packed || token.id < self.shape.size, "a head names a descriptor");
            self.taken.push(Taken { token, segs });
        }
        let slots: usize = self.taken.iter().map(|t| usize::from(t.token.slots)).sum();
        assert!(slots <= usize::from(self.shape.size), "no more is taken than the ring has");
    }

    fn copy(&mut self) {
        let mut bytes = vec![0; 4096];
        for seg in self.taken.iter().flat_map(|t| &t.segs) {
            let n = seg.len().min(bytes.len());
            // SAFETY: the translator holds the map of every segment in `taken`; a remap clears the list.
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
        let tokens: Vec<Token> = self.taken.drain(..n).map(|t| t.token).collect();
        if how & 1 == 0 {
            self.ring.push_read(&tokens);
        } else {
            for token in &tokens {
                self.ring.push_used(*token, u32::from(how));
            }
        }
        if how & 2 == 0 {
            self.ring.publish();
        }
        self.check_seal(&before);
    }

    fn ask(&mut self, script: &mut Script<'_>) {
        let before = self.seal();
        match script.byte() & 3 {
            0 => {
                self.ring.arm();
            }
            1 => self.ring.disarm(),
            2 => {
                self.ring.should_call();
            }
            _ => self.ring.prefetch(),
        }
        self.check_seal(&before);
    }

    fn untake(&mut self, script: &mut Script<'_>) {
        let n = usize::from(script.byte()).min(self.taken.len());
        let tokens: Vec<Token> = self.taken.drain(self.taken.len() - n..).map(|t| t.token).collect();
        self.ring.untake(&tokens);
    }

    /// The same memory under a new map, now and then without one of its regions.
    fn remap(&mut self, script: &mut Script<'_>) {
        let mut regions = self.mock.map.regions().to_vec();
        if script.byte() & 3 == 0 {
            regions.remove(usize::from(script.byte()) % regions.len());
        }
        let map = Arc::new(Map::new(regions).expect("fewer regions of a map are one"));
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

    /// What was taken and not used is given up; the next ring begins where this one stopped.
    fn start_again(&mut self, script: &mut Script<'_>) {
        let base = self.ring.base();
        let wild = script.byte() & 7 == 0;
        let base = if wild { script.long() as u32 } else { base };
        let started = R::new(&Layout { base, ..self.mock.layout }, &self.mock.map);
        assert!(wild || started.is_ok(), "a ring starts at the base that it reported");
        self.translator = Translator::new(self.mock.map.clone());
        self.taken.clear();
        if let Ok(ring) = started {
            self.ring = ring;
        }
    }

    /// The port would stop here; the script goes on with a fresh ring over the same memory.
    fn broken(&mut self, fault: RingFault) {
        assert!(!fault.to_string().is_empty());
        self.taken.clear();
        self.translator = Translator::new(self.mock.map.clone());
        self.ring = R::new(&self.mock.layout, &self.mock.map).expect("the mock's layout is right");
        self.next = (0, true);
    }

    /// Everything in the ring region that the device must not write.
    fn seal(&self) -> Vec<u64> {
        let (layout, n) = (&self.mock.layout, u64::from(self.shape.size));
        if self.raced {
            return vec![];
        }
        let words = |from: u64, to: u64| (from..to).step_by(8).map(|at| self.mock.peek64(at));
        // Of a packed descriptor the device writes the second word only.
        let step = if self.shape.packed { 16 } else { 8 };
        let end = layout.descriptors + n * 16;
        let table = (layout.descriptors..end).step_by(step).map(|at| self.mock.peek64(at));
        let used = if self.shape.packed { 8 } else { (6 + n * 8).next_multiple_of(8) };
        let rest = self.mock.map.regions()[0].spec();
        table
            .chain(words(end, layout.device))
            .chain(words(layout.device + used, rest.user + rest.len))
            .collect()
    }

    fn check_seal(&self, before: &[u64]) {
        assert!(self.seal() == before, "the device wrote where only the driver may");
    }
}

/// Every segment lies in one region, and together they are the chain.
fn check_segs(chain: &[Descriptor], segs: &[Seg], map: &Map) {
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
