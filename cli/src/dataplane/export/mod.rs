//! Export of sampled packets and counters (sFlow, IPFIX): `bridge` encodes them, `collector` sends them, `ports` knows
//! the interfaces.
//!
//! Workers sample packets into bounded queues. One thread takes the samples and sends datagrams by sockets that do not
//! wait. It starts if a bridge has export; without one, the pipelines are those without sampling. No worker waits for
//! it.

mod bridge;
mod collector;
mod ports;

use super::export_report::{ExportReport, InterfaceReport};
use crate::settings::MAX_PORTS;
use crate::settings::topology::{PortSettings, Topology};
use crate::settings::vlan::Vlan;
use ::export::sample::{MAX_HEADER, PortSampling, Sample, Sampling};
use bridge::BridgeExport;
use engine::PortSnapshot;
use port::{Pipelines, PortId};
use ports::{ExportedPort, Ports, interface};
use rustix::rand::GetRandomFlags;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pauses between two rounds of the thread: after samples, so that a queue does not overflow, and without any.
const BUSY_PAUSE: Duration = Duration::from_millis(10);
const IDLE_PAUSE: Duration = Duration::from_millis(100);

/// Returns the counters of all ports.
pub(super) type Counters = Arc<dyn Fn() -> Vec<PortSnapshot> + Send + Sync>;

/// Export of all bridges that have it.
pub(super) struct Export {
    /// `None` if no bridge has export.
    shared: Option<Arc<Shared>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// State of the thread, which reports read.
struct Shared {
    sampling: Arc<Sampling>,
    state: Mutex<State>,
    start: Instant,
    ends: AtomicBool,
}

struct State {
    bridges: Vec<BridgeExport>,
    /// Sampling rates of the bridges and bytes of a sample.
    rates: Vec<PortSampling>,
    ports: Ports,
    /// Reused.
    samples: Vec<Sample>,
}

impl Export {
    /// Export of the bridges of `topology`.
    pub(super) fn new(topology: &Topology) -> Self {
        let own = || (0..).zip(&topology.bridges).filter(|(_, bridge)| bridge.export.is_on());
        let bridges: Vec<_> = own().map(|(number, bridge)| BridgeExport::new(bridge, number)).collect();
        let shared = (!bridges.is_empty()).then(|| {
            let rates = own().map(|(_, bridge)| rates(&bridge.export)).collect();
            let ports = Ports::new(bridges.len());
            let state = Mutex::new(State { bridges, rates, ports, samples: Vec::new() });
            let sampling = Sampling::new(MAX_PORTS, seed());
            Arc::new(Shared { sampling, state, start: Instant::now(), ends: AtomicBool::new(false) })
        });
        Self { shared, thread: Mutex::default() }
    }

    /// `inner`, with its packets sampled if a bridge has export.
    pub(super) fn sampled(&self, inner: Arc<dyn Pipelines>) -> Arc<dyn Pipelines> {
        match &self.shared {
            Some(shared) => Arc::new(shared.sampling.sampled(inner)),
            None => inner,
        }
    }

    /// Starts the thread, if a bridge has export.
    pub(super) fn start(&self, counters: Counters) -> std::io::Result<()> {
        let Some(shared) = self.shared.clone() else { return Ok(()) };
        let thread = std::thread::Builder::new().name("export".to_owned());
        let run = move || shared.run(&*counters);
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread.spawn(run)?);
        Ok(())
    }

    /// Samples a port, if its bridge has export. `speed` is in bits per second.
    pub(super) fn add_port(&self, id: PortId, port: &PortSettings, speed: Option<u64>) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.state();
        let Some(bridge) = state.bridges.iter().position(|bridge| bridge.name == port.bridge) else { return };
        let vlan = match &port.policy.vlan {
            None => 0,
            Some(Vlan::Access(vlan)) => *vlan,
            Some(Vlan::Trunk { native, .. }) => native.unwrap_or(0),
        };
        let (name, before) = (port.name.clone(), shared.sampling.counts(id));
        let exported = ExportedPort { name, bridge, vlan, speed: speed.unwrap_or(0), before };
        state.ports.all.insert(id, exported);
        shared.sampling.set(id, Some(state.rates[bridge]));
    }

    /// Ends the sampling of a port.
    pub(super) fn remove_port(&self, id: PortId) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.state();
        if let Some(port) = state.ports.remove(id, &shared.sampling) {
            shared.sampling.set(id, None);
            state.bridges[port.bridge].remove(interface(id));
        }
    }

    /// Collectors and counters.
    pub(super) fn report(&self) -> ExportReport {
        let Some(shared) = &self.shared else { return ExportReport::default() };
        let state = shared.state();
        let bridges = state.bridges.iter().enumerate();
        let exporters =
            bridges.flat_map(|(at, bridge)| bridge.reports(state.ports.sum(at, &shared.sampling)));
        let interfaces = state.ports.all.iter().map(|(id, port)| InterfaceReport {
            index: interface(*id),
            port: port.name.clone(),
            bridge: state.bridges[port.bridge].name.clone(),
        });
        ExportReport { exporters: exporters.collect(), interfaces: interfaces.collect() }
    }

    /// Sends all that waits, and ends the thread.
    pub(super) fn stop(&self) {
        let Some(shared) = &self.shared else { return };
        shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            thread.thread().unpark();
            // A panic of the thread was printed already.
            let _ = thread.join();
        }
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// A poisoned lock is valid: reports and the thread go on with what is there.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, counters: &(dyn Fn() -> Vec<PortSnapshot> + Send + Sync)) {
        while !self.ends.load(Ordering::Relaxed) {
            let now = self.start.elapsed();
            // Before the lock is taken, because a change of ports waits for it.
            let is_due = self.state().bridges.iter().any(|bridge| bridge.is_polling(now));
            let snapshots = if is_due { counters() } else { Vec::new() };
            let mut state = self.state();
            let has_samples = state.take_samples(&self.sampling, now);
            if is_due {
                state.poll(&snapshots, now);
            }
            state.tick(&self.sampling, now);
            drop(state);
            std::thread::park_timeout(if has_samples { BUSY_PAUSE } else { IDLE_PAUSE });
        }
        let (now, mut state) = (self.start.elapsed(), self.state());
        state.take_samples(&self.sampling, now);
        state.bridges.iter_mut().for_each(|bridge| bridge.finish(now));
    }
}

impl State {
    /// Passes the samples of the workers to their bridges. Returns whether there were any.
    fn take_samples(&mut self, sampling: &Sampling, now: Duration) -> bool {
        let Self { bridges, ports, samples, .. } = self;
        sampling.take(|sample| samples.push(sample));
        let has_samples = !samples.is_empty();
        for sample in samples.drain(..) {
            // A removed port is not known any more.
            let Some(counts) = ports.counts(sample.port, sampling) else { continue };
            let bridge = &mut bridges[ports.all[&sample.port].bridge];
            bridge.add(&sample, counts, ports, now);
        }
        has_samples
    }

    /// Reports the counters of the ports of bridges for which they are due.
    fn poll(&mut self, snapshots: &[PortSnapshot], now: Duration) {
        let Self { bridges, ports, .. } = self;
        for (at, bridge) in bridges.iter_mut().enumerate().filter(|(_, bridge)| bridge.is_polling(now)) {
            for snapshot in snapshots {
                let port = ports.all.get(&PortId(snapshot.id));
                if let Some(port) = port.filter(|port| port.bridge == at && port.name == snapshot.name) {
                    bridge.poll(snapshot, port.speed, now);
                }
            }
            bridge.polled(now);
        }
    }

    fn tick(&mut self, sampling: &Sampling, now: Duration) {
        for (at, bridge) in self.bridges.iter_mut().enumerate() {
            bridge.tick(self.ports.sum(at, sampling), now);
        }
    }
}

/// Sampling of the ports of a bridge. An IPFIX record needs the headers of the transport protocol at most.
fn rates(export: &crate::settings::export::ExportSettings) -> PortSampling {
    const IPFIX_HEADER: u16 = 128;
    let sflow = export.sflow.as_ref().map_or((0, 0), |sflow| (sflow.sampling, sflow.header));
    let ipfix = export.ipfix.as_ref().map_or((0, 0), |ipfix| (ipfix.sampling, IPFIX_HEADER));
    PortSampling { rates: [sflow.0, ipfix.0], header: sflow.1.max(ipfix.1).min(MAX_HEADER as u16) }
}

/// A random number. Without one, the samples could be predicted, and are valid.
fn seed() -> u64 {
    let mut bytes = [0; 8];
    let _ = rustix::rand::getrandom(&mut bytes[..], GetRandomFlags::empty());
    u64::from_ne_bytes(bytes)
}
