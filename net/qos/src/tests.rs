//! Policers and queues around a patch port, in simulated time: every frame arrives or is counted.

use crate::{
    Action, ClassConfig, ClassMap, ClassRates, FqParams, Node, Policer, Rates, Shaper, ShaperConfig, wrap,
};
use mem::VolatileSlice;
use mem::copy::Portable;
use port::memif::Options;
use port::patch::{Exchange, Patch};
use port::vhost_user::fake::FakeEngine;
use port::{Burst, BurstStats, DropReason, Flush, GeneratedBurst, Now, PortControl};
use std::sync::Arc;
use std::time::Instant;

const MS: u64 = 1_000_000;
/// 8 Mbit/s is a byte per microsecond.
const MBYTE: u64 = 8_000_000;
/// Engine pair number of the release queue of pair 0.
const RELEASE: u16 = 0x4000;

struct End {
    port: Box<dyn PortControl>,
    engine: FakeEngine,
}

/// Two connected ends; the first has the wrapper.
fn ends(policer: Option<Policer>, shaper: Option<&Arc<Shaper>>) -> [End; 2] {
    let (exchange, options) = (Exchange::default(), Options::default());
    let mut ends = [("a", "b"), ("b", "a")].map(|(name, peer)| {
        let port: Box<dyn PortControl> = Box::new(Patch::new(name, peer, options, &exchange).unwrap());
        let port = if name == "a" { wrap(port, policer, shaper.cloned()) } else { port };
        End { port, engine: FakeEngine::default() }
    });
    for _ in 0..3 {
        for end in &mut ends {
            end.port.handle(Instant::now(), &mut end.engine);
        }
    }
    ends
}

fn add(total: &mut BurstStats, stats: &BurstStats) {
    total.packets += stats.packets;
    total.bytes += stats.bytes;
    total.lost += stats.lost;
    total.drops.iter_mut().zip(stats.drops).for_each(|(total, n)| *total += n);
}

impl End {
    /// Sends `n` frames of `len` bytes, of flow `flow`, in one burst.
    fn send(&mut self, now: u64, flow: u8, n: usize, len: usize, total: &mut BurstStats) {
        let (mut burst, mut stats) = (GeneratedBurst::new(), BurstStats::default());
        burst.restart();
        burst.set_now(Now(now));
        let bytes = frame(flow, len);
        for _ in 0..n {
            assert!(burst.start_packet(&bytes[..100]));
            burst.push_segment(VolatileSlice::of_private(&bytes[100..]));
        }
        let indices: Vec<u8> = (0..n as u8).collect();
        let tx = self.engine.tx.get_mut(&0).unwrap();
        assert_eq!(tx.tx(&burst, &indices, &mut stats).unwrap(), n);
        tx.flush(Now(now), Flush::Waited, &mut stats).unwrap();
        add(total, &stats);
    }

    /// Sends what may leave.
    fn release(&mut self, now: u64, total: &mut BurstStats) {
        let (mut burst, mut stats) = (Burst::new(), BurstStats::default());
        burst.begin(0);
        burst.set_now(Now(now));
        self.engine.rx.get_mut(&RELEASE).unwrap().rx(&mut burst, &mut stats).unwrap();
        assert!(burst.is_untouched() && stats == BurstStats::default(), "it brings no packets");
        self.engine.tx.get_mut(&0).unwrap().flush(Now(now), Flush::Idle, &mut stats).unwrap();
        add(total, &stats);
    }

    /// Frames that have arrived.
    fn receive(&mut self, now: u64, total: &mut BurstStats) -> Vec<Vec<u8>> {
        let (mut burst, mut frames) = (Burst::new(), Vec::new());
        let rx = self.engine.rx.get_mut(&0).unwrap();
        loop {
            let mut stats = BurstStats::default();
            burst.begin(0);
            burst.set_now(Now(now));
            rx.rx(&mut burst, &mut stats).unwrap();
            add(total, &stats);
            burst.load_heads::<Portable>();
            frames.extend((0..burst.len()).map(|i| {
                let mut bytes = vec![0; burst.frame_len(i)];
                burst.frame(i).copy_to::<Portable>(&mut bytes);
                bytes
            }));
            if burst.is_untouched() {
                return frames;
            }
            rx.complete(burst.buf_ids());
        }
    }

    fn detail(&self, name: &str) -> u64 {
        let details = self.port.details();
        details.iter().find(|(known, _)| known.name() == name).map_or(0, |(_, count)| count.parse().unwrap())
    }
}

/// An IPv4 frame with DSCP 0 between two addresses; `flow` is the last byte of the source.
fn frame(flow: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![2; len];
    frame[12..34]
        .copy_from_slice(&[8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, flow, 10, 0, 1, 1]);
    frame
}

fn shaper(port: u64, limit: u32) -> Arc<Shaper> {
    let rates = |rate, ceil| ClassRates { rate, ceil, burst: 2000, ceil_burst: 2000 };
    let node = |rates, parent| Node { rates, parent, priority: 0, quantum: 1514 };
    let leaf = Some(FqParams { limit, flows: 16, ..FqParams::default() });
    let classes = vec![
        ClassConfig { node: node(rates(port, port), None), leaf: None },
        ClassConfig { node: node(rates(port / 4, port), Some(0)), leaf },
        ClassConfig { node: node(rates(port / 2, port), Some(0)), leaf },
    ];
    let mut map = ClassMap::new(1);
    map.set_dscp(46, 2);
    Arc::new(Shaper::new(ShaperConfig { classes, map, memory: 4 << 20 }).unwrap())
}

#[test]
fn queues_send_at_the_rate_of_the_port_and_count_every_packet() {
    let shaper = shaper(MBYTE, 100);
    let [mut a, mut b] = ends(None, Some(&shaper));
    let (mut sent, mut got, mut arrived) = (BurstStats::default(), BurstStats::default(), 0);
    for now in 1..=100 {
        // Four times the rate.
        a.send(now * MS, now as u8 % 3, 4, 1000, &mut sent);
        a.release(now * MS, &mut sent);
        let frames = b.receive(now * MS, &mut got);
        assert!(frames.iter().all(|bytes| (0..3).any(|flow| *bytes == frame(flow, 1000))));
        arrived += frames.len() as u64;
    }
    assert!((95..=110).contains(&arrived), "{arrived} of 100 packets of a tenth of a second");
    let counts = shaper.classes()[1].1.unwrap();
    let dropped = sent.drops[DropReason::ClassFull as usize] + sent.drops[DropReason::Codel as usize];
    assert_eq!((sent.packets, counts.packets, dropped), (arrived, arrived, sent.lost));
    assert_eq!(arrived + sent.lost + counts.backlog, 400);
    a.engine.tx.get_mut(&0).unwrap().abandon(&mut sent);
    assert_eq!(sent.drops[DropReason::PortDown as usize], counts.backlog);
    assert_eq!(sent.packets + sent.lost, 400);
}

#[test]
fn a_sleeping_worker_wakes_for_the_next_departure_and_changed_rates_apply() {
    let shaper = shaper(MBYTE, 1000);
    let [mut a, mut b] = ends(None, Some(&shaper));
    let (mut sent, mut got) = (BurstStats::default(), BurstStats::default());
    a.send(MS, 1, 50, 1000, &mut sent);
    a.release(MS, &mut sent);
    let first = b.receive(MS, &mut got).len();
    assert!((3..10).contains(&first), "a burst: {first}");
    assert!(!a.engine.rx.get_mut(&RELEASE).unwrap().enable_notification().unwrap(), "none is due yet");
    a.engine.rx.get_mut(&RELEASE).unwrap().disable_notification();
    let fast = ClassRates { rate: 100 * MBYTE, ceil: 100 * MBYTE, burst: 100_000, ceil_burst: 100_000 };
    shaper.set_rates(1, fast);
    a.release(2 * MS, &mut sent);
    assert_eq!(b.receive(2 * MS, &mut got).len(), 50 - first);
}

#[test]
fn a_policer_drops_and_remarks_what_it_counts() {
    let rates = Rates::TwoRate { cir: MBYTE, cbs: 2000, pir: 2 * MBYTE, pbs: 4000 };
    let policer = Policer { rates, is_aware: false, exceed: Action::Remark(10), violate: Action::Drop };
    let [mut a, mut b] = ends(Some(policer), None);
    let (mut sent, mut got) = (BurstStats::default(), BurstStats::default());
    b.send(MS, 1, 6, 1000, &mut sent);
    let frames = a.receive(MS, &mut got);
    let classes: Vec<_> = frames.iter().map(|bytes| bytes[15] >> 2).collect();
    assert_eq!(classes, [0, 0, 10, 10]);
    assert_eq!((got.packets, got.lost, got.drops[DropReason::Policed as usize]), (6, 2, 2));
    let details =
        ["green", "yellow", "red", "red_bytes", "remarked"].map(|name| a.detail(&format!("policer_{name}")));
    assert_eq!(details, [2, 2, 2, 2000, 2]);
}

#[test]
fn a_port_with_neither_is_unchanged() {
    let port: Box<dyn PortControl> =
        Box::new(Patch::new("a", "b", Options::default(), &Exchange::default()).unwrap());
    let before: *const dyn PortControl = &raw const *port;
    assert!(std::ptr::addr_eq(before, &raw const *wrap(port, None, None)));
}
