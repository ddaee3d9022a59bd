//! An application that forwards its own packets: the switch runs on the caller's thread, without another core.
//!
//! `cargo run --release -p linerate-examples --example inline -- FOLDER`
//! creates a switch with two memif ports in the folder, attaches to both, and sends from one to the other for a second.
//! Ports of any kind can be added: their packets are forwarded when this thread calls `forward`.

use bridge::Switch;
use bridge::{BridgeConfig, PortConfig};
use engine::{Engine, EngineConfig, Inline, Rss, WorkerConfig};
use port::memif::{Endpoint, Memif, Options};
use std::path::Path;
use std::time::{Duration, Instant};

const NAMES: [&str; 2] = ["red", "blue"];
const TIMEOUT: Duration = Duration::from_secs(5);
/// A broadcast frame from the application's own station.
const FRAME: [u8; 60] = {
    let mut frame = [0; 60];
    (frame[6], frame[11]) = (2, 1);
    let mut at = 0;
    while at < 6 {
        frame[at] = 0xff;
        at += 1;
    }
    frame
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: inline FOLDER")?;
    let (engine, mut inline) = switch(Path::new(&folder))?;
    // Attaching needs no worker, because the engine's own thread answers.
    let attach = |name| Endpoint::attach(Path::new(&folder).join(name), Options::default(), TIMEOUT);
    let [mut red, mut blue] = [attach("red")?, attach("blue")?];
    let (mut sent, mut received, began) = (0, 0, Instant::now());
    while began.elapsed() < Duration::from_secs(1) {
        sent += red.send([FRAME.as_slice(); 32])?;
        for worker in &mut inline {
            worker.forward();
        }
        received += blue.receive(|_| ())?;
    }
    println!("sent {sent} received {received}");
    engine.stop()?;
    Ok(())
}

fn switch(folder: &Path) -> Result<(Engine, Vec<Inline>), Box<dyn std::error::Error>> {
    let switch = Switch::new(NAMES.len());
    switch.add_bridge("lan", BridgeConfig::default())?;
    let workers = vec![WorkerConfig::default()];
    let config = EngineConfig { workers, max_ports: NAMES.len(), rss: Rss::default() };
    let (engine, inline) = Engine::start_inline(config, &switch)?;
    for name in NAMES {
        let id = engine.reserve(name)?;
        switch.add_port(id, "lan", &PortConfig::default())?;
        engine.add_reserved(id, Box::new(Memif::listen(folder.join(name), Options::default())?))?;
    }
    Ok((engine, inline))
}
