//! A guest with queue pairs over a real socket, which verifies content and order of all received frames.
//!
//! Each pair is a separate station. A frame carries its sender, queue pair and sequence number, so that a receiver can
//! check order and integrity. Frames may be lost; the switch's counters show where.

use crate::memory::{Memory, ROOM, event};
use port::vhost::Features;
use port::virtio_user::{FrontEnd, VringSetup};
use ring::Direction;
use ring::driver::{DriverRing, Post, Used};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// Timeout longer than any reply takes on a loaded machine, so that a hang fails the test.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(2);
/// Frames sent per pair and step.
const BURST: usize = 24;
const HEADER: usize = 12;
/// Queue pairs per guest.
pub(crate) const PAIRS: u16 = 2;
const SIZE: u16 = 128;

/// Stops all guests when dropped, so that a failure does not leave them running.
pub(crate) struct Ending<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Deadline for a wait.
pub(crate) struct Limit(Instant);

impl Limit {
    pub(crate) fn new() -> Self {
        Self(Instant::now() + TIMEOUT)
    }

    pub(crate) fn check(&self, what: &str) {
        assert!(Instant::now() < self.0, "waited too long for: {what}");
    }
}

/// Behaviour of a guest and its tolerance.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Behavior {
    /// The guest has given the back end wrong ring or memory addresses, so received data is not checked.
    pub(crate) careless: bool,
    /// Frames from guests with this number or higher are not checked.
    pub(crate) foreign_frames: Option<u8>,
    /// Sleep after each step.
    pub(crate) rest: Duration,
}

/// A connected guest that sends and checks frames.
pub(crate) struct Guest<R> {
    pub(crate) number: u8,
    pub(crate) front: FrontEnd,
    pub(crate) memory: Memory,
    pairs: Vec<Pair<R>>,
    /// Last sequence number, by own pair, sender and sender's pair.
    seen: BTreeMap<(u8, u8, u8), u64>,
    pub(crate) counts: Counts,
    /// Received frames that passed all checks.
    pub(crate) heard: Arc<AtomicU64>,
    behavior: Behavior,
}

/// Frame counters of a guest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Frames taken by the switch.
    pub(crate) sent: u64,
    /// Frames received.
    pub(crate) received: u64,
}

struct Pair<R> {
    /// Receive ring and transmit ring.
    rings: [Vring<R>; 2],
    free: Vec<u16>,
    next: u64,
}

struct Vring<R> {
    ring: R,
    kick: OwnedFd,
    call: OwnedFd,
}

/// MAC address of one pair of a guest.
fn mac(guest: u8, pair: u8) -> [u8; 6] {
    [0x02, 0, 0, 0, guest, pair]
}

/// Frame `number` of a pair. Its length and content are determined by sender and number.
fn frame(to: [u8; 6], guest: u8, pair: u8, number: u64) -> Vec<u8> {
    let mut frame = vec![(number * 7) as u8 ^ guest; 60 + (number as usize * 97) % 1400];
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&mac(guest, pair));
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[14..16].copy_from_slice(&[guest, pair]);
    frame[16..24].copy_from_slice(&number.to_le_bytes());
    frame
}

/// Whether a frame is not from these tests, or from a guest numbered `first` or higher.
fn is_strange(frame: &[u8], first: u8) -> bool {
    frame.len() < 60 || frame[12..14] != [0x88, 0xb5] || frame[14] >= first
}

impl<R: DriverRing> Guest<R> {
    /// Connects to `socket`. `packed` must match `R`.
    pub(crate) fn plug_in(socket: &Path, number: u8, packed: bool) -> Self {
        Self::plug_in_with(socket, number, packed, false)
    }

    /// [`Guest::plug_in`] with or without `EVENT_IDX`.
    pub(crate) fn plug_in_with(socket: &Path, number: u8, packed: bool, event_idx: bool) -> Self {
        let mut memory = Memory::new(2 * u64::from(PAIRS), SIZE, packed);
        memory.event_idx = event_idx;
        let mut front = FrontEnd::connect(socket, TIMEOUT).unwrap();
        let kind = if packed { Features::RING_PACKED } else { 0 };
        let kind = kind | if event_idx { Features::EVENT_IDX } else { 0 };
        let wanted = Features(Features::VERSION_1 | Features::PROTOCOL | Features::MQ | kind);
        assert!(front.negotiate(wanted).unwrap().features.has(wanted.0));
        front.share(&memory.whole()).unwrap();
        let mut pairs: Vec<_> = (0..PAIRS).map(|pair| Pair::new(&memory, pair)).collect();
        pairs.iter_mut().zip(0..).for_each(|(pair, at)| pair.offer_all(&memory, at));
        let (seen, counts, heard) = Default::default();
        let mut guest =
            Self { number, front, memory, pairs, seen, counts, heard, behavior: Behavior::default() };
        guest.start();
        guest
    }

    pub(crate) fn with(self, behavior: Behavior) -> Self {
        Self { behavior, ..self }
    }

    fn start(&mut self) {
        let rings = self.pairs.iter().flat_map(|pair| &pair.rings);
        let setups: Vec<_> =
            rings.zip(0..).map(|(vring, index)| vring.setup(&self.memory.layout(index))).collect();
        self.front.start(&setups).unwrap();
    }

    /// Frames posted to the switch, including those not yet taken.
    pub(crate) fn posted(&self) -> u64 {
        self.pairs.iter().map(|pair| pair.next).sum()
    }

    /// Call eventfd of ring `index`.
    pub(crate) fn call(&self, index: u8) -> &OwnedFd {
        &self.pairs[usize::from(index / 2)].rings[usize::from(index % 2)].call
    }

    /// Polls all queues once, and sends to `peers` if buffers are free.
    pub(crate) fn step(&mut self, peers: &[u8]) {
        self.step_with(peers, BURST);
    }

    /// [`Guest::step`] with up to `n` frames per pair.
    pub(crate) fn step_with(&mut self, peers: &[u8], n: usize) {
        for at in 0..self.pairs.len() {
            self.collect(at);
            self.receive(at);
            self.send(at, peers, n);
            let pair = &mut self.pairs[at];
            pair.rings.iter_mut().for_each(|vring| vring.ring.publish());
            // Orders our available indices before our loads of the device's suppression fields.
            fence(Ordering::SeqCst);
            pair.rings.iter_mut().for_each(Vring::kick);
        }
    }

    /// Reclaims sent buffers.
    fn collect(&mut self, at: usize) {
        let mut used = [Used::default(); 64];
        let n = self.take(at, 1, &mut used);
        self.pairs[at].free.extend(used[..n].iter().map(|u| u.id));
        self.counts.sent += n as u64;
    }

    /// Takes used buffers of one ring of a pair.
    fn take(&mut self, at: usize, way: usize, used: &mut [Used]) -> usize {
        let taken = self.pairs[at].rings[way].ring.take(used);
        if self.behavior.careless { taken.unwrap_or(0) } else { taken.unwrap() }
    }

    /// Checks received frames and posts their buffers again.
    fn receive(&mut self, at: usize) {
        let mut used = [Used::default(); 64];
        let n = self.take(at, 0, &mut used);
        for u in &used[..n] {
            if !self.behavior.careless {
                let bytes = self.memory.read(2 * at as u64, u.id, u.len);
                self.check(at as u8, &bytes[HEADER..]);
            }
            self.pairs[at].offer(&self.memory, at as u64, u.id);
        }
        self.counts.received += n as u64;
    }

    /// Checks content, and order per sender and receiving pair. (The receiving pair may change while the rings of a
    /// port start one by one.)
    fn check(&mut self, at: u8, got: &[u8]) {
        if self.behavior.foreign_frames.is_some_and(|first| is_strange(got, first)) {
            return;
        }
        self.heard.fetch_add(1, Ordering::Relaxed);
        let (from, pair) = (got[14], got[15]);
        let mut number = [0; 8];
        number.copy_from_slice(&got[16..24]);
        let number = u64::from_le_bytes(number);
        let to = [got[0], got[1], got[2], got[3], got[4], got[5]];
        assert!(got == frame(to, from, pair, number), "frame {number} of {from}.{pair} was changed");
        let before = self.seen.insert((at, from, pair), number);
        assert!(before < Some(number), "{from}.{pair} at {}.{at}: {number} after {before:?}", self.number);
    }

    fn send(&mut self, at: usize, peers: &[u8], n: usize) {
        if peers.is_empty() {
            return;
        }
        for _ in 0..n {
            let pair = &mut self.pairs[at];
            let Some(id) = pair.free.pop() else { return };
            let number = pair.next;
            pair.next += 1;
            let to = mac(peers[number as usize % peers.len()], at as u8);
            let frame = frame(to, self.number, at as u8, number);
            self.memory.write(2 * at as u64 + 1, id, &[&[0; HEADER], &frame[..]].concat());
            let (address, len) = (self.memory.buffer(2 * at as u64 + 1, id), (HEADER + frame.len()) as u32);
            pair.rings[1].ring.post(Post { id, address, len, direction: Direction::Read });
        }
    }

    /// Sends and checks until `done`, then receives the frames in flight.
    pub(crate) fn live(mut self, peers: &[u8], done: &AtomicBool) -> Self {
        while !done.load(Ordering::Relaxed) {
            self.step(peers);
            if !self.behavior.rest.is_zero() {
                std::thread::sleep(self.behavior.rest);
            }
        }
        self.drain(50);
        self
    }

    /// Receives until `quiet` consecutive polls find nothing and all sent buffers are reclaimed.
    pub(crate) fn drain(&mut self, quiet: usize) {
        let (mut before, mut same) = (self.counts.received, 0);
        let limit = Limit::new();
        while same < quiet || self.pairs.iter().any(|pair| pair.free.len() < usize::from(SIZE)) {
            limit.check("buffers that were sent");
            self.step(&[]);
            std::thread::sleep(Duration::from_millis(1));
            same = if before == self.counts.received { same + 1 } else { 0 };
            before = self.counts.received;
        }
    }
}

impl<R: DriverRing> Pair<R> {
    fn new(memory: &Memory, pair: u16) -> Self {
        let ring = |way| Vring::new(memory, 2 * u64::from(pair) + way);
        Self { rings: [ring(0), ring(1)], free: (0..SIZE).collect(), next: 0 }
    }

    fn offer_all(&mut self, memory: &Memory, at: u64) {
        (0..SIZE).for_each(|id| self.offer(memory, at, id));
        self.rings[0].ring.publish();
    }

    fn offer(&mut self, memory: &Memory, at: u64, id: u16) {
        let address = memory.buffer(2 * at, id);
        self.rings[0].ring.post(Post { id, address, len: ROOM, direction: Direction::Write });
    }
}

impl<R: DriverRing> Vring<R> {
    fn new(memory: &Memory, index: u64) -> Self {
        let ring = R::new(&memory.layout(index), &memory.map).unwrap();
        Self { ring, kick: event(), call: event() }
    }

    fn setup(&self, layout: &ring::Layout) -> VringSetup<'_> {
        VringSetup {
            size: layout.size,
            descriptors: layout.descriptors,
            driver: layout.driver,
            device: layout.device,
            base: layout.base,
            kick: Some(self.kick.as_fd()),
            call: Some(self.call.as_fd()),
        }
    }

    fn kick(&mut self) {
        if self.ring.should_kick() {
            // If the counter is full, a kick is already pending.
            let _ = rustix::io::write(&self.kick, &1u64.to_ne_bytes());
        }
    }
}
