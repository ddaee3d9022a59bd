//! Driver against device: every buffer is transferred and returns once, with its length, in order.

use mem::Translator;
use proptest::prelude::*;
use ring::device::{self, AvailBatch, DeviceRing};
use ring::driver::{self, DriverRing, Post, Used};
use ring::mock::{BUFFERS, Mock, Shape, scale};
use ring::{BufId, Direction};

/// Counts of one step: posted, taken by the device, used, collected.
type Step = (u8, u8, u8, u8);

const CASES: u32 = scale(64, 4);
const STEPS: usize = scale(60, 12);

struct Pair<D, V> {
    device: D,
    driver: V,
    translator: Translator,
    free: Vec<u16>,
    posted: Vec<u16>,
    taken: Vec<(BufId, u16)>,
    used: Vec<(u16, u32)>,
    in_order: bool,
}

fn pair<D: DeviceRing, V: DriverRing>(shape: Shape) -> Pair<D, V> {
    over(&Mock::new(shape), shape)
}

/// A split ring whose indices start at `index`.
fn pair_at<D: DeviceRing, V: DriverRing>(shape: Shape, index: u16) -> Pair<D, V> {
    let mut mock = Mock::new(shape);
    mock.layout.base = index.into();
    mock.available_index(index);
    mock.poke16(mock.layout.device + 2, index);
    over(&mock, shape)
}

fn over<D: DeviceRing, V: DriverRing>(mock: &Mock, shape: Shape) -> Pair<D, V> {
    Pair {
        device: D::new(&mock.layout, &mock.map).unwrap(),
        driver: V::new(&mock.layout, &mock.map).unwrap(),
        translator: Translator::new(mock.map.clone()),
        free: (0..shape.size).collect(),
        posted: vec![],
        taken: vec![],
        used: vec![],
        in_order: shape.in_order,
    }
}

impl<D: DeviceRing, V: DriverRing> Pair<D, V> {
    fn post(&mut self, n: usize) {
        for _ in 0..n.min(self.free.len()).min(self.driver.free()) {
            let id = self.free.remove(0);
            let address = BUFFERS + u64::from(id) * 16;
            self.driver.post(Post { id, address, len: 16, direction: Direction::Write });
            self.posted.push(id);
        }
        self.driver.publish();
    }

    fn take(&mut self, n: usize) {
        let mut batch = AvailBatch::default();
        self.device.pop_avail(n.min(64), &mut batch, &mut self.translator).unwrap();
        assert_eq!(batch.len, n.min(64).min(self.posted.len()), "all that was published is there");
        for k in 0..batch.len {
            let id = self.posted.remove(0);
            assert_eq!(batch.heads[k].address, BUFFERS + u64::from(id) * 16);
            self.taken.push((batch.buf_id(k), id));
        }
    }

    fn give_back(&mut self, n: usize) {
        for (buf_id, id) in self.taken.drain(..n.min(self.taken.len())) {
            self.device.push_used(buf_id, u32::from(id) + 1);
            self.used.push((id, u32::from(id) + 1));
        }
        self.device.flush_used();
    }

    fn give_back_read(&mut self, n: usize) {
        let batch: Vec<_> = self.taken.drain(..n.min(self.taken.len())).collect();
        let buf_ids: Vec<_> = batch.iter().map(|b| b.0).collect();
        self.device.push_read(&buf_ids);
        self.device.flush_used();
        // In-order: one element returns the batch, and skipped buffers count as fully written.
        let skipped = if self.in_order { batch.len().saturating_sub(1) } else { 0 };
        let len = |k| if k < skipped { 16 } else { 0 };
        self.used.extend(batch.iter().enumerate().map(|(k, b)| (b.1, len(k))));
    }

    fn collect(&mut self, n: usize) {
        let mut out = vec![Used::default(); n];
        let got = self.driver.take(&mut out).unwrap();
        assert_eq!(got, n.min(self.used.len()), "all that was published is there");
        for (u, (id, len)) in out[..got].iter().zip(self.used.drain(..got)) {
            assert_eq!((u.id, u.len), (id, len));
            self.free.push(id);
        }
    }

    fn run(&mut self, steps: &[Step], read: bool) {
        for &(post, take, give, collect) in steps {
            self.post(post.into());
            self.take(take.into());
            if read {
                self.give_back_read(give.into());
            } else {
                self.give_back(give.into());
            }
            self.collect(collect.into());
        }
    }
}

fn shape(packed: bool, size: u16, in_order: bool) -> Shape {
    Shape { packed, size, in_order, event_idx: false, indirect: false }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    #[test]
    fn split_buffers_come_back_once_in_order(
        steps in prop::collection::vec(any::<Step>(), 1..STEPS), log in 0u32..8, in_order: bool, read: bool,
    ) {
        pair::<device::Split, driver::Split>(shape(false, 1 << log, in_order)).run(&steps, read);
    }

    #[test]
    fn packed_buffers_come_back_once_in_order(
        steps in prop::collection::vec(any::<Step>(), 1..STEPS), size in 1u16..200, in_order: bool, read: bool,
    ) {
        pair::<device::Packed, driver::Packed>(shape(true, size, in_order)).run(&steps, read);
    }
}

#[test]
fn a_split_index_wraps_around_sixteen_bits() {
    for (start, rounds) in [(0, scale(70_000 / 64, 0)), (65_400, 6)] {
        let mut p = pair_at::<device::Split, driver::Split>(shape(false, 64, false), start);
        for _ in 0..rounds {
            p.run(&[(64, 64, 64, 64)], false);
        }
        assert_eq!(p.device.base(), (u32::from(start) + 64 * rounds) & 0xffff);
    }
}

#[test]
fn the_largest_rings_work() {
    let steps = vec![(255, 64, 64, 255); scale(2000, 3)];
    pair::<device::Split, driver::Split>(shape(false, 32_768, false)).run(&steps, false);
    pair::<device::Packed, driver::Packed>(shape(true, 32_768, false)).run(&steps, false);
}

/// Notification suppression of each format: enabled state, and the resulting notifications.
fn suppression<D: DeviceRing, V: DriverRing>(packed: bool, event_idx: bool) {
    let mut p = pair::<D, V>(Shape { event_idx, ..shape(packed, 16, false) });
    // Neither side enabled notifications: both poll.
    if !event_idx || packed {
        p.post(1);
        assert!(!p.driver.should_kick(), "a polling device wants no kick");
        p.take(1);
        p.give_back(1);
        assert!(!p.device.needs_notification(), "a polling driver wants no call");
        p.collect(1);
    }
    assert!(!p.device.enable_notification(), "nothing is available");
    p.post(1);
    assert!(p.driver.should_kick(), "an armed device wants a kick");
    assert!(!p.driver.should_kick(), "and only one for one publish");
    assert!(p.device.enable_notification(), "arming again sees what is there");
    p.take(1);
    assert!(!p.driver.enable_notification(), "nothing is used");
    p.give_back(1);
    assert!(p.device.needs_notification(), "an armed driver wants a call");
    assert!(!p.device.needs_notification(), "and only one for one publish");
    assert!(p.driver.enable_notification(), "arming again sees what is there");
    p.collect(1);
}

#[test]
fn notifications_are_suppressed_by_flags_and_by_events() {
    suppression::<device::Split, driver::Split>(false, false);
    suppression::<device::Split, driver::Split>(false, true);
    suppression::<device::Packed, driver::Packed>(true, false);
    suppression::<device::Packed, driver::Packed>(true, true);
}

/// `buffers` buffers pass without a query; before the last one the other side goes to sleep.
fn late_question<D: DeviceRing, V: DriverRing>(shape: Shape, buffers: usize) {
    let ready = || {
        let mut p = pair::<D, V>(shape);
        // The initial event position of a split ring counts as enabled.
        p.driver.should_kick();
        p.device.needs_notification();
        (1..buffers).for_each(|_| p.run(&[(1, 1, 1, 1)], false));
        p
    };
    let mut p = ready();
    assert!(!p.device.enable_notification());
    p.post(1);
    assert!(p.driver.should_kick(), "the device sleeps for ever after {buffers} buffers, {shape:?}");
    let mut p = ready();
    p.post(1);
    p.take(1);
    assert!(!p.driver.enable_notification());
    p.give_back(1);
    assert!(p.device.needs_notification(), "the driver sleeps for ever after {buffers} buffers, {shape:?}");
}

#[test]
fn late_notification_check_wakes_the_sleeper() {
    let buffers = [1, 7, 8, 15, 16, 17, 31, 32, 33, 65_535, 65_536, 65_537];
    for &buffers in &buffers[..scale(12, 6)] {
        let packed = Shape { event_idx: true, ..shape(true, 8, false) };
        late_question::<device::Packed, driver::Packed>(packed, buffers);
        late_question::<device::Split, driver::Split>(Shape { packed: false, ..packed }, buffers);
    }
}

#[test]
fn a_ring_restarts_at_the_base_that_it_reported() {
    for packed in [false, true] {
        let mock = Mock::new(shape(packed, 8, false));
        let base = if packed {
            restart::<device::Packed, driver::Packed>(&mock)
        } else {
            restart::<device::Split, driver::Split>(&mock)
        };
        assert_eq!(base, if packed { 0x0002_0002 } else { 10 });
    }
}

/// Ten buffers pass through a ring of eight; two more are taken and not used: the base points to the first of those.
fn restart<D: DeviceRing, V: DriverRing>(mock: &Mock) -> u32 {
    let mut translator = Translator::new(mock.map.clone());
    let mut driver = V::new(&mock.layout, &mock.map).unwrap();
    let mut device = D::new(&mock.layout, &mock.map).unwrap();
    let mut batch = AvailBatch::default();
    let post = |id| Post { id, address: BUFFERS, len: 16, direction: Direction::Read };
    for n in 0..10u16 {
        driver.post(post(n % 8));
        driver.publish();
        device.pop_avail(1, &mut batch, &mut translator).unwrap();
        device.push_read(&[batch.buf_id(0)]);
        device.flush_used();
        assert_eq!(driver.take(&mut [Used::default()]).unwrap(), 1);
    }
    (0..2).for_each(|id| driver.post(post(id)));
    driver.publish();
    device.pop_avail(2, &mut batch, &mut translator).unwrap();
    let base = device.base();
    let mut again = D::new(&ring::Layout { base, ..mock.layout }, &mock.map).unwrap();
    again.pop_avail(64, &mut batch, &mut translator).unwrap();
    assert_eq!(batch.len, 2, "what was taken and not used is taken again");
    base
}
