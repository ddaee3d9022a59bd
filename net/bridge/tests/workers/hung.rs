//! A worker hangs: the control thread reports it, continues, and does not free resources that the worker uses.

use crate::guest::{Ending, Guest, Limit, TIMEOUT};
use crate::rig::{Rig, assert_sums_agree, config};
use engine::{
    Context, Engine, EngineConfig, EngineError, HandoffConfig, Model, Pipeline, PipelineConfig, Pipelines,
    Role, Roles, Verdicts, WorkerConfig,
};
use port::{Burst, PortId};
use ring::driver::Split;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Blocks a worker in the middle of a burst of one port.
#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    shut_for: Option<PortId>,
    inside: bool,
}

impl Gate {
    /// Closes the gate for bursts of `port` and waits until a worker blocks at it.
    fn shut(&self, port: PortId) {
        let mut state = self.state.lock().unwrap();
        state.shut_for = Some(port);
        while !state.inside {
            state = self.changed.wait(state).unwrap();
        }
    }

    fn open(&self) {
        *self.state.lock().unwrap() = State::default();
        self.changed.notify_all();
    }

    fn pass(&self, port: PortId) {
        let mut state = self.state.lock().unwrap();
        while state.shut_for == Some(port) {
            state.inside = true;
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap();
        }
    }
}

struct Gated<'a>(&'a dyn Pipelines, Arc<Gate>);

struct GatedPipeline(Box<dyn Pipeline>, Arc<Gate>);

impl Pipelines for Gated<'_> {
    fn worker(&self, index: usize) -> Box<dyn Pipeline> {
        Box::new(GatedPipeline(self.0.worker(index), self.1.clone()))
    }
}

impl Pipeline for GatedPipeline {
    fn process(&mut self, burst: &mut Burst, context: &Context, out: &mut Verdicts) {
        self.1.pass(context.from);
        self.0.process(burst, context, out);
    }
}

/// Run-to-completion workers, or pipeline stages with one thread per role.
fn gated(roles: &[Role]) -> (Rig, Arc<Gate>) {
    if roles.is_empty() {
        return gated_as(Model::RunToCompletion, 2);
    }
    let roles: Vec<_> = roles.iter().map(|role| Roles::only(*role)).collect();
    let threads = roles.len();
    gated_as(Model::Pipeline(PipelineConfig { roles, handoffs: HandoffConfig::default() }), threads)
}

fn gated_as(model: Model, threads: usize) -> (Rig, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let config = EngineConfig { workers: vec![WorkerConfig::default(); threads], ..config() };
    let rig = Rig::with(|bridge| Engine::start_as(config, model, &Gated(bridge, gate.clone())).unwrap());
    (rig, gate)
}

/// Blocks the worker that serves `port`, and then shortens the time that the engine waits for a response.
fn hang(rig: &Rig, gate: &Gate, port: PortId) {
    gate.shut(port);
    rig.engine.set_response_limit(Duration::from_millis(300));
}

/// Unblocks the worker. From now on no worker is treated as hung because the machine is loaded.
fn release(rig: &Rig, gate: &Gate) {
    rig.engine.set_response_limit(TIMEOUT);
    gate.open();
}

/// Waits until the port number `id` is free, while all others are in use, without waking the control thread.
fn wait_for_number(rig: &Rig, id: PortId) {
    let limit = Limit::new();
    loop {
        match rig.engine.reserve("late") {
            Ok(free) => return assert_eq!(free, id),
            Err(_) => limit.check("the number of a removed port"),
        }
        std::thread::yield_now();
    }
}

/// A guest that only sends, until its port is removed.
fn send_until_closed(mut guest: Guest<Split>) {
    while !guest.front.is_closed() {
        guest.step(&[0]);
    }
}

#[test]
fn port_held_by_a_hung_worker_is_kept_until_it_recovers() {
    held(&[]);
}

#[test]
fn ports_continue_after_a_hung_worker_has_failed_their_hand_over() {
    continued(gated(&[]));
}

#[test]
fn shared_queues_continue_after_a_hung_worker_has_failed_their_hand_over() {
    continued(gated_as(Model::Stealing, 2));
}

#[test]
fn stages_continue_after_a_hung_one_has_failed_a_hand_over() {
    continued(gated(&[Role::Rx, Role::Work, Role::Tx]));
}

fn continued((rig, gate): (Rig, Arc<Gate>)) {
    let [held, _] = ["held", "other"].map(|name| rig.add(name));
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let _ending = Ending(&done);
        for (number, name) in [(0, "held"), (1, "other")] {
            let (guest, running) = (Guest::<Split>::plug_in(&rig.socket(name), number, false), &done);
            // It ends when each of its queues has returned all buffers.
            s.spawn(move || guest.live(&[1 - number], running));
        }
        rig.wait_for_traffic(&["held", "other"], 100);
        hang(&rig, &gate, held);
        let hung = rig.engine.hand_over_ports();
        assert!(matches!(hung, Err(EngineError::WorkerHung { .. })), "{hung:?}");
        release(&rig, &gate);
        rig.wait_for_traffic(&["held"], 2_000);
        rig.wait_for_traffic(&["other"], 2_000);
        done.store(true, Ordering::Relaxed);
    });
    assert_sums_agree(&rig.settled());
    rig.engine.stop().unwrap();
}

#[test]
fn port_with_packets_in_a_hung_stage_is_kept_until_it_recovers() {
    held(&[Role::Rx, Role::Work, Role::Tx]);
}

fn held(roles: &[Role]) {
    let (rig, gate) = gated(roles);
    let ids = ["held", "other"].map(|name| rig.add(name));
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let _ending = Ending(&done);
        let guest = Guest::<Split>::plug_in(&rig.socket("held"), 0, false);
        s.spawn(move || send_until_closed(guest));
        let mut other = Guest::<Split>::plug_in(&rig.socket("other"), 1, false);
        hang(&rig, &gate, ids[0]);
        let hung = rig.engine.remove_port(ids[0]);
        assert!(matches!(hung, Err(EngineError::WorkerHung { .. })), "{hung:?}");
        assert!(rig.port("held").is_none() && !rig.socket("held").exists(), "for people it is gone");
        let again = rig.engine.remove_port(ids[0]);
        assert!(matches!(again, Err(EngineError::NoSuchPort(_))), "{again:?}");
        assert_ne!(rig.add("new"), ids[0], "its number is not, because the worker still uses it");
        // The memory change cannot be acknowledged correctly, so no reply is sent, and the port reports the reason.
        assert!(other.front.share_table(&other.memory.whole()).is_err());
        let fault = rig.wait("other", "a fault", |port| port.reason.is_some()).reason.unwrap();
        assert!(fault.contains("does not respond"), "{fault}");
        rig.wait("new", "life", |port| port.state == "waiting");
        let fill = |n: &u16| rig.engine.reserve(&format!("filler {n}")).is_ok();
        assert!((0..u16::MAX).take_while(fill).count() > 0);
        release(&rig, &gate);
        wait_for_number(&rig, ids[0]);
        let next = Guest::<Split>::plug_in(&rig.socket("new"), 2, false);
        let peer = Guest::<Split>::plug_in(&rig.socket("other"), 1, false);
        let running = &done;
        s.spawn(move || next.live(&[1], running));
        s.spawn(move || peer.live(&[2], running));
        rig.wait_for_traffic(&["new", "other"], 2_000);
        done.store(true, Ordering::Relaxed);
    });
    assert_sums_agree(&rig.settled());
    rig.engine.stop().unwrap();
}

#[test]
fn hung_worker_fails_its_queue_with_a_reason_only() {
    let (rig, gate) = gated(&[]);
    let id = rig.add("held");
    rig.add("other");
    std::thread::scope(|s| {
        let guest = Guest::<Split>::plug_in(&rig.socket("held"), 0, false);
        s.spawn(move || send_until_closed(guest));
        let worker = |port: &str| {
            let queues = rig.engine.queues().unwrap();
            queues.iter().find(|queue| (queue.port.as_str(), queue.pair) == (port, 0)).unwrap().worker
        };
        let home = worker("held");
        hang(&rig, &gate, id);
        // One of the two moves involves the hung worker, independent of the pair that it serves.
        let moves: Vec<_> =
            (0..2).map(|pair| rig.engine.move_queue(id, pair, 1 - (home + usize::from(pair)) % 2)).collect();
        assert!(moves.iter().any(|moved| matches!(moved, Err(EngineError::NotMoved(_)))), "{moves:?}");
        let fault = rig.wait("held", "a fault", |port| port.reason.is_some()).reason.unwrap();
        assert!(fault.contains("does not respond"), "{fault}");
        assert!(rig.port("other").unwrap().reason.is_none());
        release(&rig, &gate);
    });
    rig.engine.stop().unwrap();
}

#[test]
fn engine_ends_despite_an_unresponsive_worker() {
    let (rig, gate) = gated(&[]);
    let id = rig.add("held");
    std::thread::scope(|s| {
        let guest = Guest::<Split>::plug_in(&rig.socket("held"), 0, false);
        s.spawn(move || send_until_closed(guest));
        hang(&rig, &gate, id);
        let ended = rig.engine.stop();
        assert!(matches!(ended, Err(EngineError::WorkerHung { .. })), "{ended:?}");
        gate.open();
    });
}
