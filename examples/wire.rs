//! A minimal switch: a wire between two virtual machines, without look-up.
//!
//! `cargo run --release -p linerate-examples --example wire -- CPU SOCKET0 SOCKET1`
//! connects to two guests that listen on the sockets and forwards until it is killed.

use engine::{
    Context, EditId, Engine, EngineConfig, Pipeline, Pipelines, Polling, QueueFull, Rss, Verdicts,
    WorkerConfig,
};
use port::vhost_user::{Options, VhostUser};
use port::{Burst, PortId};
use std::time::Instant;

/// Sends packets of port 0 to port 1, and the reverse.
struct Wire;

impl Pipeline for Wire {
    fn process(&mut self, burst: &mut Burst, context: &Context, out: &mut Verdicts) {
        out.emit_run(0..burst.len(), PortId(1 - context.from.0), EditId::NONE);
    }
}

impl Pipelines for Wire {
    fn worker(&self, _: usize) -> Box<dyn Pipeline> {
        Box::new(Wire)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [cpu, sockets @ ..] = arguments.as_slice() else {
        return Err("usage: wire CPU SOCKET0 SOCKET1".into());
    };
    let worker =
        WorkerConfig { cpu: Some(cpu.parse()?), polling: Polling::Adaptive, queue_full: QueueFull::Drop };
    let engine =
        Engine::start(EngineConfig { workers: vec![worker], max_ports: 2, rss: Rss::default() }, &Wire)?;
    for socket in sockets {
        engine.add_port(socket, Box::new(VhostUser::connect(socket, Options::default(), Instant::now())?))?;
    }
    loop {
        std::thread::park();
    }
}
