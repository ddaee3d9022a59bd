//! A switch of our own between the generator's two ends, in one process: one worker, one bridge, two ports of kind `pair`.

use super::budget::BudgetError;
use crate::traffic::rig::{Ends, RigError, Side};
use engine::{Engine, EngineConfig, Model, Polling, QueueFull, Snapshot, WorkerConfig};
use net::Switch;
use net::bridge::{BridgeConfig, PortConfig};
use port::memif::Options;
use port::pair::{Exchange, Pair};
use port::wrap::{Transmit, Wrappers, wrap};
use port::{PortControl, Spread};

/// Names of the switch's ports, and of the generator's ends of the same cables.
const NAMES: [(&str, &str); 2] = [("red", "generator-red"), ("blue", "generator-blue")];

/// A running switch.
pub(super) struct Bench {
    engine: Engine,
    exchange: Exchange,
}

pub(super) fn failed(error: impl std::fmt::Display) -> BudgetError {
    BudgetError::Wire(RigError::Wire(error.to_string()))
}

impl Bench {
    /// Starts it on this CPU, which it polls always; `transmit` is how its ports send.
    pub(super) fn start(cpu: usize, transmit: Option<Transmit>) -> Result<Self, BudgetError> {
        let worker = WorkerConfig { cpu: Some(cpu), polling: Polling::Busy, queue_full: QueueFull::Drop };
        Self::start_as(vec![worker], Model::RunToCompletion, transmit)
    }

    /// Starts it with these threads, which divide the work so.
    pub(super) fn start_as(
        workers: Vec<WorkerConfig>,
        model: Model,
        transmit: Option<Transmit>,
    ) -> Result<Self, BudgetError> {
        let switch = Switch::new(NAMES.len());
        switch.add_bridge("lan", BridgeConfig::default()).map_err(failed)?;
        let config = EngineConfig { workers, max_ports: NAMES.len(), spread: Spread::default() };
        let engine = Engine::start_as(config, model, &switch).map_err(failed)?;
        let bench = Self { engine, exchange: Exchange::default() };
        for (name, peer) in NAMES {
            let id = bench.engine.reserve(name).map_err(failed)?;
            switch.add_port(id, "lan", &PortConfig::default()).map_err(failed)?;
            let wrappers = Wrappers { transmit, ..Wrappers::default() };
            let port = wrap(bench.end(name, peer)?, name, &wrappers).map_err(failed)?;
            bench.engine.add_reserved(id, port).map_err(failed)?;
        }
        Ok(bench)
    }

    fn end(&self, name: &str, peer: &str) -> Result<Box<dyn PortControl>, BudgetError> {
        let pair = Pair::new(name, peer, Options::default(), &self.exchange).map_err(failed)?;
        Ok(Box::new(pair))
    }

    /// The generator's ends: the first sends, the second receives.
    pub(super) fn ends(&self) -> Result<Ends, BudgetError> {
        let [send, receive] = NAMES.map(|(port, own)| Ok(Side::new(own, self.end(own, port)?)));
        let receive: Result<_, BudgetError> = receive;
        Ok(Ends { send: send?, receive: Some(receive?), beside: None })
    }

    /// What it counted so far.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.engine.snapshot()
    }

    /// Ends it.
    pub(super) fn stop(self) -> Result<(), BudgetError> {
        self.engine.stop().map_err(failed)
    }
}
