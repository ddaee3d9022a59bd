//! Runs the model of linerate's switch beside the worker that it models.
//!
//! Both have the same rings and buffers at the same addresses, and the same entries are posted to them: the model's
//! guest posts, and a real driver mirrors it. In each round, the model must touch the lines of rings and buffers that
//! `mem::record` finds in the worker, in the same order. The switch's own memory and its number of instructions are not
//! compared.

use super::guest::Guest;
use super::linerate::Linerate;
use super::places::{BUFFER, NET_HEADER, PACKET_AT, Places};
use super::virtqueue::{RingKind, Virtqueue};
use super::{Counts, Path, Scheme};
use crate::recorder::{Recorder, Touch, of_code, touches};
use engine::bench::{StepConfig, SteppedWorker};
use engine::{Context, Pipeline, Verdicts};
use mem::record::record;
use mem::{GuestMemory, MemTable, Region};
use port::vhost::Features;
use port::vhost_user::QUEUES;
use port::vhost_user::setup::QueueSetup;
use port::{Burst, EditId, PortId};
use ring::driver::{DriverRing, Packed, Post, Split, Used};
use ring::{Direction, Layout};
use sim::memory::{Address, LINE, Memory, Width};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Sends every packet to the other of two ports.
struct Cross;

impl Pipeline for Cross {
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        verdicts.emit_run(0..burst.len(), PortId(1 - context.from.0), EditId::NONE);
    }
}

/// The driver's end of a real ring, which posts the buffers that the model's guest posts.
struct Mirror<R> {
    queue: Virtqueue,
    ring: R,
    posted: u64,
    length: u32,
    direction: Direction,
}

impl<R: DriverRing> Mirror<R> {
    /// Reclaims what the worker used, and posts the model's entries up to `to`.
    fn follow(&mut self, model: &mut Recorder, to: u64) {
        let mut used = [Used::default(); 64];
        while self.ring.take(&mut used).expect("valid used entries") == used.len() {}
        for n in self.posted..to {
            let id = (n % self.queue.entries) as u16;
            let address = model.load(self.queue.descriptor(n), Width::Eight);
            self.ring.post(Post { id, address, len: self.length, direction: self.direction });
        }
        self.posted = to;
        self.ring.publish();
    }
}

/// Both switches, with their memories.
struct Pair<R> {
    path: Path,
    places: Places,
    model: Recorder,
    guest: Guest,
    switch: Linerate,
    region: Arc<Region>,
    worker: SteppedWorker,
    /// Receive and transmit ring of each port.
    mirrors: [[Mirror<R>; 2]; 2],
}

fn layout(queue: &Virtqueue) -> Layout {
    let [descriptors, driver, device] = queue.areas();
    let base = if queue.kind == RingKind::Packed { 0x8000_8000 } else { 0 };
    let size = queue.entries as u16;
    Layout { size, descriptors, driver, device, base, event_idx: false, indirect: false, in_order: true }
}

fn setup(queue: &Virtqueue, region: &Arc<Region>) -> QueueSetup {
    let Layout { size, descriptors, driver, device, base, .. } = layout(queue);
    let packed = if queue.kind == RingKind::Packed { Features::RING_PACKED } else { 0 };
    let features = Features(Features::VERSION_1 | Features::IN_ORDER | packed);
    let memory = Arc::new(MemTable::new(GuestMemory::new(vec![region.clone()]).unwrap()));
    QueueSetup {
        memory,
        size,
        descriptors,
        driver,
        device,
        base,
        features,
        record: None,
        log: None,
        kick: None,
        call: None,
    }
}

impl<R: DriverRing> Pair<R> {
    fn new(path: Path) -> Pair<R> {
        let places = Places::new(&path);
        let region = Arc::new(Region::heap(0, 0, places.bytes));
        let map = Arc::new(GuestMemory::new(vec![region.clone()]).unwrap());
        let kernel = mem::copy::chosen();
        let config = StepConfig { max_ports: 2, kernel, ticks_per_ns: f64::INFINITY };
        let mut worker = SteppedWorker::new(&config, Box::new(Cross)).unwrap();
        let mirrors = [0, 1].map(|port: usize| {
            let (receive, transmit) = (places.receive[port], places.transmit[port]);
            let [rx, tx] = [setup(&transmit, &region), setup(&receive, &region)];
            worker.start(PortId(port as u16), (QUEUES.rx)(&rx).unwrap(), (QUEUES.tx)(&tx).unwrap());
            let mirror = |queue: Virtqueue, length: u64, direction| {
                let ring = R::new(&layout(&queue), &map).unwrap();
                Mirror { queue, ring, posted: 0, length: length as u32, direction }
            };
            let room = BUFFER - PACKET_AT + NET_HEADER;
            [
                mirror(receive, room, Direction::Write),
                mirror(transmit, path.frame + NET_HEADER, Direction::Read),
            ]
        });
        Pair {
            path,
            model: Recorder::new(places.bytes),
            guest: Guest::new(&path, &places, Counts::of(&path)),
            switch: Linerate::new(&path, &places, Counts::of(&path)),
            places,
            region,
            worker,
            mirrors,
        }
    }

    fn mirror(&mut self) {
        for (port, mirrors) in self.mirrors.iter_mut().enumerate() {
            let posted = self.guest.posted(port);
            for (mirror, to) in mirrors.iter_mut().zip(posted) {
                mirror.follow(&mut self.model, to);
            }
        }
    }

    /// Runs one round of both switches; returns the touches of rings and buffers by model and code.
    fn round(&mut self) -> [Vec<Touch>; 2] {
        self.model.take();
        self.switch.round(&mut self.model);
        let model: Vec<_> =
            self.model.take().into_iter().filter(|(_, at, _)| *at < self.places.own).collect();
        let ((), accesses) = record(|| {
            self.worker.round();
        });
        assert!(self.worker.fault().is_none());
        let area = (self.region.seg(0, 1).unwrap().addr(), self.places.own as usize, 0);
        [touches(&model), touches(&of_code(&accesses, &[area]))]
    }

    /// Writes to memory what an earlier lap leaves there: the buffer count of every header, and the used elements of
    /// the guest's receive rings.
    fn leave_lap(&mut self) {
        for buffer in self.places.guest_buffers() {
            store(&self.region, buffer + PACKET_AT - 2, 1);
        }
        for queue in self.places.receive.iter().filter(|queue| queue.kind == RingKind::Split) {
            for n in 0..queue.entries {
                self.model.store(queue.used_entry(n), Width::Four, n);
                store(&self.region, queue.used_entry(n), n);
                store(&self.region, queue.used_entry(n) + 4, self.path.frame + NET_HEADER);
            }
        }
    }

    /// Compares the touches of one round, with their order.
    fn validate(&self, round: u64, model: &[Touch], code: &[Touch]) {
        let name = |touch: Option<&Touch>| {
            touch.map(|(op, line)| format!("{op:?} of line {line}, {:?}", self.places.name(line * LINE)))
        };
        if let Some(n) = (0..model.len().max(code.len())).find(|n| model.get(*n) != code.get(*n)) {
            let (model, code) = (name(model.get(n)), name(code.get(n)));
            panic!("{:?}, round {round}, touch {n}: the model has {model:?}, the code {code:?}", self.path);
        }
    }

    /// Compares `rounds` rounds after the first, in which the code has no translated window yet.
    fn compare(mut self, rounds: u64) {
        self.leave_lap();
        self.guest.begin(&mut self.model);
        self.mirror();
        self.round();
        for round in 1..=rounds {
            let [model, code] = self.round();
            self.validate(round, &model, &code);
            self.guest.round(&mut self.model);
            self.mirror();
        }
        let counts = self.worker.counts();
        assert_eq!((counts.sent, counts.dropped), (self.switch.forwarded, 0));
    }
}

/// Stores 16 bits in a region whose addresses start at zero.
fn store(region: &Region, at: Address, value: u64) {
    let seg = region.seg(at, 2).expect("an address of the arena");
    // SAFETY: the region is alive; the two bytes are inside it and aligned.
    unsafe { seg.store_u16(0, value as u16, Ordering::Relaxed) };
}

fn compare(frame: u64, frames: u64, rounds: u64) {
    let path = |ring| Path { entries: 256, frames, ..Path::new(Scheme::Linerate, ring, frame) };
    Pair::<Split>::new(path(RingKind::Split)).compare(rounds);
    Pair::<Packed>::new(path(RingKind::Packed)).compare(rounds);
}

#[test]
fn each_round_touches_the_same_lines_as_the_worker() {
    compare(64, 128, 40);
    compare(64, 32, 8);
}

/// Only a few rounds: later the worker's scheduler, which the model does not have, skips a queue.
#[test]
fn long_frames_touch_the_same_lines_as_in_the_worker() {
    compare(1514, 128, 3);
}
