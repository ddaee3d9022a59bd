//! A virtio-user port connected to a vhost-user port in one process, without an engine, for measuring the queues burst
//! by burst in either direction.

use anyhow::{Context, Result, ensure};
use mem::copy::{Choice, Kernel};
use mem::{GuestMemory, Region};
use port::vhost_user::fake::FakeEngine;
use port::vhost_user::{self, VhostUser};
use port::virtio_user::{self, RingKind, VirtioUser};
use port::{BURST, Burst, BurstStats, PLACES, PortControl, RxQueue, TxQueue};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Milliseconds after which two connected ports in one process have completed negotiation.
const SETTLED: u32 = 2000;

/// The queues of a port.
pub struct End {
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
}

/// Two connected ports, and the packets sent between them.
pub struct Uplink {
    /// The virtio-user port.
    pub near: End,
    /// The vhost-user port.
    pub far: End,
    _ports: (VirtioUser, VhostUser),
    sent: Burst,
    received: Burst,
}

impl End {
    fn of(engine: &mut FakeEngine) -> Option<Self> {
        Some(Self { rx: engine.rx.remove(&0)?, tx: engine.tx.remove(&0)? })
    }

    /// Sends a full burst. Returns the number of packets processed.
    pub fn send(&mut self, burst: &Burst, stats: &mut BurstStats) -> Result<usize> {
        Ok(self.tx.tx(burst, &PLACES, stats)?)
    }

    /// Receives a burst and returns its buffers.
    pub fn receive<K: Kernel>(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<()> {
        self.rx.rx(burst, stats)?;
        burst.load_heads::<K>();
        self.rx.complete(burst.buf_ids());
        Ok(())
    }
}

impl Uplink {
    /// Connects the two ports over `ring`, for frames of `size` bytes.
    pub fn new(ring: RingKind, queue_size: u16, kernel: Choice, size: usize) -> Result<Self> {
        ensure!(mem::copy::settle(kernel) == kernel, "one process measures one kernel");
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("s");
        let mut far = VhostUser::listen(&path, vhost_user::Options::default())?;
        let mut now = Instant::now();
        let options = virtio_user::Options { ring, queue_size, ..Default::default() };
        let mut near = VirtioUser::connect(&path, options, now)?;
        let mut engines = [FakeEngine::default(), FakeEngine::default()];
        for _ in 0..SETTLED {
            now += Duration::from_millis(1);
            near.handle(now, &mut engines[0]);
            far.handle(now, &mut engines[1]);
        }
        let [first, second] = engines.each_mut().map(End::of);
        let (near_end, far_end) = (first.context("no device runs")?, second.context("no ring runs")?);
        let sent = mem::with_kernel!(kernel, K => burst::<K>(size)?);
        Ok(Self { near: near_end, far: far_end, _ports: (near, far), sent, received: Burst::new() })
    }

    /// Transfers one burst with `send` and `receive`. Returns the number of packets received.
    pub fn cross(
        &mut self,
        outwards: bool,
        send: impl FnOnce(&mut End, &Burst, &mut BurstStats) -> Result<usize>,
        receive: impl FnOnce(&mut End, &mut Burst, &mut BurstStats) -> Result<()>,
    ) -> Result<u64> {
        let Self { near, far, sent, received, .. } = self;
        let (from, to) = if outwards { (near, far) } else { (far, near) };
        let (mut out, mut back) = (BurstStats::default(), BurstStats::default());
        ensure!(send(from, sent, &mut out)? == BURST && out.lost == 0, "the ring is full");
        received.begin(0);
        receive(to, received, &mut back)?;
        ensure!(back.packets == BURST as u64 && back.lost == 0, "not every packet arrived");
        Ok(back.packets)
    }
}

/// A full burst of frames in one segment each.
fn burst<K: Kernel>(size: usize) -> Result<Burst> {
    let map = Arc::new(GuestMemory::new(vec![Arc::new(Region::anonymous((BURST * size) as u64)?)])?);
    let mut burst = Burst::new();
    burst.begin(0);
    burst.pin(&map);
    for i in 0..BURST {
        let seg = map.regions().first().and_then(|region| region.seg((i * size) as u64, size as u32));
        ensure!(burst.push_kept(seg.context("frames lie in their region")?), "a burst has the room");
    }
    burst.load_heads::<K>();
    Ok(burst)
}
