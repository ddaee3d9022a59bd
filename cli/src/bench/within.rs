//! What runs within the generator's own thread, in each of its turns: our switch, or our guest. Neither wants a CPU of its own; what
//! it costs is the generator's time, which is the same beside every switch.

use crate::switch::{not_made, patiently};
use crate::topology::PortSettings;
use crate::trouble::Trouble;
use engine::{Engine, EngineConfig, Spread, WorkerConfig};
use lab::traffic::rig::{Beside, Ends};
use net::Switch;
use net::bridge::{BridgeConfig, PortConfig};
use std::fmt::Display;

const REMEDY: &str = "close what holds memory or descriptors, and try again";

/// The generator's ends of a switch that has no other thread.
pub(super) fn switch() -> Result<Ends, Trouble> {
    lab::usage::merged().map_err(|error| Trouble::failed("the switch", error, REMEDY))
}

/// A guest that bridges these ports.
pub(super) fn guest(ports: &[PortSettings]) -> Result<Beside, Trouble> {
    let switch = Switch::new(ports.len());
    switch.add_bridge("guest", BridgeConfig::default()).map_err(failed)?;
    let workers = vec![WorkerConfig::default()];
    let config = EngineConfig { workers, max_ports: ports.len(), spread: Spread::default() };
    let (engine, mut merged) = Engine::start_merged(config, &switch).map_err(failed)?;
    for port in ports {
        let control = patiently(port).map_err(|why| not_made(port, &why))?;
        let id = engine.reserve(&port.name).map_err(failed)?;
        switch.add_port(id, "guest", &PortConfig::default()).map_err(failed)?;
        engine.add_reserved(id, control).map_err(failed)?;
    }
    Ok(Beside::new(move || {
        // The engine lives as long as somebody forwards.
        let _ = &engine;
        for worker in &mut merged {
            worker.forward();
        }
    }))
}

fn failed(error: impl Display) -> Trouble {
    Trouble::failed("the guest", error, REMEDY)
}
