//! Components that run in the generator's thread, once per iteration: our switch, or our guest. They need no CPU of
//! their own. Their cost is generator time, which is the same for every switch.

use crate::args::{Cli, Command};
use crate::commands::guest::Inside;
use crate::dataplane::open;
use crate::settings::topology::PortSettings;
use bridge::Switch;
use bridge::{BridgeConfig, PortConfig};
use clap::Parser;
use console::Diagnostic;
use engine::{Engine, EngineConfig, Rss, WorkerConfig};
use generator::rig::{InlineWork, RigPorts};
use std::fmt::Display;

const REMEDY: &str = "free memory or descriptors, and try again";

/// The generator's ends of an inline switch.
pub(super) fn switch() -> Result<RigPorts, Diagnostic> {
    generator::rig::inline().map_err(|error| Diagnostic::failed("the switch", error, REMEDY))
}

/// A guest that bridges these ports.
pub(super) fn guest(ports: &[PortSettings]) -> Result<InlineWork, Diagnostic> {
    let switch = Switch::new(ports.len());
    switch.add_bridge("guest", BridgeConfig::default()).map_err(failed)?;
    let workers = vec![WorkerConfig::default()];
    let config = EngineConfig { workers, max_ports: ports.len(), rss: Rss::default() };
    let (engine, mut inline) = Engine::start_inline(config, &switch).map_err(failed)?;
    for port in ports {
        let control = open::open(port)?;
        let id = engine.reserve(&port.name).map_err(failed)?;
        switch.add_port(id, "guest", &PortConfig::default()).map_err(failed)?;
        engine.add_reserved(id, control).map_err(failed)?;
    }
    Ok(InlineWork::new(move || {
        // Moves the engine into the closure: it must live while a worker forwards.
        let _ = &engine;
        for worker in &mut inline {
            worker.forward();
        }
    }))
}

/// A guest with the arguments of `linerate guest`, not connected yet.
pub(super) fn reflector(words: &[String]) -> Result<Inside, Diagnostic> {
    let words = std::iter::once("linerate").chain(words.iter().map(String::as_str));
    match Cli::try_parse_from(words).map_err(failed)?.command {
        Command::Guest(args) => Inside::new(&args),
        _ => Err(failed("it was called by another name")),
    }
}

/// Runs this guest in each iteration of the generator. If its back end corrupts a ring, the error is reported and the
/// guest ends.
pub(super) fn turns_of(guest: Inside) -> InlineWork {
    let mut guest = Some(guest);
    InlineWork::new(move || {
        if let Some(Err(error)) = guest.as_mut().map(Inside::step) {
            console::note(&error.to_string());
            guest = None;
        }
    })
}

fn failed(error: impl Display) -> Diagnostic {
    Diagnostic::failed("the guest", error, REMEDY)
}
