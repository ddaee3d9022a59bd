//! A guest device: setup over vhost-user, queue pairs, polling loop.

use super::buffers::{Buffers, STRIDE};
use super::frames::frame;
use super::memory::Memory;
use super::{Descriptors, Flows, GuestConfig, GuestError, Mode};
use core::sync::atomic::{Ordering, fence};
use port::vhost::Features;
use port::virtio_user::{FrontEnd, VringSetup};
use ring::Layout;
use ring::driver::{DriverRing, Packed, Split, Used};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};

/// Packets per burst.
const BURST: usize = 64;

/// Counters of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuestStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received, frames without checksum.
    pub rx_bytes: u64,
    /// Packets sent, counted when the back end has returned the buffers.
    pub tx_packets: u64,
    /// Polls of a receive queue.
    pub polls: u64,
    /// Polls that found no packet.
    pub empty_polls: u64,
}

/// A connected guest. The caller must call [`GuestDevice::step`] in a loop. The device has no clock: the caller detects
/// that no packets arrive and calls [`GuestDevice::replace_lost`].
pub trait GuestDevice: Send {
    /// Polls every queue once. Returns whether any work was done.
    fn step(&mut self) -> Result<bool, GuestError>;
    /// The counters.
    fn stats(&self) -> GuestStats;
    /// Replaces lost circulating frames, to be called if none has arrived for long: sends one frame per queue pair and,
    /// once any frame arrives, all others.
    fn replace_lost(&mut self);
    /// Whether the back end has closed the connection.
    fn is_closed(&self) -> bool;
    /// Stops the rings. Returns the final index of each ring.
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

/// A ring with its kick and call eventfds.
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

    /// Kicks if the back end requests it. The caller must have executed a fence since the last publish.
    #[inline]
    fn kick(&mut self) {
        if self.ring.should_kick() {
            // A saturated counter means that a kick is already pending.
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
    /// Generated packets not in any ring: buffer and length in bytes, header included. In a circulating mode one is
    /// kept in reserve, to restart circulation after a loss.
    pending: Vec<(u16, u32)>,
    /// Lengths in bytes of the generated packets, by buffer; for transmit-only mode, which resends them.
    lens: Vec<u32>,
    /// Number of the next packet in the order of flows.
    next: usize,
}

struct Device<R> {
    front_end: FrontEnd,
    config: GuestConfig,
    pairs: Vec<Pair<R>>,
    stats: GuestStats,
    /// Number of circulating packets without loss; 0 in modes that return none.
    circulation: u32,
    /// Packets still to be put into circulation.
    to_send: u32,
    /// After a loss: `rx_packets` at that time. Nothing is sent until the counter advances.
    lost_at: Option<u64>,
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
        let kept: usize = pairs.iter().map(|pair| pair.pending.len().saturating_sub(1)).sum();
        let to_send = config.packets.min(kept as u32);
        let circulates = matches!(config.mode, Mode::MacSwap | Mode::Io);
        Ok(Self {
            front_end,
            config: config.clone(),
            pairs,
            stats: GuestStats::default(),
            circulation: if circulates { to_send } else { 0 },
            to_send,
            lost_at: None,
            _memory: memory,
        })
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
        let each =
            config.packets.div_ceil(config.queue_pairs.into()).min(u32::from(buffers.len() / 2)) as u16;
        let kept = match config.mode {
            Mode::TxOnly => buffers.len(),
            _ if each == 0 => 0,
            _ => each + 1,
        };
        let pending = (0..kept).map(|id| (id, make(config, &buffers, id))).collect::<Vec<_>>();
        (kept..buffers.len()).for_each(|id| buffers.offer(&mut rx.ring, id));
        rx.ring.publish();
        let lens = pending.iter().map(|m| m.1).collect();
        Ok(Pair { rx, tx, buffers, pending, lens, next: 0 })
    }

    /// Sends generated packets: a fixed number into circulation, or continuously in transmit-only mode.
    fn originate(&mut self, at: usize) -> bool {
        let forever = self.config.mode == Mode::TxOnly;
        let pair = &mut self.pairs[at];
        let most = if forever {
            BURST
        } else if self.to_send == 0 || self.lost_at == Some(self.stats.rx_packets) {
            0
        } else {
            pair.pending.len().saturating_sub(1).min(self.to_send as usize).min(BURST)
        };
        let mut sent = 0;
        while sent < most && pair.send_made() {
            sent += 1;
        }
        if !forever {
            self.to_send -= sent as u32;
        }
        sent > 0
    }

    /// Number of returned buffers to refill with generated packets.
    #[inline]
    fn missing(&self, at: usize) -> usize {
        if self.circulation == 0 {
            return 0;
        }
        (self.to_send as usize + 1).saturating_sub(self.pairs[at].pending.len())
    }

    fn step_pair(&mut self, at: usize) -> Result<bool, GuestError> {
        let mut worked = self.originate(at);
        let missing = self.missing(at);
        let pair = &mut self.pairs[at];
        worked |= pair.reclaim(&self.config, missing, &mut self.stats)?;
        worked |= pair.receive(&self.config, &mut self.stats)?;
        if worked {
            pair.publish();
        }
        Ok(worked)
    }
}

impl<R: DriverRing> Pair<R> {
    #[inline(always)]
    fn send(&mut self, id: u16, len: u32) {
        self.buffers.send(&mut self.tx.ring, id, len);
    }

    /// Sends a pending generated packet. Returns false if there is none or the ring is full.
    fn send_made(&mut self) -> bool {
        if self.buffers.room(&self.tx.ring) == 0 {
            return false;
        }
        let Some((id, len)) = self.pending.pop() else { return false };
        self.send(id, len);
        true
    }

    /// Publishes the posted buffers and kicks.
    #[inline]
    fn publish(&mut self) {
        self.rx.ring.publish();
        self.tx.ring.publish();
        // Orders the stores of available indices before the loads of the device's suppression fields.
        fence(Ordering::SeqCst);
        self.rx.kick();
        self.tx.kick();
    }

    /// Reclaims sent buffers and posts them for reception, except `missing` of them, which are refilled with generated
    /// packets.
    #[inline]
    fn reclaim(
        &mut self,
        config: &GuestConfig,
        missing: usize,
        stats: &mut GuestStats,
    ) -> Result<bool, GuestError> {
        let mut used = [Used::default(); BURST];
        let n = self.tx.ring.take(&mut used)?;
        if config.mode == Mode::TxOnly {
            self.pending.extend(used[..n].iter().map(|u| (u.id, self.lens[usize::from(u.id)])));
        } else {
            let (lost, others) = used[..n].split_at(missing.min(n));
            self.pending.extend(lost.iter().map(|u| (u.id, make(config, &self.buffers, u.id))));
            self.buffers.offer_each(&mut self.rx.ring, others.iter().map(|u| u.id));
        }
        stats.tx_packets += n as u64;
        Ok(n > 0)
    }

    #[inline]
    fn receive(&mut self, config: &GuestConfig, stats: &mut GuestStats) -> Result<bool, GuestError> {
        let mut used = [Used::default(); BURST];
        let room =
            if config.mode == Mode::RxOnly { BURST } else { self.buffers.room(&self.tx.ring).min(BURST) };
        let n = self.rx.ring.take(&mut used[..room])?;
        stats.polls += 1;
        stats.empty_polls += u64::from(n == 0);
        for u in &used[..n] {
            self.buffers.prefetch(u.id);
        }
        let header = self.buffers.header();
        stats.rx_bytes += used[..n].iter().map(|u| u64::from(u.len.saturating_sub(header))).sum::<u64>();
        self.send_back(config, &used[..n]);
        stats.rx_packets += n as u64;
        Ok(n > 0)
    }

    #[inline(always)]
    fn send_back(&mut self, config: &GuestConfig, used: &[Used]) {
        match config.mode {
            Mode::MacSwap => {
                for u in used {
                    self.buffers.swap_addresses(u.id);
                }
                if let Some(flows) = &config.flows {
                    self.set_flows(flows, used);
                }
                self.buffers.send_each(&mut self.tx.ring, used.iter().copied());
            }
            Mode::Io => self.buffers.send_each(&mut self.tx.ring, used.iter().copied()),
            Mode::RxOnly | Mode::TxOnly => {
                self.buffers.offer_each(&mut self.rx.ring, used.iter().map(|u| u.id));
            }
        }
    }
}

impl<R: DriverRing> Pair<R> {
    fn set_flows(&mut self, flows: &Flows, used: &[Used]) {
        for u in used {
            self.buffers.set_ports(u.id, flows.nth(self.next));
            self.next = flows.after(self.next);
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

    fn replace_lost(&mut self) {
        if self.circulation == 0 {
            return;
        }
        let sent = self.pairs.iter_mut().filter_map(|pair| pair.send_made().then(|| pair.publish())).count();
        self.to_send = self.circulation.saturating_sub(sent as u32);
        self.lost_at = Some(self.stats.rx_packets);
    }

    fn is_closed(&self) -> bool {
        self.front_end.is_closed()
    }

    fn unplug(mut self: Box<Self>) -> Result<Vec<u32>, GuestError> {
        Ok(self.front_end.stop()?)
    }
}

/// Writes packet number `id` into the buffer of that number. Returns its length in bytes, header included. A packet of
/// the first flow, if there are flows: one of no flow might be dropped, and would never return.
fn make(config: &GuestConfig, buffers: &Buffers, id: u16) -> u32 {
    let size = config.sizes.nth(usize::from(id));
    buffers.fill(id, &frame(size, config.peer, config.mac, id));
    if let Some(flows) = &config.flows {
        buffers.set_ports(id, flows.nth(0));
    }
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
