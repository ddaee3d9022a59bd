//! A device of an attack: memory, two rings, and turns of at most a burst.

use super::super::GuestError;
use super::arena::{Area, Arena};
use super::frames::HEADER;
use super::group::Unit;
use super::plan::{Pace, Piece, Plan, Receive};
use super::replay::{DESC, Desc, INDIRECT, NEXT, Replay, WRITE};
use core::sync::atomic::{Ordering, fence};
use port::vhost::Features;
use port::virtio_user::{FrontEnd, RingKind, VringSetup};
use ring::Layout;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};

/// Chains and descriptors per turn, at most; the same as a greedy sender.
const BURST: usize = 64;
const BUDGET: usize = 256;
/// Alignment of areas.
const ALIGN: u64 = 4096;
/// Offset of a frame's source address, behind the virtio-net header.
const SOURCE: usize = HEADER + 6;
/// Offset of `num_buffers` in a virtio-net header.
const BUFFERS: usize = 10;

/// Counters of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Chains that the switch took and returned.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
    /// Frames received that were addressed to another guest.
    pub foreign: u64,
    /// Kicks sent.
    pub kicks: u64,
}

/// A ring with its kick and call eventfds.
struct Line {
    ring: Replay,
    kick: OwnedFd,
    call: OwnedFd,
}

/// A connected device of an attack.
pub(super) struct Device {
    front_end: FrontEnd,
    tx: Line,
    rx: Line,
    plan: Plan,
    own: [u8; 6],
    buffers: Area,
    image: Area,
    counts: Counts,
    /// Remaining receive buffers of a frame that spans several.
    rest: u16,
    pace: Pace,
    rng: fastrand::Rng,
    _arena: Arena,
}

/// Offsets of the areas in the first region.
struct Map {
    rx: u64,
    tx: u64,
    buffers: u64,
    image: u64,
    tables: u64,
    end: u64,
}

impl Map {
    fn of(plan: &Plan) -> Self {
        let mut end = 0;
        let mut take = |bytes: u64| {
            let at = end;
            end = (end + bytes).next_multiple_of(ALIGN);
            at
        };
        let tables = plan.variants.iter().map(|chain| (chain.len() * DESC) as u64).sum();
        let room = u64::from(plan.receive.entries) * u64::from(plan.receive.bytes);
        Self {
            rx: take(Layout::bytes(plan.receive.entries)),
            tx: take(Layout::bytes(plan.entries)),
            buffers: take(room),
            image: take(plan.image.len().max(1) as u64),
            tables: take(tables),
            end,
        }
    }
}

impl Device {
    /// Negotiates over `front_end`, shares memory and starts the rings. `anyway`: proceed even if the switch lacks
    /// features that the attack needs.
    pub(super) fn plug_in(
        mut front_end: FrontEnd,
        plan: &Plan,
        kind: RingKind,
        own: [u8; 6],
        anyway: bool,
    ) -> Result<Self, GuestError> {
        negotiate(&mut front_end, plan, kind, anyway)?;
        let map = Map::of(plan);
        let arena = Arena::new(plan.regions, map.end)?;
        arena.fill(map.image, &plan.image)?;
        let layouts = [(map.rx, plan.receive.entries), (map.tx, plan.entries)].map(|(at, size)| Layout {
            base: front_end.fresh_base(),
            in_order: kind.is_in_order(),
            ..Layout::fresh(super::super::memory::Memory::user(at), size)
        });
        let packed = kind.is_packed();
        let chains = transmit(plan, &arena, &map, packed)?;
        let rx = Line::new(&arena, map.rx, &layouts[0], packed, receive(plan.receive, &arena, map.buffers))?;
        let tx = Line::new(&arena, map.tx, &layouts[1], packed, chains)?;
        let room = u64::from(plan.receive.entries) * u64::from(plan.receive.bytes);
        let (buffers, image) =
            (arena.area(map.buffers, room)?, arena.area(map.image, plan.image.len().max(1) as u64)?);
        front_end.share(&arena.shared())?;
        front_end.start(&[rx.setup(&layouts[0]), tx.setup(&layouts[1])])?;
        let (plan, pace) = (plan.clone(), Pace::of(plan));
        let (counts, rng) = (Counts::default(), fastrand::Rng::with_seed(1));
        let mut device =
            Self { front_end, tx, rx, plan, own, buffers, image, counts, rest: 0, pace, rng, _arena: arena };
        device.rx.ring.post(usize::MAX, usize::MAX, |_| {});
        device.kick();
        Ok(device)
    }

    fn receive(&mut self) -> Result<usize, GuestError> {
        if !self.plan.receive.returns {
            return Ok(0);
        }
        let mut back = [0; BURST];
        let n = take(&mut self.rx.ring, &mut back)?;
        for &buffer in &back[..n] {
            self.look(buffer);
            self.rx.ring.release(buffer);
        }
        if n > 0 {
            self.rx.ring.post(BURST, BUDGET, |_| {});
        }
        Ok(n)
    }

    /// Counts the frame in a receive buffer.
    fn look(&mut self, buffer: u16) {
        let bytes = self.plan.receive.bytes as usize;
        if self.rest > 0 {
            self.rest -= 1;
            return;
        }
        self.counts.received += 1;
        if bytes < SOURCE {
            return;
        }
        let at = usize::from(buffer) * bytes;
        self.rest = self.buffers.load16(at + BUFFERS, Ordering::Relaxed).saturating_sub(1);
        let (low, high) = (self.buffers.load32(at + HEADER, Ordering::Relaxed), at + HEADER + 4);
        let high = self.buffers.load16(high, Ordering::Relaxed);
        let mut to = [0; 6];
        to[..4].copy_from_slice(&low.to_le_bytes());
        to[4..].copy_from_slice(&high.to_le_bytes());
        self.counts.foreign += u64::from(to[0] & 1 == 0 && to != self.own);
    }

    fn send(&mut self) -> usize {
        let most = self.pace.allowed(BURST);
        if most == 0 {
            return 0;
        }
        let Self { plan, image, rng, tx, .. } = self;
        tx.ring.post(most, BUDGET, |chain| {
            if plan.random_source {
                let piece = plan.variants[usize::from(chain) % plan.variants.len()][0];
                let at = piece.at as usize + SOURCE;
                // Locally administered unicast address.
                image.store16(at, 0x02 | (rng.u16(..) & 0xff00), Ordering::Relaxed);
                image.store16(at + 2, rng.u16(..), Ordering::Relaxed);
                image.store16(at + 4, rng.u16(..), Ordering::Relaxed);
            }
        })
    }

    fn kick(&mut self) {
        // Orders the posted chains before the loads of the device's suppression fields.
        fence(Ordering::SeqCst);
        for line in [&self.rx, &self.tx] {
            if self.plan.kicks || line.ring.wants_kick() {
                // A saturated counter means that a kick is already pending.
                let _ = rustix::io::write(&line.kick, &1u64.to_ne_bytes());
                self.counts.kicks += 1;
            }
        }
    }
}

impl Unit for Device {
    #[inline]
    fn step(&mut self) -> Result<(), GuestError> {
        let came = self.receive()?;
        let mut back = [0; BURST];
        let n = take(&mut self.tx.ring, &mut back)?;
        back[..n].iter().for_each(|chain| self.tx.ring.release(*chain));
        self.counts.sent += n as u64;
        let sent = self.send();
        if came + sent > 0 || self.plan.kicks {
            self.kick();
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn is_closed(&self) -> bool {
        self.front_end.is_closed()
    }
}

fn take(ring: &mut Replay, back: &mut [u16; BURST]) -> Result<usize, GuestError> {
    let mut n = 0;
    ring.take(BURST, |chain| {
        back[n] = chain;
        n += 1;
    })?;
    Ok(n)
}

fn negotiate(front_end: &mut FrontEnd, plan: &Plan, kind: RingKind, anyway: bool) -> Result<(), GuestError> {
    let base = Features::VERSION_1 | Features::PROTOCOL | Features::MRG_RXBUF;
    let needs = || kind.needs().iter().chain(plan.needs);
    let agreed = front_end.negotiate(Features(needs().fold(base, |bits, need| bits | need.0)))?;
    if let Some(need) = kind.needs().iter().find(|need| !agreed.features.has(need.0)) {
        return Err(GuestError::Missing(need.1));
    }
    let missing = plan.needs.iter().find(|need| !agreed.features.has(need.0));
    missing.filter(|_| !anyway).map_or(Ok(()), |need| Err(GuestError::NotOffered(need.1)))
}

/// Receive chains of one buffer each.
fn receive(receive: Receive, arena: &Arena, at: u64) -> Vec<Vec<Desc>> {
    let len = receive.bytes;
    let buffer = |n: u16| {
        let address = arena.guest(0, at + u64::from(n) * u64::from(len));
        vec![Desc { address, len, flags: WRITE }]
    };
    (0..receive.entries).map(buffer).collect()
}

/// Transmit chains. With indirect tables, the tables are written to memory and each chain is one descriptor.
fn transmit(plan: &Plan, arena: &Arena, map: &Map, packed: bool) -> Result<Vec<Vec<Desc>>, GuestError> {
    let desc = |(n, piece): (usize, &Piece)| Desc {
        address: arena.guest(n, map.image + u64::from(piece.at)),
        len: piece.len,
        flags: 0,
    };
    let chains = plan.variants.iter().map(|pieces| pieces.iter().enumerate().map(desc).collect());
    if !plan.tables {
        return Ok(chains.collect());
    }
    let mut at = map.tables;
    let mut heads = Vec::new();
    for chain in chains {
        let table = table(&chain, packed);
        arena.fill(at, &table)?;
        let len = table.len() as u32;
        heads.push(vec![Desc { address: arena.guest(0, at), len, flags: INDIRECT }]);
        at += u64::from(len);
    }
    Ok(heads)
}

/// An indirect table as bytes (sections 2.7.5.3 and 2.8.7).
fn table(chain: &[Desc], packed: bool) -> Vec<u8> {
    let entry = |(k, desc): (usize, &Desc)| {
        let joined = if packed || k + 1 == chain.len() { 0 } else { NEXT };
        let next = if joined == 0 { 0 } else { k as u64 + 1 };
        let flags = u64::from(desc.flags | joined);
        let word = if packed { flags << 48 } else { flags << 32 | next << 48 };
        [desc.address.to_le_bytes(), (u64::from(desc.len) | word).to_le_bytes()].concat()
    };
    chain.iter().enumerate().flat_map(entry).collect()
}

impl Line {
    fn new(
        arena: &Arena,
        at: u64,
        layout: &Layout,
        packed: bool,
        chains: Vec<Vec<Desc>>,
    ) -> Result<Self, GuestError> {
        let event = || {
            let made = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
            made.map_err(|e| GuestError::Memory(format!("eventfd: {e}")))
        };
        let ring = Replay::new(arena, at, layout, packed, chains)?;
        Ok(Self { ring, kick: event()?, call: event()? })
    }

    fn setup<'a>(&'a self, layout: &Layout) -> VringSetup<'a> {
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
}
