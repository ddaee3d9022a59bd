//! Invalid ring content written by a hostile device, and the fault of each; and valid use of buffers in any order. No
//! case may crash or return an identifier that is not outstanding.

use proptest::prelude::*;
use ring::driver::{DriverRing, Packed, Post, Split, Table, Used};
use ring::mock::{BUFFERS, Mock, REGION, Shape, scale};
use ring::{Direction, RingFault};

const AVAIL: u16 = 1 << 7;
const USED: u16 = 1 << 15;
const SIZE: u16 = 8;
const TABLES: u64 = BUFFERS + REGION;

fn shape(packed: bool, in_order: bool) -> Shape {
    Shape { packed, size: SIZE, in_order, event_idx: true, indirect: true }
}

fn post(id: u16) -> Post {
    Post { id, address: BUFFERS + u64::from(id) * 64, len: 64, direction: Direction::Write }
}

/// Writes element `slot` of a split ring's used ring.
fn element(mock: &Mock, slot: u16, id: u32, len: u32) {
    let at = mock.layout.device + 4 + u64::from(slot % mock.layout.size) * 8;
    let words = [id as u16, (id >> 16) as u16, len as u16, (len >> 16) as u16];
    words.iter().zip(0..).for_each(|(word, k)| mock.poke16(at + k * 2, *word));
}

/// Sets the used index of a split ring.
fn used_index(mock: &Mock, index: u16) {
    mock.poke16(mock.layout.device + 2, index);
}

/// Marks the packed descriptor at `at` used in the first lap.
fn used_packed(mock: &Mock, at: u16, id: u16, len: u32) {
    let word = u64::from(len) | u64::from(id) << 32 | u64::from(AVAIL | USED) << 48;
    mock.poke64(mock.layout.descriptors + u64::from(at) * 16 + 8, word);
}

/// Takes used buffers; returns their identifiers.
fn take<R: DriverRing>(ring: &mut R) -> Result<Vec<u16>, RingFault> {
    let mut used = [Used::default(); 2 * SIZE as usize];
    let n = ring.take(&mut used)?;
    Ok(used[..n].iter().map(|u| u.id).collect())
}

/// A ring with identifiers 0 to 2 outstanding as plain buffers, and 3 and 4 as one chain.
fn out<R: DriverRing>(packed: bool, in_order: bool) -> (Mock, R) {
    let mock = Mock::new(shape(packed, in_order));
    let mut ring = R::new(&mock.layout, &mock.map).unwrap();
    (0..3).for_each(|id| ring.post(post(id)));
    ring.post_chain(&[post(3), post(4)]);
    ring.publish();
    assert_eq!(ring.free(), 3);
    (mock, ring)
}

#[test]
fn buffers_may_be_used_in_any_order() {
    let (mock, mut ring) = out::<Split>(false, false);
    [3, 1, 0, 2].iter().zip(0..).for_each(|(id, slot)| element(&mock, slot, *id, 64));
    used_index(&mock, 4);
    assert_eq!((take(&mut ring), ring.free()), (Ok(vec![3, 1, 0, 2]), 8));
    let (mock, mut ring) = out::<Packed>(true, false);
    // The chain's two entries are skipped together, wherever it is used.
    for (at, id) in [(0, 3), (2, 1), (3, 0), (4, 2)] {
        used_packed(&mock, at, id, 64);
    }
    assert_eq!((take(&mut ring), ring.free()), (Ok(vec![3, 1, 0, 2]), 8));
}

#[test]
fn unknown_identifiers_are_a_named_fault() {
    for in_order in [false, true] {
        // Not posted, inside a chain, just outside the ring, and far outside.
        for id in [5, 4, 8, 0xffff] {
            let (mock, mut ring) = out::<Split>(false, in_order);
            element(&mock, 0, id, 64);
            used_index(&mock, 1);
            assert_eq!(take(&mut ring), Err(RingFault::NotOut(id)));
            let (mock, mut ring) = out::<Packed>(true, in_order);
            used_packed(&mock, 0, id as u16, 64);
            assert_eq!(take(&mut ring), Err(RingFault::NotOut(id)));
        }
    }
    let (mock, mut ring) = out::<Split>(false, false);
    element(&mock, 0, 0x1_0001, 64);
    used_index(&mock, 1);
    assert_eq!(take(&mut ring), Err(RingFault::NotOut(0x1_0001)), "all 32 bits are validated");
}

#[test]
fn buffer_used_twice_is_a_named_fault() {
    let (mock, mut ring) = out::<Split>(false, false);
    element(&mock, 0, 1, 64);
    element(&mock, 1, 1, 64);
    used_index(&mock, 2);
    assert_eq!(take(&mut ring), Err(RingFault::NotOut(1)));
    let (mock, mut ring) = out::<Packed>(true, false);
    used_packed(&mock, 0, 1, 64);
    used_packed(&mock, 1, 1, 64);
    assert_eq!(take(&mut ring), Err(RingFault::NotOut(1)));
}

#[test]
fn invalid_used_index_is_a_named_fault() {
    for index in [5, 8, 9, 0x8000, 0xffff] {
        let (mock, mut ring) = out::<Split>(false, false);
        used_index(&mock, index);
        assert_eq!(take(&mut ring), Err(RingFault::UsedJump { index, taken: 0, out: 4 }), "{index}");
    }
    let (mock, mut ring) = out::<Split>(false, true);
    element(&mock, 0, 1, 64);
    used_index(&mock, 2);
    assert_eq!(take(&mut ring), Ok(vec![0, 1]));
    used_index(&mock, 1);
    assert_eq!(take(&mut ring), Err(RingFault::UsedJump { index: 1, taken: 2, out: 2 }));
}

#[test]
fn unpublished_buffer_cannot_be_used() {
    let mock = Mock::new(shape(false, false));
    let mut ring = Split::new(&mock.layout, &mock.map).unwrap();
    ring.post(post(0));
    used_index(&mock, 1);
    assert_eq!(take(&mut ring), Err(RingFault::UsedJump { index: 1, taken: 0, out: 0 }));
    // A packed ring is not read while nothing is outstanding, and posting overwrites what the device wrote there.
    let mock = Mock::new(shape(true, false));
    let mut ring = Packed::new(&mock.layout, &mock.map).unwrap();
    ring.post(post(0));
    used_packed(&mock, 0, 0, 64);
    assert_eq!(take(&mut ring), Ok(vec![]));
    ring.publish();
    assert_eq!((take(&mut ring), ring.free()), (Ok(vec![]), 7));
}

#[test]
fn unpublished_chain_cannot_be_used_after_published_buffers() {
    let mock = Mock::new(shape(true, false));
    let mut ring = Packed::new(&mock.layout, &mock.map).unwrap();
    (0..3).for_each(|id| ring.post(post(id)));
    ring.publish();
    ring.post_chain(&[post(3), post(4), post(5)]);
    [0, 1, 3].iter().zip(0..).for_each(|(&id, at)| used_packed(&mock, at, id, 64));
    assert_eq!(take(&mut ring), Err(RingFault::NotOut(3)));
}

#[test]
fn endless_batch_ends_with_the_published_buffers() {
    for packed in [false, true] {
        let mock = Mock::new(shape(packed, true));
        let ids = if packed { endless::<Packed>(&mock) } else { endless::<Split>(&mock) };
        assert_eq!(ids, [0, 1], "the batch's last buffer is not published yet");
    }
}

fn endless<R: DriverRing>(mock: &Mock) -> Vec<u16> {
    let mut ring = R::new(&mock.layout, &mock.map).unwrap();
    (0..2).for_each(|id| ring.post(post(id)));
    ring.publish();
    ring.post(post(2));
    if mock.layout.base == 0 {
        element(mock, 0, 2, 64);
        used_index(mock, 2);
    } else {
        used_packed(mock, 0, 2, 64);
    }
    let ids = take(&mut ring).unwrap();
    assert_eq!(take(&mut ring), Ok(vec![]));
    assert_eq!(ring.free(), 7);
    ids
}

#[test]
fn indirect_table_outside_memory_is_a_named_fault() {
    let mock = Mock::new(shape(false, false));
    let named = |address, entries| Table::new(&mock.map, address, entries).map(|_| ());
    assert_eq!(named(TABLES, 32), Ok(()));
    assert_eq!(named(TABLES, 0), Err(RingFault::Size(0)));
    assert_eq!(named(TABLES, 0x8001), Err(RingFault::Size(0x8001)));
    for address in [0, TABLES + 8, TABLES - 16, TABLES + REGION, u64::MAX - 15] {
        assert_eq!(named(address, 2), Err(RingFault::Area("indirect table")), "{address:#x}");
    }
}

/// Next action of the driver or the device.
#[derive(Clone, Debug)]
enum Step {
    Post(u8, usize),
    Publish,
    Take(usize),
    Sleep,
    /// The device writes a used element (split) or descriptor (packed): index, identifier, lap.
    Use(u16, u16, bool),
    /// The device sets the used index (split).
    Index(u16),
    /// The device writes its event suppression: position, flags.
    Event(u16, u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = prop_oneof![8 => 0..SIZE, 1 => any::<u16>()];
    let far = prop_oneof![8 => 0..3u16, 1 => any::<u16>()];
    let step = prop_oneof![
        4 => (any::<u8>(), 1..4usize).prop_map(|(form, n)| Step::Post(form, n)),
        2 => Just(Step::Publish),
        3 => (0..9usize).prop_map(Step::Take),
        1 => Just(Step::Sleep),
        4 => (0..SIZE, id, any::<bool>()).prop_map(|(at, id, lap)| Step::Use(at, id, lap)),
        3 => far.prop_map(Step::Index),
        1 => any::<(u16, u16)>().prop_map(|(place, flags)| Step::Event(place, flags)),
    ];
    prop::collection::vec(step, 1..scale(200, 30))
}

/// Runs the script; after each fault, creates a new ring over the same memory, as a port does.
struct Play<R> {
    mock: Mock,
    ring: R,
    tables: Vec<Table>,
    /// Outstanding chains by head: the identifiers of each.
    out: Vec<Vec<u16>>,
    free: Vec<u16>,
    index: u16,
}

impl<R: DriverRing> Play<R> {
    fn new(shape: Shape) -> Self {
        let mock = Mock::new(shape);
        let ring = R::new(&mock.layout, &mock.map).unwrap();
        let table = |id: u16| Table::new(&mock.map, TABLES + u64::from(id) * 64, 4).unwrap();
        let tables = (0..SIZE).map(table).collect();
        let out = vec![vec![]; SIZE.into()];
        Self { mock, ring, tables, out, free: (0..SIZE).collect(), index: 0 }
    }

    fn post(&mut self, form: u8, n: usize) {
        let n = n.min(self.free.len());
        if n == 0 {
            return;
        }
        let n = if form % 3 == 2 { n } else { 1 };
        let ids = self.free.split_off(self.free.len() - n);
        let chain: Vec<_> = ids.iter().map(|&id| post(id)).collect();
        let head = ids[0];
        match form % 3 {
            0 => self.ring.post(chain[0]),
            1 => self.ring.post_indirect(head, &mut self.tables[usize::from(head)], &chain),
            _ => self.ring.post_chain(&chain),
        }
        self.out[usize::from(head)] = ids;
    }

    fn take(&mut self, n: usize) {
        let mut used = vec![Used::default(); n];
        match self.ring.take(&mut used) {
            Ok(n) => {
                for u in &used[..n] {
                    let ids = std::mem::take(&mut self.out[usize::from(u.id)]);
                    assert!(!ids.is_empty(), "{} came back without being out", u.id);
                    self.free.extend(ids);
                }
            }
            Err(fault) => self.broken(fault),
        }
        assert_eq!(self.ring.free(), self.free.len(), "every descriptor is out or free");
    }

    fn broken(&mut self, fault: RingFault) {
        assert!(!fault.to_string().is_empty());
        self.ring = R::new(&self.mock.layout, &self.mock.map).unwrap();
        (self.free, self.out) = ((0..SIZE).collect(), vec![vec![]; SIZE.into()]);
        self.index = self.mock.peek16(self.mock.layout.driver + 2);
    }

    fn step(&mut self, step: &Step) {
        let packed = self.mock.layout.base != 0;
        match *step {
            Step::Post(form, n) => self.post(form, n),
            Step::Publish => {
                self.ring.publish();
                self.ring.should_kick();
            }
            Step::Take(n) => self.take(n),
            Step::Sleep => {
                self.ring.enable_notification();
                self.ring.disable_notification();
            }
            Step::Use(at, id, lap) if packed => {
                let flags = if lap { AVAIL | USED } else { 0 };
                let word = 64 | u64::from(id) << 32 | u64::from(flags) << 48;
                self.mock.poke64(self.mock.layout.descriptors + u64::from(at) * 16 + 8, word);
            }
            Step::Use(at, id, _) => element(&self.mock, at, id.into(), 64),
            Step::Index(_) if packed => {}
            Step::Index(more) => {
                self.index = self.index.wrapping_add(more);
                used_index(&self.mock, self.index);
            }
            Step::Event(place, flags) => {
                self.mock.poke16(self.mock.layout.device, place);
                if packed {
                    self.mock.poke16(self.mock.layout.device + 2, flags);
                } else {
                    self.mock.poke16(self.mock.layout.device + 4 + u64::from(SIZE) * 8, place);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scale(256, 4), ..ProptestConfig::default() })]

    #[test]
    fn identifiers_return_once_for_any_device(steps in steps(), in_order: bool) {
        let mut split = Play::<Split>::new(shape(false, in_order));
        let mut packed = Play::<Packed>::new(shape(true, in_order));
        for step in &steps {
            split.step(step);
            packed.step(step);
        }
    }
}
