//! A guest that sends on request and counts received frames.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use port::vhost::Features;
use port::vhost_user::setup::QueueSetup;
use port::virtio_user::{FrontEnd, VringSetup};
use ring::Direction;
use ring::driver::{DriverRing, Packed, Post, Split, Used};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

use crate::memory::{GuestRing, HEADER, Memory};
use port::virtio_user::RingKind;

/// Timeout of one answer of the back end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Guest side of one queue pair.
pub trait Guest: Send {
    /// Posts a frame of `len` bytes; returns `false` if no buffer is free.
    fn send(&mut self, destination: Mac, source: Mac, len: usize) -> bool;
    /// Publishes the posted frames.
    fn publish(&mut self);
    /// Reclaims sent buffers, counts received ones and reposts them. Returns the number received.
    fn collect(&mut self) -> Result<usize>;
    /// The rings as seen by a switch in this process: the one it receives from, the one it sends to.
    fn setups(&self) -> Result<[QueueSetup; 2]>;
    /// Connects to the switch listening at `socket`; the connection lasts as long as the guest.
    fn plug_in(&mut self, socket: &Path) -> Result<()>;
    /// Kicks the switch if it requests that.
    fn kick(&mut self);
}

/// A guest with rings of `size` entries, a power of two.
pub fn guest(ring: RingKind, size: u16) -> Result<Box<dyn Guest>> {
    guest_of(ring, size, None)
}

/// As [`guest`]; with `merged`, frames may span several receive buffers of this many bytes, header included.
pub fn guest_of(ring: RingKind, size: u16, merged: Option<u32>) -> Result<Box<dyn Guest>> {
    if ring.is_packed() {
        return Ok(Box::new(Device::<Packed>::new(ring, size, merged)?));
    }
    Ok(Box::new(Device::<Split>::new(ring, size, merged)?))
}

struct Device<R> {
    kind: RingKind,
    /// Bytes per receive buffer, if frames may span several.
    merged: Option<u32>,
    memory: Memory,
    receive: R,
    send: R,
    /// Free buffers of the transmit ring.
    free: Vec<u16>,
    kicks: [OwnedFd; 2],
    front_end: Option<FrontEnd>,
}

fn features(ring: RingKind) -> Features {
    let packed = if ring.is_packed() { Features::RING_PACKED } else { 0 };
    let in_order = if ring.is_in_order() { Features::IN_ORDER } else { 0 };
    Features(Features::VERSION_1 | packed | in_order)
}

impl<R: DriverRing> Device<R> {
    fn new(kind: RingKind, size: u16, merged: Option<u32>) -> Result<Self> {
        let memory = Memory::new(size)?;
        let ring = |way| R::new(&memory.layout(way, kind), &memory.map);
        let (receive, send) = (ring(GuestRing::Receive)?, ring(GuestRing::Send)?);
        let event = || eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let kicks = [event()?, event()?];
        let free = (0..size).rev().collect();
        let mut device = Self { kind, merged, memory, receive, send, free, kicks, front_end: None };
        (0..size).for_each(|id| device.offer(id));
        device.receive.publish();
        Ok(device)
    }

    fn offer(&mut self, id: u16) {
        let (address, whole) = self.memory.buffer(GuestRing::Receive, id);
        let len = self.merged.unwrap_or(whole).min(whole);
        self.receive.post(Post { id, address, len, direction: Direction::Write });
    }

    fn features(&self) -> Features {
        let merged = if self.merged.is_some() { Features::MRG_RXBUF } else { 0 };
        Features(features(self.kind).0 | merged)
    }

    fn setup(&self, way: GuestRing) -> Result<QueueSetup> {
        let layout = self.memory.layout(way, self.kind);
        Ok(QueueSetup {
            memory: self.memory.cell()?,
            size: layout.size,
            descriptors: layout.descriptors,
            driver: layout.driver,
            device: layout.device,
            base: layout.base,
            features: self.features(),
            record: None,
            log: None,
            kick: None,
            call: None,
        })
    }

    fn vring(&self, way: GuestRing, base: u32) -> VringSetup<'_> {
        let layout = self.memory.layout(way, self.kind);
        VringSetup {
            size: layout.size,
            descriptors: layout.descriptors,
            driver: layout.driver,
            device: layout.device,
            base,
            kick: Some(self.kicks[way as usize].as_fd()),
            call: None,
        }
    }
}

impl<R: DriverRing> Guest for Device<R> {
    fn send(&mut self, destination: Mac, source: Mac, len: usize) -> bool {
        let Some(id) = self.free.pop() else { return false };
        // UDP over IPv4, which flow tables parse. Checksums are left 0: no bridge looks at them.
        let mut start = [0; 42];
        start[..6].copy_from_slice(&destination);
        start[6..12].copy_from_slice(&source);
        start[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
        start[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
        start[22..24].copy_from_slice(&[64, 17]);
        start[26..30].copy_from_slice(&source[2..]);
        start[30..34].copy_from_slice(&destination[2..]);
        start[38..40].copy_from_slice(&(len as u16 - 34).to_be_bytes());
        self.memory.write(id, &start);
        let address = self.memory.buffer(GuestRing::Send, id).0;
        self.send.post(Post { id, address, len: len as u32 + HEADER as u32, direction: Direction::Read });
        true
    }

    fn publish(&mut self) {
        self.send.publish();
    }

    fn collect(&mut self) -> Result<usize> {
        let mut used = [Used::default(); 64];
        loop {
            let n = self.send.take(&mut used)?;
            self.free.extend(used[..n].iter().map(|u| u.id));
            if n < used.len() {
                break;
            }
        }
        let mut arrived = 0;
        loop {
            let n = self.receive.take(&mut used)?;
            used[..n].iter().for_each(|u| self.offer(u.id));
            arrived += n;
            if n < used.len() {
                break;
            }
        }
        self.receive.publish();
        Ok(arrived)
    }

    fn setups(&self) -> Result<[QueueSetup; 2]> {
        Ok([self.setup(GuestRing::Send)?, self.setup(GuestRing::Receive)?])
    }

    fn plug_in(&mut self, socket: &Path) -> Result<()> {
        let mut front_end = FrontEnd::connect(socket, TIMEOUT)?;
        let wanted = Features(self.features().0 | Features::PROTOCOL);
        let agreed = front_end.negotiate(wanted)?;
        if !agreed.features.has(self.features().0) {
            return Err(anyhow!("the switch does not offer {} rings", self.kind.name()));
        }
        front_end.share(&[self.memory.shared()]).context("sharing memory")?;
        let base = front_end.fresh_base();
        front_end.start(&[GuestRing::Receive, GuestRing::Send].map(|way| self.vring(way, base)))?;
        self.front_end = Some(front_end);
        Ok(())
    }

    fn kick(&mut self) {
        // Orders the store of the available index before the load of the device's suppression field.
        fence(Ordering::SeqCst);
        for (wanted, kick) in [self.receive.should_kick(), self.send.should_kick()].iter().zip(&self.kicks) {
            if *wanted {
                // A saturated counter means that a kick is already pending.
                let _ = rustix::io::write(kick, &1u64.to_ne_bytes());
            }
        }
    }
}
