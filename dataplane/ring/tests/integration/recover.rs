//! A device of a packed ring is killed at any moment, and another one continues the ring: the driver gets every buffer
//! back once, and a driver that has initialised its ring again is recognised.

use mem::{GuestMemory, Region, Translator};
use proptest::prelude::*;
use ring::device::{DeviceRing, Packed, Record, recover};
use ring::driver::{self, DriverRing, Post, Used};
use ring::mock::{BUFFERS, Mock, Shape};
use ring::{BufId, Descriptor, Direction};
use std::collections::BTreeSet;
use std::sync::Arc;

const SIZE: u16 = 16;

/// Where the device is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kill {
    /// After it has taken buffers.
    Taken,
    /// After it has written this many used descriptors of the next batch.
    Written(usize),
    /// After it has recorded a batch that it has not published.
    Recorded,
    /// After it has published a batch.
    Published,
}

struct Bench {
    mock: Mock,
    driver: driver::Packed,
    record: Arc<GuestMemory>,
    posted: BTreeSet<u16>,
    returned: usize,
}

impl Bench {
    fn new(in_order: bool) -> Self {
        let mock = Mock::new(Shape { packed: true, size: SIZE, in_order, event_idx: false, indirect: false });
        let driver = driver::Packed::new(&mock.layout, &mock.map).unwrap();
        let record = GuestMemory::new(vec![Arc::new(Region::heap(0, 0, 4096))]).unwrap();
        Self { mock, driver, record: Arc::new(record), posted: BTreeSet::new(), returned: 0 }
    }

    fn record(&self) -> Record {
        Record::new(&self.record, 0).unwrap()
    }

    fn device(&self, base: u32) -> Packed {
        let mut device = Packed::new(&ring::Layout { base, ..self.mock.layout }, &self.mock.map).unwrap();
        self.record().begin(base);
        device.set_record(self.record());
        device
    }

    /// Adds a buffer to every free entry, of which at most `most`.
    fn post(&mut self, most: usize) {
        for _ in 0..self.driver.free().min(most) {
            let id = (0..SIZE).find(|id| !self.posted.contains(id)).unwrap();
            self.posted.insert(id);
            self.driver.post(Post {
                id,
                address: BUFFERS + u64::from(id) * 64,
                len: 64,
                direction: Direction::Write,
            });
        }
        self.driver.publish();
    }

    /// Takes what the device has returned; each buffer must be outstanding.
    fn reap(&mut self) {
        let mut out = [Used::default(); SIZE as usize];
        let n = self.driver.take(&mut out).unwrap();
        for used in &out[..n] {
            assert!(self.posted.remove(&used.id), "buffer {} was returned twice", used.id);
        }
        self.returned += n;
    }
}

fn take(device: &mut Packed, most: usize) -> Vec<BufId> {
    let mut taken = Vec::new();
    device
        .pop_plain(most, None, &mut |d: Descriptor| {
            taken.push(d.buf_id());
            true
        })
        .unwrap();
    taken
}

fn put(device: &mut Packed, taken: &[BufId]) {
    for &id in taken {
        device.push_used(id, 64);
    }
}

/// Returns `taken` up to the moment of `kill`.
fn die(device: &mut Packed, taken: &[BufId], kill: Kill) {
    match kill {
        Kill::Taken => {}
        Kill::Written(n) => put(device, &taken[..n.min(taken.len())]),
        Kill::Recorded | Kill::Published => put(device, taken),
    }
    if kill == Kill::Published {
        device.flush_used();
    }
}

fn kills() -> impl Strategy<Value = Kill> {
    let written = (0..SIZE as usize).prop_map(Kill::Written);
    prop_oneof![Just(Kill::Taken), written, Just(Kill::Recorded), Just(Kill::Published)]
}

proptest! {
    #[test]
    fn every_buffer_returns_once(
        steps in prop::collection::vec((1..=SIZE as usize, 1..=SIZE as usize, kills(), 0..3usize, any::<bool>()), 1..40),
        in_order in any::<bool>(),
    ) {
        let mut bench = Bench::new(in_order);
        let mut device = bench.device(bench.mock.layout.base);
        let mut total = 0;
        for (posted, taken, kill, clean, again) in steps {
            let free = bench.driver.free().min(posted);
            bench.post(posted);
            total += free;
            for _ in 0..clean {
                let some = take(&mut device, 3);
                put(&mut device, &some);
                device.flush_used();
            }
            let taken = take(&mut device, taken);
            let before = device.base();
            die(&mut device, &taken, kill);
            if kill == Kill::Recorded && !taken.is_empty() {
                // As `flush_used` does before it publishes.
                let word = before & 0xffff | device.base() << 16;
                bench.poke(word);
            }
            if again {
                // The driver uses what was published before the kill.
                bench.reap();
                total += bench.driver.free();
                bench.post(SIZE.into());
            }
            let base = recover(&bench.mock.layout, &bench.mock.map, bench.record().words());
            let Some(base) = base else { panic!("{kill:?} after {taken:?} is not recovered") };
            device = bench.device(base);
            bench.reap();
        }
        while !bench.posted.is_empty() {
            let rest = take(&mut device, SIZE as usize);
            prop_assert!(!rest.is_empty(), "{:?} are lost", bench.posted);
            put(&mut device, &rest);
            device.flush_used();
            bench.reap();
        }
        prop_assert_eq!(bench.returned, total);
    }
}

impl Bench {
    /// Sets the word of the record.
    fn poke(&self, word: u32) {
        let seg = self.record.by_user(0, 4).unwrap();
        // SAFETY: `record` is alive, and the word is aligned.
        unsafe { seg.store_u32(0, word, core::sync::atomic::Ordering::Relaxed) };
    }
}

#[test]
fn a_ring_that_was_initialised_again_is_not_continued() {
    let mut bench = Bench::new(false);
    let mut device = bench.device(bench.mock.layout.base);
    bench.post(5);
    let taken = take(&mut device, 5);
    die(&mut device, &taken, Kill::Published);
    let words = bench.record().words();
    let mut fresh = Bench::new(false);
    assert_eq!(recover(&fresh.mock.layout, &fresh.mock.map, words), None, "empty");
    fresh.post(SIZE.into());
    // Published and unpublished batches, on every lap.
    for word in [words.0, 0x8005_8002, 0x0005_0002, 0x0005_0005, 0x8009_8009] {
        let before =
            (0..SIZE).map(|at| fresh.mock.peek64(fresh.mock.layout.descriptors + 16 * u64::from(at) + 8));
        let before: Vec<_> = before.collect();
        assert_eq!(recover(&fresh.mock.layout, &fresh.mock.map, (word, 0)), None, "full, {word:#x}");
        let after =
            (0..SIZE).map(|at| fresh.mock.peek64(fresh.mock.layout.descriptors + 16 * u64::from(at) + 8));
        assert!(after.eq(before), "{word:#x}");
    }
    // Nor is one with a position outside of it.
    assert_eq!(recover(&bench.mock.layout, &bench.mock.map, (0x7fff_7fff, 0)), None);
}

#[test]
fn buffers_of_several_descriptors_are_continued_except_within_a_batch() {
    for kill in [Kill::Taken, Kill::Published, Kill::Written(2)] {
        let mut bench = Bench::new(false);
        let mut device = bench.device(bench.mock.layout.base);
        for id in 0..3 {
            let part = |n: u64| Post {
                id,
                address: BUFFERS + u64::from(id) * 128 + n * 64,
                len: 64,
                direction: Direction::Write,
            };
            bench.driver.post_chain(&[part(0), part(1)]);
            bench.posted.insert(id);
        }
        bench.driver.publish();
        let mut translator = Translator::new(bench.mock.map.clone());
        let taken: Vec<_> =
            (0..3).map(|_| device.pop_chain(&mut translator, &mut Vec::new()).unwrap().unwrap()).collect();
        die(&mut device, &taken, kill);
        let base = recover(&bench.mock.layout, &bench.mock.map, bench.record().words());
        assert_eq!(base.is_some(), kill != Kill::Written(2), "{kill:?}");
    }
}
