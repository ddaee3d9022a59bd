//! Inline workers: the application's own thread forwards, and control does not block if it never calls.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests are tests too")]

use bridge::Switch;
use bridge::{BridgeConfig, PortConfig};
use engine::{Engine, EngineConfig, Inline, LocalPort, Rss, WorkerConfig};
use generator::meter::Meter;
use generator::rig::receive;
use generator::schedule::Pace;
use generator::{Description, Sizes, Source};
use mem::copy::Portable;
use port::memif::Options;
use port::patch::{Exchange, Patch};
use port::{GeneratedBurst, PLACES, PortId};
use std::time::{Duration, Instant};

const KEY: u32 = 7;
/// Longer than any step takes, so that a hang is a failure.
const TIMEOUT: Duration = Duration::from_secs(30);

struct Bench {
    engine: Engine,
    inline: Vec<Inline>,
    ports: Vec<PortId>,
    sides: [LocalPort; 2],
}

impl Bench {
    fn new() -> Self {
        let (exchange, switch) = (Exchange::default(), Switch::new(2));
        switch.add_bridge("lan", BridgeConfig::default()).unwrap();
        let workers = vec![WorkerConfig::default(); 2];
        let config = EngineConfig { workers, max_ports: 2, rss: Rss::default() };
        let (engine, inline) = Engine::start_inline(config, &switch).unwrap();
        let end =
            |name: &str, peer: &str| Box::new(Patch::new(name, peer, Options::default(), &exchange).unwrap());
        let ports = ["red", "blue"].map(|name| {
            let id = engine.reserve(name).unwrap();
            switch.add_port(id, "lan", &PortConfig::default()).unwrap();
            engine.add_reserved(id, end(name, &format!("app-{name}"))).unwrap();
            id
        });
        let sides = ["red", "blue"].map(|name| {
            let own = format!("app-{name}");
            LocalPort::new(&own, end(&own, name))
        });
        let mut bench = Self { engine, inline, ports: ports.to_vec(), sides };
        bench.join();
        bench
    }

    /// No worker forwards during this: control attaches queues to workers that are not called.
    fn join(&mut self) {
        let until = Instant::now() + TIMEOUT;
        self.sides.iter_mut().for_each(|side| side.open(Instant::now()));
        while !self.sides.iter().all(LocalPort::is_ready) || !self.all_connected() {
            assert!(Instant::now() < until, "the ports did not come to life");
            self.sides.iter_mut().for_each(|side| side.poll_control(Instant::now()));
            std::thread::yield_now();
        }
    }

    fn all_connected(&self) -> bool {
        self.engine.snapshot().ports.iter().all(|port| port.state == "connected")
    }

    fn forward(&mut self) -> bool {
        self.inline.iter_mut().fold(false, |worked, inline| inline.forward() | worked)
    }
}

fn source() -> Source {
    let stream = Description { size: Sizes::Fixed(300), flows: 7, ..Description::default() };
    Source::new(vec![(stream.plan().unwrap(), None)], Pace::Constant, 0, 64, KEY).unwrap()
}

#[test]
fn inline_engine_forwards_only_when_called() {
    let mut bench = Bench::new();
    let (mut source, mut meter, mut burst) = (source(), Meter::new(1, KEY), GeneratedBurst::new());
    for round in 1..=200 {
        source.fill::<Portable>(&mut burst, round);
        let sent = burst.len();
        assert_eq!(bench.sides[0].send(&burst, &PLACES[..sent]), sent);
        source.accepted(0, sent);
        assert_eq!(
            receive::<Portable>(&mut bench.sides[1], &mut meter, || round),
            0,
            "no inline call was made"
        );
        assert!(bench.forward());
        assert_eq!(receive::<Portable>(&mut bench.sides[1], &mut meter, || round), sent);
    }
    let stream = &meter.streams()[0];
    assert_eq!((meter.received(), stream.order.reordered(), stream.order.duplicates()), (200 * 64, 0, 0));
    let ports = bench.engine.snapshot().ports;
    let count = |name: &str| ports.iter().find(|port| port.name == name).unwrap();
    assert_eq!((count("red").rx_packets, count("blue").tx_packets), (200 * 64, 200 * 64));
    assert!(!bench.forward(), "nothing is left");
    bench.engine.stop().unwrap();
}

#[test]
fn ports_and_engine_end_without_inline_calls() {
    let mut bench = Bench::new();
    let (mut source, mut burst) = (source(), GeneratedBurst::new());
    source.fill::<Portable>(&mut burst, 1);
    bench.sides[0].send(&burst, &PLACES[..burst.len()]);
    bench.engine.remove_port(bench.ports[0]).unwrap();
    assert!(!bench.forward(), "its packets went with it");
    bench.engine.stop().unwrap();
    assert!(bench.inline.iter_mut().all(|inline| !inline.forward()), "after the end there is nothing");
}

#[test]
fn concurrent_inline_calls_during_port_changes() {
    let Bench { engine, inline, ports, sides } = Bench::new();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for mut inline in inline {
            let over = &over;
            scope.spawn(move || {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    inline.forward();
                }
            });
        }
        for id in ports {
            engine.remove_port(id).unwrap();
        }
        engine.stop().unwrap();
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    drop(sides);
}
