//! End-to-end test of the guest and the switch in one process: with every ring kind and descriptor layout, frames
//! circulate unmodified and every loss is counted.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use bridge::Switch;
use bridge::{BridgeConfig, PortConfig};
use engine::{Engine, EngineConfig, Now, Rss, WorkerConfig};
use guest::{Descriptors, FrameSizes, GuestConfig, GuestDevice, GuestStats, Mode, RingKind, plug_in};
use port::vhost_user::{Options, VhostUser};
use port::virtio_user::FrontEnd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(20);
/// After this time without a frame, none is in flight.
const SETTLE_TIME: Duration = Duration::from_millis(100);
const LAYOUTS: [Descriptors; 3] = [Descriptors::Single, Descriptors::Chain, Descriptors::Indirect];
const FRAME: u16 = 570;
/// Frames per guest; many laps of every ring.
const MIN_FRAMES: u64 = 5_000;

/// A switch with one worker and two ports on one bridge.
struct Stage {
    engine: Engine,
    bridge: Switch,
    folder: TempDir,
}

impl Stage {
    fn new() -> Self {
        let bridge = Switch::new(2);
        bridge.add_bridge("lan", BridgeConfig::default()).unwrap();
        let config =
            EngineConfig { workers: vec![WorkerConfig::default()], max_ports: 2, rss: Rss::default() };
        let stage = Self {
            engine: Engine::start(config, &bridge).unwrap(),
            bridge,
            folder: tempfile::tempdir().unwrap(),
        };
        for n in 0..2 {
            let id = stage.engine.reserve(&n.to_string()).unwrap();
            stage.bridge.add_port(id, "lan", &PortConfig::default()).unwrap();
            let control = VhostUser::listen(stage.socket(n), Options::default()).unwrap();
            stage.engine.add_reserved(id, Box::new(control)).unwrap();
        }
        stage
    }

    fn socket(&self, n: u8) -> PathBuf {
        self.folder.path().join(n.to_string())
    }

    /// Port snapshots once the negotiated features are reported; packets flow before that.
    fn told(&self, what: &str) -> Vec<engine::PortSnapshot> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let ports = self.engine.snapshot().ports;
            if ports.iter().all(|port| !port.features.is_empty()) {
                return ports;
            }
            assert!(Instant::now() < end, "no word of what was agreed on: {what}: {ports:#?}");
            std::thread::yield_now();
        }
    }

    /// Checks that no packet is missing and no port had a fault. No packet may be in flight.
    fn end(self) {
        let now = self.engine.snapshot();
        let sum = |of: &dyn Fn(&engine::PortSnapshot) -> u64| now.ports.iter().map(of).sum::<u64>();
        let entered = sum(&|p| p.rx_packets + p.replicated);
        let left = sum(&|p| p.tx_packets + p.drops.values().sum::<u64>());
        assert_eq!(entered, left, "{now:#?}");
        let mut events = now.ports.iter().flat_map(|port| &port.history);
        assert!(events.all(|event| event.state != "faulted"), "{now:#?}");
        self.engine.stop().unwrap();
    }
}

fn guest(socket: &Path, n: u8, config: &GuestConfig) -> Box<dyn GuestDevice> {
    let mac = |n| [2, 0, 0, 0, 0, n];
    let config = GuestConfig { mac: mac(n), peer: mac(1 - n), ..config.clone() };
    plug_in(FrontEnd::connect(socket, TIMEOUT).unwrap(), &config).unwrap()
}

fn config(ring: RingKind, descriptors: Descriptors, mode: Mode, mergeable: bool) -> GuestConfig {
    GuestConfig {
        ring,
        descriptors,
        mode,
        queue_size: 256,
        queue_pairs: 1,
        mergeable,
        mac: [0; 6],
        peer: [0; 6],
        sizes: FrameSizes::fixed(FRAME),
        // Few enough that no queue fills up, which would lose circulating frames.
        packets: 16,
        flows: None,
    }
}

/// Steps all guests until `enough` returns true.
fn live(
    stage: &Stage,
    guests: &mut [Box<dyn GuestDevice>],
    what: &str,
    enough: impl Fn(&[GuestStats]) -> bool,
) {
    let end = Instant::now() + TIMEOUT;
    loop {
        for guest in guests.iter_mut() {
            guest.step().unwrap();
        }
        let stats: Vec<_> = guests.iter().map(|guest| guest.stats()).collect();
        if enough(&stats) {
            return;
        }
        assert!(Instant::now() < end, "stuck: {what}: {stats:?} {:#?}", stage.engine.snapshot().ports);
    }
}

fn circulate(ring: RingKind, descriptors: Descriptors, mergeable: bool) {
    let stage = Stage::new();
    let config = config(ring, descriptors, Mode::MacSwap, mergeable);
    let what = format!("{ring}, {descriptors:?}, mergeable {mergeable}");
    let mut guests: Vec<_> = (0..2).map(|n| guest(&stage.socket(n), n, &config)).collect();
    live(&stage, &mut guests, &what, |stats| {
        stats.iter().all(|s| s.rx_packets.min(s.tx_packets) >= MIN_FRAMES)
    });
    for port in stage.told(&what) {
        let indirect = port.features.iter().any(|feature| feature == "indirect-desc");
        assert_eq!(indirect, descriptors == Descriptors::Indirect, "{what}");
    }
    for guest in guests {
        let stats = guest.stats();
        assert_eq!(stats.rx_bytes, stats.rx_packets * u64::from(FRAME), "{what}");
        guest.unplug().unwrap();
    }
    // A frame that starts at the wrong byte would have other addresses.
    let mut macs: Vec<_> =
        stage.bridge.stations("lan", Now(0)).unwrap().iter().map(|s| s.mac.octets()).collect();
    macs.sort_unstable();
    assert_eq!(macs, [[2, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 1]], "{what}");
    stage.end();
}

/// Steps one guest until it receives no frame for a while.
fn quiet(guest: &mut dyn GuestDevice) {
    let (mut heard, mut since) = (guest.stats().rx_packets, Instant::now());
    while since.elapsed() < SETTLE_TIME {
        guest.step().unwrap();
        if guest.stats().rx_packets != heard {
            (heard, since) = (guest.stats().rx_packets, Instant::now());
        }
    }
}

#[test]
fn lost_circulating_frames_are_replaced() {
    for ring in RingKind::ALL {
        let (stage, what) = (Stage::new(), ring.to_string());
        let own = config(ring, Descriptors::Single, Mode::MacSwap, false);
        let mut guests = vec![guest(&stage.socket(0), 0, &own)];
        // No other port exists that would return the frames.
        live(&stage, &mut guests, &what, |stats| stats[0].tx_packets == u64::from(own.packets));
        guests.push(guest(&stage.socket(1), 1, &GuestConfig { packets: 0, ..own.clone() }));
        guests[0].replace_lost();
        live(&stage, &mut guests, &what, |stats| stats.iter().all(|s| s.rx_packets >= MIN_FRAMES));
        quiet(guests[0].as_mut());
        let before = guests[1].stats().rx_packets;
        guests[1].step().unwrap();
        assert_eq!(guests[1].stats().rx_packets - before, u64::from(own.packets), "{what}");
        quiet(guests[0].as_mut());
        for guest in guests {
            guest.unplug().unwrap();
        }
        stage.end();
    }
}

#[test]
fn frames_circulate_in_every_descriptor_layout() {
    for ring in RingKind::ALL {
        for descriptors in LAYOUTS {
            for mergeable in [false, true] {
                circulate(ring, descriptors, mergeable);
            }
        }
    }
}

#[test]
fn sending_guest_fills_rings_of_any_size() {
    for (ring, size) in [(RingKind::Split, 2), (RingKind::Packed, 7), (RingKind::PackedInOrder, 130)] {
        for descriptors in LAYOUTS {
            let stage = Stage::new();
            let one_way = |n: u8, mode| {
                let config = GuestConfig { queue_size: size, ..config(ring, descriptors, mode, true) };
                guest(&stage.socket(n), n, &config)
            };
            let mut guests = vec![one_way(0, Mode::TxOnly), one_way(1, Mode::RxOnly)];
            let what = format!("{ring} of {size}, {descriptors:?}");
            live(&stage, &mut guests, &what, |stats| {
                stats[0].tx_packets >= 500 && stats[1].rx_packets >= 100
            });
            for guest in guests {
                guest.unplug().unwrap();
            }
            stage.end();
        }
    }
}
