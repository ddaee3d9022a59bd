//! A pipeline that recirculates packets and punts some of them, in every execution model: no packet is lost, and the
//! sums agree.

use crate::common::{Frames, Queue, Source, models, push};
use engine::{
    Context, Edit, EditId, Engine, EngineConfig, Now, Pipeline, Pipelines, PortObserver, PuntReason, Punted,
    Rss, Verdicts, WorkerConfig,
};
use port::null::Null;
use port::{Burst, BurstStats, PortId};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Longer than any test here takes, so that a hang fails.
const LIMIT: Duration = Duration::from_secs(30);
const PACKETS: u64 = 1000;
/// The ports, in the order in which they are added.
const SINK: PortId = PortId(0);
const SOURCE: PortId = PortId(1);

/// A receive queue with the given number of packets, which carry sequence numbers in their last bytes.
struct Numbered(u64);

impl Frames for Numbered {
    fn fill(&mut self, burst: &mut Burst, stats: &mut BurstStats) {
        for _ in 0..self.0.min(7) {
            let mut frame = [2; 60];
            frame[52..].copy_from_slice(&(PACKETS - self.0).to_be_bytes());
            push(&frame, burst, stats);
            self.0 -= 1;
        }
    }

    fn are_left(&self) -> bool {
        self.0 > 0
    }
}

/// Removes eight bytes, recirculates, sends each packet to the sink and punts every second one.
struct Twice;

impl Pipeline for Twice {
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        let strip = verdicts.edit(&Edit::splice(0, 8, &[]).unwrap());
        for i in 0..burst.len() {
            if context.stage == 0 {
                verdicts.recirculate(i, Context { stage: 1, ..*context }, strip);
                continue;
            }
            verdicts.emit(i, SINK, EditId::NONE);
            if burst.head(i)[51] % 2 == 0 {
                verdicts.punt(i, PuntReason::Action);
            }
        }
    }
}

struct Pipes(Mutex<Option<Sender<Punted>>>);

impl Pipelines for Pipes {
    fn worker(&self, _: usize) -> Box<dyn Pipeline> {
        Box::new(Twice)
    }

    fn observer(&self) -> Option<Box<dyn PortObserver>> {
        Some(Box::new(Control(self.0.lock().unwrap().take()?)))
    }
}

struct Control(Sender<Punted>);

impl PortObserver for Control {
    fn stopped(&mut self, _: PortId, _: Now) {}

    fn punted(&mut self, packet: Punted) {
        self.0.send(packet).unwrap();
    }
}

/// Sequence numbers of the punted packets.
fn numbers(packets: &Receiver<Punted>, wanted: usize) -> Vec<u64> {
    let number = |packet: Punted| {
        let Context { from, stage, .. } = packet.context;
        assert_eq!((from, stage, packet.reason, packet.frame.len()), (SOURCE, 1, PuntReason::Action, 52));
        u64::from_be_bytes(*packet.frame.last_chunk().unwrap())
    };
    (0..wanted).map(|_| number(packets.recv_timeout(LIMIT).unwrap())).collect()
}

#[test]
fn recirculated_and_punted_packets_pass_in_every_model() {
    for model in models() {
        let (sender, packets) = channel();
        let config =
            EngineConfig { workers: vec![WorkerConfig::default(); 2], max_ports: 4, rss: Rss::default() };
        let engine = Engine::start_as(config, model.clone(), &Pipes(Mutex::new(Some(sender)))).unwrap();
        assert_eq!(engine.add_port("sink", Box::new(Null::new(Instant::now()))).unwrap(), SINK);
        let until = Instant::now() + LIMIT;
        while engine.snapshot().ports[0].state != "connected" {
            assert!(Instant::now() < until, "{:?}", engine.snapshot().ports);
            std::thread::yield_now();
        }
        assert_eq!(
            engine.add_port("source", Box::new(Source(Some(Queue(Numbered(PACKETS)))))).unwrap(),
            SOURCE
        );
        while engine.snapshot().ports[0].tx_packets < PACKETS {
            assert!(Instant::now() < until, "{model:?}: {:?}", engine.snapshot().ports);
            std::thread::yield_now();
        }
        let (punted, full) = (engine.snapshot().ports[1].punted, engine.snapshot().ports[1].drops.clone());
        let full = full.get("punt-full").copied().unwrap_or(0);
        assert_eq!((punted + full, engine.snapshot().ports[1].replicated), (PACKETS / 2, PACKETS / 2));
        assert_eq!(engine.snapshot().ports[0].tx_bytes, 52 * PACKETS, "{model:?}");
        let numbers = numbers(&packets, punted as usize);
        assert!(numbers.is_sorted() && numbers.iter().all(|number| number % 2 == 0), "{model:?}");
        engine.stop().unwrap();
    }
}
