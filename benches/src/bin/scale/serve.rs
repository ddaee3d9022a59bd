//! The switch of `--library`: engine and bridge in a process, with the given listening ports.

use std::path::PathBuf;

use anyhow::Result;
use bridge::Switch;
use bridge::{BridgeConfig, PortConfig};
use clap::Args;
use engine::{Engine, EngineConfig, Polling, Rss, WorkerConfig};
use port::vhost_user::{Options, VhostUser};

/// Worker and sockets.
#[derive(Args, Debug)]
pub(crate) struct ServeArguments {
    /// CPU of the worker
    pub(crate) cpu: usize,
    /// Poll without sleeping
    #[arg(long)]
    pub(crate) busy: bool,
    /// Sockets to listen on
    pub(crate) sockets: Vec<PathBuf>,
}

/// Forwards until the process is terminated.
pub(crate) fn run(arguments: &ServeArguments) -> Result<()> {
    let switch = Switch::new(arguments.sockets.len());
    switch.add_bridge("br0", BridgeConfig::default())?;
    let polling = if arguments.busy { Polling::Busy } else { Polling::Adaptive };
    let worker = WorkerConfig { cpu: Some(arguments.cpu), polling, ..WorkerConfig::default() };
    let config =
        EngineConfig { workers: vec![worker], max_ports: arguments.sockets.len(), rss: Rss::default() };
    let engine = Engine::start(config, &switch)?;
    for socket in &arguments.sockets {
        let id = engine.reserve(&socket.display().to_string())?;
        switch.add_port(id, "br0", &PortConfig::default())?;
        engine.add_reserved(id, Box::new(VhostUser::listen(socket, Options::default())?))?;
    }
    loop {
        std::thread::park();
    }
}
