//! A learning switch for any number of virtual machines, built from the crates without a configuration file.
//!
//! `cargo run --release -p linerate-examples --example bridge -- CPU SOCKET...`
//! connects to guests that listen on the sockets and forwards until it is killed.

use bridge::Switch;
use bridge::{BridgeConfig, PortConfig};
use engine::{Engine, EngineConfig, Polling, QueueFull, Rss, WorkerConfig};
use port::vhost_user::{Options, VhostUser};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [cpu, sockets @ ..] = arguments.as_slice() else { return Err("usage: bridge CPU SOCKET...".into()) };
    let switch = Switch::new(sockets.len());
    switch.add_bridge("br0", BridgeConfig::default())?;
    let worker =
        WorkerConfig { cpu: Some(cpu.parse()?), polling: Polling::Adaptive, queue_full: QueueFull::Drop };
    let engine = Engine::start(
        EngineConfig { workers: vec![worker], max_ports: sockets.len(), rss: Rss::default() },
        &switch,
    )?;
    for socket in sockets {
        let id = engine.reserve(socket)?;
        switch.add_port(id, "br0", &PortConfig::default())?;
        engine.add_reserved(id, Box::new(VhostUser::connect(socket, Options::default(), Instant::now())?))?;
    }
    loop {
        std::thread::sleep(std::time::Duration::from_secs(2));
        if std::env::var_os("VERBOSE").is_some() {
            println!("{:#?}", engine.snapshot());
        }
    }
}
