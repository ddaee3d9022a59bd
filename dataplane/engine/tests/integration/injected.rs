//! Frames of the control plane, and whether ports can send, in every execution model.

use crate::common::models;
use engine::{
    Context, EditId, Engine, EngineConfig, Injector, Model, Now, Pipeline, Pipelines, PortObserver, Rss,
    Verdicts, WorkerConfig,
};
use port::null::Null;
use port::{Burst, PortId};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Longer than any test here takes, so that a hang fails.
const LIMIT: Duration = Duration::from_secs(30);
const FRAMES: u64 = 500;
const SINK: PortId = PortId(0);
const STAGE: u32 = 7;

/// Number and length of a frame.
type Seen = (u64, usize);
/// A port, and whether it can send.
type State = (PortId, bool);

/// Reports the first bytes and the length of each frame, and sends it to the sink.
struct Reporting(Sender<Seen>);

impl Pipeline for Reporting {
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        assert_eq!((context.from, context.injected, context.stage), (SINK, true, STAGE));
        for i in 0..burst.len() {
            let number = u64::from_be_bytes(*burst.head(i).first_chunk().unwrap());
            self.0.send((number, burst.frame_len(i))).unwrap();
            verdicts.emit(i, SINK, EditId::NONE);
        }
    }
}

struct Pipes(Sender<Seen>, Mutex<Option<Sender<State>>>);

impl Pipelines for Pipes {
    fn worker(&self, _: usize) -> Box<dyn Pipeline> {
        Box::new(Reporting(self.0.clone()))
    }

    fn observer(&self) -> Option<Box<dyn PortObserver>> {
        Some(Box::new(Control(self.1.lock().unwrap().take()?)))
    }
}

struct Control(Sender<State>);

impl PortObserver for Control {
    fn changed(&mut self, port: PortId, is_up: bool, _: Now) {
        self.0.send((port, is_up)).unwrap();
    }

    fn stopped(&mut self, _: PortId, _: Now) {}
}

fn start(model: Model) -> (Engine, Receiver<Seen>, Receiver<State>) {
    let ((frames, seen), (states, changes)) = (channel(), channel());
    let config =
        EngineConfig { workers: vec![WorkerConfig::default(); 2], max_ports: 4, rss: Rss::default() };
    let engine = Engine::start_as(config, model, &Pipes(frames, Mutex::new(Some(states)))).unwrap();
    (engine, seen, changes)
}

/// Frames of 60 and 3000 bytes in turn. A full queue is retried.
fn send(injector: &Injector, number: u64) {
    let mut frame = vec![3; if number.is_multiple_of(2) { 60 } else { 3000 }];
    frame[..8].copy_from_slice(&number.to_be_bytes());
    let until = Instant::now() + LIMIT;
    while !injector.inject_at(SINK, frame.clone().into(), STAGE) {
        assert!(Instant::now() < until, "frame {number}");
        std::thread::yield_now();
    }
}

#[test]
fn frames_of_the_control_plane_pass_in_order_and_states_of_ports_are_observed() {
    for model in models() {
        let (engine, seen, changes) = start(model.clone());
        assert_eq!(engine.add_port("sink", Box::new(Null::new(Instant::now()))).unwrap(), SINK);
        assert_eq!(changes.recv_timeout(LIMIT), Ok((SINK, true)), "{model:?}");
        let injector = engine.injector();
        (0..FRAMES).for_each(|number| send(&injector, number));
        for number in 0..FRAMES {
            let length = if number.is_multiple_of(2) { 60 } else { 3000 };
            assert_eq!(seen.recv_timeout(LIMIT), Ok((number, length)), "{model:?}");
        }
        // A handoff queue may be full.
        let counted = || {
            let sink = engine.snapshot().ports[0].clone();
            (sink.rx_packets, sink.tx_packets + sink.drops.values().sum::<u64>())
        };
        let until = Instant::now() + LIMIT;
        while counted() != (FRAMES, FRAMES) {
            assert!(Instant::now() < until, "{model:?}: {:?}", engine.snapshot().ports);
            std::thread::yield_now();
        }
        engine.remove_port(SINK).unwrap();
        assert_eq!(changes.recv_timeout(LIMIT), Ok((SINK, false)), "{model:?}");
        engine.stop().unwrap();
        assert!(!injector.inject_at(SINK, Box::new([0; 60]), STAGE), "the workers have ended");
    }
}
