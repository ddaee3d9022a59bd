//! Driver and device on one ring, each checked against the other.
//!
//! A step posts chains of any shape, or takes, uses or collects some; either side sleeps if there is no work, and wakes
//! on notification. All results are compared with the posted chains.

use mem::Translator;
use proptest::prelude::*;
use ring::device::{AvailBatch, DeviceRing};
use ring::driver::{DriverRing, Post, Table, Used};
use ring::mock::{BUFFERS, Mock, REGION, Shape, USER, scale};
use ring::{BufId, Descriptor, Direction, resolve};
use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};

/// Entries per table.
const TABLE: u16 = 16;
/// Tables are in the second region, buffers in the first.
const TABLES: u64 = BUFFERS + REGION;

/// Chain form.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// One descriptor, one buffer.
    Plain,
    /// One descriptor per buffer.
    Chain,
    /// One indirect descriptor for all buffers.
    Indirect,
}

/// Test step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Posts chains: form, number of buffers (reduced to what is possible), number of device-writable buffers.
    Post(Vec<(Form, u16, u16)>),
    /// The device takes up to this many chains.
    Take(usize),
    /// The device uses up to this many taken chains, one by one or as a device-readable batch.
    Use(usize, bool),
    /// The driver collects up to this many chains.
    Collect(usize),
    /// The device sleeps if no chain is available.
    DeviceSleeps,
    /// The driver sleeps if no chain is used.
    DriverSleeps,
    /// Another driver continues the ring.
    Thaw,
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let form = prop_oneof![Just(Form::Plain), Just(Form::Chain), Just(Form::Indirect)];
    let chain = (form, prop_oneof![1..4u16, any::<u16>()], any::<u16>());
    let step = prop_oneof![
        3 => prop::collection::vec(chain, 1..20).prop_map(Step::Post),
        3 => (0..70usize).prop_map(Step::Take),
        3 => (0..70usize, any::<bool>()).prop_map(|(n, batch)| Step::Use(n, batch)),
        3 => (0..70usize).prop_map(Step::Collect),
        1 => Just(Step::DeviceSleeps),
        1 => Just(Step::DriverSleeps),
        1 => Just(Step::Thaw),
    ];
    prop::collection::vec(step, 1..scale(120, 12))
}

/// A chain in flight.
#[derive(Clone, Debug)]
struct Chain {
    head: u16,
    posts: Vec<Post>,
    /// Number of descriptors.
    slots: u16,
}

impl Chain {
    fn writable(&self) -> u32 {
        self.posts.iter().filter(|p| p.direction == Direction::Write).map(|p| p.len).sum()
    }
}

/// Number of notifications, and of the sleeps that enabled them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sleeps: u64,
    pub(crate) notifications: u64,
    pub(crate) entries: u64,
}

pub(crate) struct Pair<D, V> {
    mock: Mock,
    shape: Shape,
    device: D,
    driver: V,
    translator: Translator,
    tables: Vec<Table>,
    free: VecDeque<u16>,
    posted: VecDeque<Chain>,
    taken: VecDeque<(BufId, Chain)>,
    used: VecDeque<(Chain, u32)>,
    asleep: [bool; 2],
    /// Kicks and device sleeps; calls and driver sleeps.
    pub(crate) counts: [Counts; 2],
    /// Makes all buffers distinct.
    serial: u64,
}

impl<D: DeviceRing, V: DriverRing> Pair<D, V> {
    pub(crate) fn new(shape: Shape) -> Self {
        let mock = Mock::new(shape);
        let table = |id: u16| Table::new(&mock.map, TABLES + u64::from(id) * u64::from(TABLE) * 16, TABLE);
        Self {
            device: D::new(&mock.layout, &mock.map).unwrap(),
            driver: V::new(&mock.layout, &mock.map).unwrap(),
            translator: Translator::new(mock.map.clone()),
            tables: (0..shape.size).map(|id| table(id).unwrap()).collect(),
            free: (0..shape.size).collect(),
            posted: VecDeque::new(),
            taken: VecDeque::new(),
            used: VecDeque::new(),
            asleep: [false; 2],
            counts: [Counts::default(); 2],
            serial: 0,
            mock,
            shape,
        }
    }

    pub(crate) fn run(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Post(chains) => self.post(chains),
                Step::Take(n) => self.take(*n),
                Step::Use(n, batch) => self.give_back(*n, *batch),
                Step::Collect(n) => self.collect(*n),
                Step::DeviceSleeps => self.device_sleeps(),
                Step::DriverSleeps => self.driver_sleeps(),
                Step::Thaw => self.thaw(),
            }
        }
    }

    /// Completes all chains. No identifier and no descriptor may be lost.
    pub(crate) fn finish(mut self) -> [Counts; 2] {
        self.asleep = [false; 2];
        while !(self.posted.is_empty() && self.taken.is_empty() && self.used.is_empty()) {
            self.take(64);
            self.give_back(64, false);
            self.collect(64);
        }
        assert_eq!(self.driver.free(), usize::from(self.shape.size));
        self.free.make_contiguous().sort_unstable();
        assert!(self.free.iter().copied().eq(0..self.shape.size), "an identifier was lost: {:?}", self.free);
        self.counts
    }

    fn posts(&mut self, n: u16, writable: u16) -> Vec<Post> {
        let from = n - writable % (n + 1);
        let ids: Vec<u16> = self.free.drain(..usize::from(n)).collect();
        let post = |(k, &id): (usize, &u16)| {
            let direction = if k < usize::from(from) { Direction::Read } else { Direction::Write };
            self.serial += 1;
            let (address, len) = (BUFFERS + self.serial * 24 % (REGION - 64), (self.serial % 61) as u32);
            Post { id, address, len, direction }
        };
        ids.iter().enumerate().map(post).collect()
    }

    fn post(&mut self, chains: &[(Form, u16, u16)]) {
        for &(form, n, writable) in chains {
            if self.driver.free() == 0 {
                break;
            }
            self.post_one(form, n.max(1), writable);
        }
        self.driver.publish();
        fence(Ordering::SeqCst);
        let kicked = self.driver.should_kick();
        let waiting = !self.posted.is_empty();
        if notified(&mut self.asleep[0], &mut self.counts[0], kicked, waiting, "the device") {
            self.device.disable_notification();
        }
    }

    fn post_one(&mut self, form: Form, n: u16, writable: u16) {
        let free = self.driver.free() as u16;
        let chain = match form {
            Form::Indirect if self.shape.indirect => {
                let n = 1 + (n - 1) % TABLE.min(self.shape.size);
                let id = self.free[0];
                // Buffers in a table need no ring identifiers.
                let spare: VecDeque<u16> = (0..n).collect();
                let rest = std::mem::replace(&mut self.free, spare);
                let posts = self.posts(n, writable);
                self.free = rest;
                self.free.pop_front();
                self.driver.post_indirect(id, &mut self.tables[usize::from(id)], &posts);
                Chain { head: id, posts, slots: 1 }
            }
            Form::Chain => {
                let posts = self.posts(1 + (n - 1) % free, writable);
                self.driver.post_chain(&posts);
                Chain { head: posts[0].id, slots: posts.len() as u16, posts }
            }
            _ => {
                let posts = self.posts(1, writable);
                self.driver.post(posts[0]);
                Chain { head: posts[0].id, posts, slots: 1 }
            }
        };
        assert_eq!(self.driver.free(), usize::from(free - chain.slots), "free counts descriptors");
        self.counts[0].entries += u64::from(if self.shape.packed { chain.slots } else { 1 });
        self.posted.push_back(chain);
    }

    fn take(&mut self, n: usize) {
        if self.asleep[0] {
            return;
        }
        let mut batch = AvailBatch::default();
        self.device.pop_avail(n, &mut batch, &mut self.translator).unwrap();
        for k in 0..batch.len {
            let chain = self.posted.pop_front().unwrap();
            let buf_id = batch.buf_id(k);
            assert_eq!(buf_id.id, chain.head);
            assert_eq!(buf_id.slots, if self.shape.packed { chain.slots } else { 1 });
            let last = k + 1 == batch.len && batch.has_chain();
            let seen = if last { &batch.chain[..] } else { &batch.heads[k..=k] };
            self.compare(&chain, seen);
            self.taken.push_back((buf_id, chain));
        }
        let stopped = batch.has_chain() || batch.len == n.min(64);
        assert!(stopped || self.posted.is_empty(), "all that was published is there");
    }

    /// Checks that the device sees the posted chain: buffer order, directions and translated bytes.
    fn compare(&mut self, chain: &Chain, seen: &[Descriptor]) {
        let way = |d: &Descriptor| d.flags & Descriptor::WRITE != 0;
        let seen_buffers = seen.iter().map(|d| (d.address, d.len, way(d)));
        let posted = chain.posts.iter().map(|p| (p.address, p.len, p.direction == Direction::Write));
        assert!(seen_buffers.eq(posted), "{seen:?} is not {chain:?}");
        let direction = chain.posts[0].direction;
        if chain.posts.iter().any(|p| p.direction != direction) {
            return;
        }
        let mut segs = vec![];
        resolve(seen, direction, &mut self.translator, &mut segs).unwrap();
        let segs = segs.iter().map(|seg| (seg.addr(), seg.len()));
        let whole = chain.posts.iter().filter(|p| p.len > 0);
        let whole = whole.map(|p| self.mock.map.by_user(p.address + USER, p.len).unwrap());
        assert!(segs.eq(whole.map(|seg| (seg.addr(), seg.len()))));
    }

    fn give_back(&mut self, n: usize, batch: bool) {
        if self.asleep[0] {
            return;
        }
        let done: Vec<_> = self.taken.drain(..n.min(self.taken.len())).collect();
        let entries = done.iter().map(|(buf_id, _)| u64::from(buf_id.slots)).sum::<u64>();
        if batch {
            self.device.push_read(&done.iter().map(|d| d.0).collect::<Vec<_>>());
        }
        let count = done.len();
        for (k, (buf_id, chain)) in done.into_iter().enumerate() {
            let mut len = chain.writable() / 2;
            if batch {
                // In-order: one element returns the batch, and skipped chains count as fully written.
                len = if self.shape.in_order && k + 1 < count { chain.writable() } else { 0 };
            } else {
                self.device.push_used(buf_id, len);
            }
            self.used.push_back((chain, len));
        }
        self.device.flush_used();
        fence(Ordering::SeqCst);
        self.counts[1].entries += entries;
        let called = self.device.needs_notification();
        let waiting = !self.used.is_empty();
        if notified(&mut self.asleep[1], &mut self.counts[1], called, waiting, "the driver") {
            self.driver.disable_notification();
        }
    }

    fn collect(&mut self, n: usize) {
        if self.asleep[1] {
            return;
        }
        let mut out = vec![Used::default(); n];
        let got = self.driver.take(&mut out).unwrap();
        assert_eq!(got, n.min(self.used.len()), "all that was published is there");
        for (u, (chain, len)) in out[..got].iter().zip(self.used.drain(..got)) {
            assert_eq!((u.id, u.len), (chain.head, len));
            if chain.slots == 1 {
                self.free.push_back(chain.head);
            } else {
                self.free.extend(chain.posts.iter().map(|post| post.id));
            }
        }
    }

    /// The new driver polls, and kicks once without need.
    fn thaw(&mut self) {
        let state = self.driver.freeze();
        self.driver = V::thaw(&self.mock.layout, &self.mock.map, &state).unwrap();
        self.asleep[1] = false;
        fence(Ordering::SeqCst);
        if self.driver.should_kick() && std::mem::take(&mut self.asleep[0]) {
            self.device.disable_notification();
        }
        let ids = 0..self.shape.size;
        let out = self
            .posted
            .iter()
            .chain(self.taken.iter().map(|(_, chain)| chain))
            .chain(self.used.iter().map(|(chain, _)| chain));
        let mut heads: Vec<u16> = out.map(|chain| chain.head).collect();
        heads.sort_unstable();
        assert!(ids.filter(|&id| state.is_out(id)).eq(heads), "{state:?}");
    }

    fn device_sleeps(&mut self) {
        if self.asleep[0] {
            return;
        }
        let there = self.device.enable_notification();
        assert_eq!(there, !self.posted.is_empty(), "arming says whether something is there");
        if there {
            self.device.disable_notification();
        } else {
            self.asleep[0] = true;
            self.counts[0].sleeps += 1;
        }
    }

    fn driver_sleeps(&mut self) {
        if self.asleep[1] {
            return;
        }
        let there = self.driver.enable_notification();
        assert_eq!(there, !self.used.is_empty(), "arming says whether something is there");
        if there {
            self.driver.disable_notification();
        } else {
            self.asleep[1] = true;
            self.counts[1].sleeps += 1;
        }
    }
}

/// Checks that a sleeper is woken by the first work; counts notifications. Returns whether the side woke up.
fn notified(asleep: &mut bool, counts: &mut Counts, told: bool, waiting: bool, who: &str) -> bool {
    assert!(told || !(*asleep && waiting), "{who} sleeps for ever");
    counts.notifications += u64::from(told);
    told && std::mem::take(asleep)
}
