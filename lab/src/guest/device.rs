//! One guest device: queue pairs, the loop over them, and how it plugs in.

use super::buffers::{Buffers, STRIDE};
use super::frames::frame;
use super::memory::Memory;
use super::{Descriptors, GuestConfig, GuestError, Mode};
use core::sync::atomic::{Ordering, fence};
use port::vhost::Features;
use port::virtio_user::{FrontEnd, VringSetup};
use ring::Layout;
use ring::driver::{DriverRing, Packed, Split, Used};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};

/// Packets handled at once.
const BURST: usize = 64;

/// What a guest has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuestStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received, frames without checksum.
    pub rx_bytes: u64,
    /// Packets sent: the back end has taken them and returned the buffers.
    pub tx_packets: u64,
    /// Times a queue was looked at.
    pub polls: u64,
    /// Times it had nothing.
    pub empty_polls: u64,
}

/// A guest that is plugged in. It does nothing by itself: call [`GuestDevice::step`] again and again.
pub trait GuestDevice: Send {
    /// One look at every queue. Whether there was anything to do.
    fn step(&mut self) -> Result<bool, GuestError>;
    /// What was done so far.
    fn stats(&self) -> GuestStats;
    /// Whether the back end has gone away.
    fn is_closed(&self) -> bool;
    /// Stops the rings and says where, ring by ring.
    fn unplug(self: Box<Self>) -> Result<Vec<u32>, GuestError>;
}

/// Negotiates over `front_end`, shares memory and starts the rings.
pub fn plug_in(mut front_end: FrontEnd, config: &GuestConfig) -> Result<Box<dyn GuestDevice>, GuestError> {
    let agreed = front_end.negotiate(wanted(config))?;
    for (bit, name) in needed(config) {
        if !agreed.features.has(bit) {
            return Err(GuestError::Missing(name));
        }
    }
    if agreed.queue_pairs < config.queue_pairs {
        return Err(GuestError::QueuePairs { has: agreed.queue_pairs, wants: config.queue_pairs });
    }
    if config.ring.is_packed() {
        return Ok(Box::new(Device::<Packed>::new(front_end, config)?));
    }
    Ok(Box::new(Device::<Split>::new(front_end, config)?))
}

fn needed(config: &GuestConfig) -> Vec<(u64, &'static str)> {
    let mut needed = config.ring.needs().to_vec();
    if config.descriptors == Descriptors::Indirect {
        needed.push((Features::INDIRECT_DESC, "indirect descriptors"));
    }
    needed
}

fn wanted(config: &GuestConfig) -> Features {
    let mut bits = Features::VERSION_1 | Features::PROTOCOL | Features::EVENT_IDX;
    bits |= needed(config).iter().map(|n| n.0).sum::<u64>();
    if config.mergeable {
        bits |= Features::MRG_RXBUF;
    }
    if config.queue_pairs > 1 {
        bits |= Features::MQ;
    }
    Features(bits)
}

/// A ring with the descriptors that wake either side.
struct Vring<R> {
    ring: R,
    kick: OwnedFd,
    call: OwnedFd,
}

impl<R: DriverRing> Vring<R> {
    fn new(layout: &Layout, memory: &Memory) -> Result<Self, GuestError> {
        let event = || {
            let made = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
            made.map_err(|e| GuestError::Memory(format!("eventfd: {e}")))
        };
        Ok(Self { ring: R::new(layout, &memory.map)?, kick: event()?, call: event()? })
    }

    /// Kicks if the back end wants it. The caller has executed a fence since the last publish.
    #[inline]
    fn kick(&mut self) {
        if self.ring.should_kick() {
            // A full counter is a kick that is already pending.
            let _ = rustix::io::write(&self.kick, &1u64.to_ne_bytes());
        }
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

struct Pair<R> {
    rx: Vring<R>,
    tx: Vring<R>,
    buffers: Buffers,
    /// Buffers that hold a packet of our own making, not in any ring, and their used bytes.
    made: Vec<(u16, u32)>,
    /// Used bytes of each such buffer, for a guest that sends the same ones again.
    lens: Vec<u32>,
}

struct Device<R> {
    front_end: FrontEnd,
    config: GuestConfig,
    pairs: Vec<Pair<R>>,
    stats: GuestStats,
    /// Packets still to be put into circulation.
    to_send: u32,
    _memory: Memory,
}

impl<R: DriverRing> Device<R> {
    fn new(mut front_end: FrontEnd, config: &GuestConfig) -> Result<Self, GuestError> {
        let per_pair = 2 * Layout::bytes(config.queue_size) + u64::from(config.queue_size) * STRIDE;
        let memory = Memory::new(per_pair * u64::from(config.queue_pairs))?;
        let mut pairs = Vec::new();
        let mut layouts = Vec::new();
        for pair in 0..u64::from(config.queue_pairs) {
            let at = pair * per_pair;
            let both = [at, at + Layout::bytes(config.queue_size)].map(|at| layout(config, at, &front_end));
            pairs.push(Self::pair(
                &front_end,
                config,
                &memory,
                &both,
                at + 2 * Layout::bytes(config.queue_size),
            )?);
            layouts.extend(both);
        }
        front_end.share(&[memory.shared()])?;
        let vrings = pairs.iter().flat_map(|p| [&p.rx, &p.tx]);
        let setups: Vec<_> = vrings.zip(&layouts).map(|(vring, layout)| vring.setup(layout)).collect();
        front_end.start(&setups)?;
        let stats = GuestStats::default();
        let to_send = config.packets;
        Ok(Self { front_end, config: config.clone(), pairs, stats, to_send, _memory: memory })
    }

    fn pair(
        front_end: &FrontEnd,
        config: &GuestConfig,
        memory: &Memory,
        layouts: &[Layout; 2],
        buffers_at: u64,
    ) -> Result<Pair<R>, GuestError> {
        let header = front_end.negotiated().features.header_len();
        let mut buffers = Buffers::new(memory, buffers_at, config.queue_size, config.descriptors, header)?;
        let mut rx = Vring::<R>::new(&layouts[0], memory)?;
        let tx = Vring::new(&layouts[1], memory)?;
        let kept = match config.mode {
            Mode::TxOnly => buffers.len(),
            _ => (config.packets.div_ceil(u32::from(config.queue_pairs))).min(u32::from(buffers.len() / 2))
                as u16,
        };
        let made = (0..kept).map(|id| (id, make(config, &buffers, id))).collect::<Vec<_>>();
        (kept..buffers.len()).for_each(|id| buffers.offer(&mut rx.ring, id));
        rx.ring.publish();
        let lens = made.iter().map(|m| m.1).collect();
        Ok(Pair { rx, tx, buffers, made, lens })
    }

    /// Sends packets of our own: a given number into circulation, or without end.
    fn originate(&mut self, at: usize) -> bool {
        let forever = self.config.mode == Mode::TxOnly;
        let pair = &mut self.pairs[at];
        let mut made = 0;
        while (forever || self.to_send > 0) && made < BURST && pair.buffers.room(&pair.tx.ring) > 0 {
            let Some((id, len)) = pair.made.pop() else { break };
            pair.send(id, len);
            self.to_send = self.to_send.saturating_sub(u32::from(!forever));
            made += 1;
        }
        made > 0
    }

    fn step_pair(&mut self, at: usize) -> Result<bool, GuestError> {
        let mut worked = self.originate(at);
        let mode = self.config.mode;
        let pair = &mut self.pairs[at];
        worked |= pair.reclaim(mode, &mut self.stats)?;
        worked |= pair.receive(mode, &mut self.stats)?;
        if worked {
            pair.rx.ring.publish();
            pair.tx.ring.publish();
            // Orders our available indices before our loads of the device's suppression fields.
            fence(Ordering::SeqCst);
            pair.rx.kick();
            pair.tx.kick();
        }
        Ok(worked)
    }
}

impl<R: DriverRing> Pair<R> {
    #[inline(always)]
    fn send(&mut self, id: u16, len: u32) {
        self.buffers.send(&mut self.tx.ring, id, len);
    }

    /// Takes sent buffers back and makes them available for receiving again.
    #[inline]
    fn reclaim(&mut self, mode: Mode, stats: &mut GuestStats) -> Result<bool, GuestError> {
        let mut used = [Used::default(); BURST];
        let n = self.tx.ring.take(&mut used)?;
        for u in &used[..n] {
            if mode == Mode::TxOnly {
                self.made.push((u.id, self.lens[usize::from(u.id)]));
            } else {
                self.buffers.offer(&mut self.rx.ring, u.id);
            }
        }
        stats.tx_packets += n as u64;
        Ok(n > 0)
    }

    #[inline]
    fn receive(&mut self, mode: Mode, stats: &mut GuestStats) -> Result<bool, GuestError> {
        let mut used = [Used::default(); BURST];
        let room = if mode == Mode::RxOnly { BURST } else { self.buffers.room(&self.tx.ring).min(BURST) };
        let n = self.rx.ring.take(&mut used[..room])?;
        stats.polls += 1;
        stats.empty_polls += u64::from(n == 0);
        for u in &used[..n] {
            self.buffers.prefetch(u.id);
        }
        for u in &used[..n] {
            stats.rx_bytes += u64::from(u.len.saturating_sub(self.buffers.header()));
            self.turn_round(mode, *u);
        }
        stats.rx_packets += n as u64;
        Ok(n > 0)
    }

    #[inline(always)]
    fn turn_round(&mut self, mode: Mode, u: Used) {
        match mode {
            Mode::MacSwap => {
                self.buffers.swap_addresses(u.id);
                self.send(u.id, u.len);
            }
            Mode::Io => self.send(u.id, u.len),
            Mode::RxOnly | Mode::TxOnly => {
                self.buffers.offer(&mut self.rx.ring, u.id);
            }
        }
    }
}

impl<R: DriverRing> GuestDevice for Device<R> {
    fn step(&mut self) -> Result<bool, GuestError> {
        let mut worked = false;
        for at in 0..self.pairs.len() {
            worked |= self.step_pair(at)?;
        }
        Ok(worked)
    }

    fn stats(&self) -> GuestStats {
        self.stats
    }

    fn is_closed(&self) -> bool {
        self.front_end.is_closed()
    }

    fn unplug(mut self: Box<Self>) -> Result<Vec<u32>, GuestError> {
        Ok(self.front_end.stop()?)
    }
}

/// Puts packet number `id` into the buffer of that number; its bytes with the header.
fn make(config: &GuestConfig, buffers: &Buffers, id: u16) -> u32 {
    let size = config.sizes.nth(usize::from(id));
    buffers.fill(id, &frame(size, config.peer, config.mac, id));
    size as u32 + buffers.header()
}

fn layout(config: &GuestConfig, at: u64, front_end: &FrontEnd) -> Layout {
    let agreed = front_end.negotiated().features;
    Layout {
        base: front_end.fresh_base(),
        event_idx: agreed.has(Features::EVENT_IDX),
        indirect: agreed.has(Features::INDIRECT_DESC),
        in_order: config.ring.is_in_order(),
        ..Layout::fresh(Memory::user(at), config.queue_size)
    }
}
