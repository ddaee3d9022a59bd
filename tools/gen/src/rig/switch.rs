//! A switch between the generator's two ports in one process: one worker, one bridge, two ports of kind `patch`.

use super::{InlineWork, Outcome, Rig, RigError, RigPorts, Timing};
use crate::rate::Rate;
use crate::schedule::Pace;
use crate::{Description, Sizes};
use bridge::Switch;
use bridge::{BridgeConfig, PortConfig};
use engine::{Engine, EngineConfig, LocalPort, Model, Polling, QueueFull, Snapshot, WorkerConfig};
use port::memif::Options;
use port::patch::{Exchange, Patch};
use port::wrap::{TxCoalesce, Wrappers, wrap};
use port::{PortControl, Rss};
use std::time::Duration;

/// Names of the switch's ports, and of the generator's ports at the other ends.
const NAMES: [(&str, &str); 2] = [("red", "generator-red"), ("blue", "generator-blue")];

/// Frame size in bytes, without checksum.
const SIZE: u16 = 64;
const WARM_UP: Duration = Duration::from_millis(50);
/// Timeout for the ports to become ready.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A running switch.
pub struct Bench {
    engine: Engine,
    exchange: Exchange,
}

fn failed(error: impl std::fmt::Display) -> RigError {
    RigError::Wire(error.to_string())
}

/// A switch with its bridge and without ports.
fn bridge() -> Result<Switch, RigError> {
    let switch = Switch::new(NAMES.len());
    switch.add_bridge("lan", BridgeConfig::default()).map_err(failed)?;
    Ok(switch)
}

fn config(workers: Vec<WorkerConfig>) -> EngineConfig {
    EngineConfig { workers, max_ports: NAMES.len(), rss: Rss::default() }
}

/// The generator's ports of an inline switch, which runs on the generator's own thread in every turn, without another
/// core. The switch stops when the ports are dropped.
pub fn inline() -> Result<RigPorts, RigError> {
    let switch = bridge()?;
    let workers = vec![WorkerConfig::default()];
    let (engine, mut inline) = Engine::start_inline(config(workers), &switch).map_err(failed)?;
    let bench = Bench::around(engine, &switch, None)?;
    let ends = bench.ends()?;
    let beside = InlineWork::new(move || {
        // Keeps the engine alive while a worker forwards.
        let _ = &bench;
        for inline in &mut inline {
            inline.forward();
        }
    });
    Ok(RigPorts { inline_work: Some(beside), ..ends })
}

impl Bench {
    /// Starts the switch with one busy-polling worker on this CPU; `tx_coalesce` applies to its ports.
    pub fn start(cpu: usize, tx_coalesce: Option<TxCoalesce>) -> Result<Self, RigError> {
        let worker = WorkerConfig { cpu: Some(cpu), polling: Polling::Busy, queue_full: QueueFull::Drop };
        Self::start_as(vec![worker], Model::RunToCompletion, tx_coalesce)
    }

    /// Starts the switch with these workers and this threading model.
    pub fn start_as(
        workers: Vec<WorkerConfig>,
        model: Model,
        tx_coalesce: Option<TxCoalesce>,
    ) -> Result<Self, RigError> {
        let switch = bridge()?;
        let engine = Engine::start_as(config(workers), model, &switch).map_err(failed)?;
        Self::around(engine, &switch, tx_coalesce)
    }

    /// Adds the two ports of the bridge to this engine.
    fn around(engine: Engine, switch: &Switch, tx_coalesce: Option<TxCoalesce>) -> Result<Self, RigError> {
        let bench = Self { engine, exchange: Exchange::default() };
        for (name, peer) in NAMES {
            let id = bench.engine.reserve(name).map_err(failed)?;
            switch.add_port(id, "lan", &PortConfig::default()).map_err(failed)?;
            let wrappers = Wrappers { tx_coalesce, ..Wrappers::default() };
            let port = wrap(bench.end(name, peer)?, name, &wrappers).map_err(failed)?;
            bench.engine.add_reserved(id, port).map_err(failed)?;
        }
        Ok(bench)
    }

    fn end(&self, name: &str, peer: &str) -> Result<Box<dyn PortControl>, RigError> {
        let pair = Patch::new(name, peer, Options::default(), &self.exchange).map_err(failed)?;
        Ok(Box::new(pair))
    }

    /// The generator's ports: the first sends, the second receives.
    pub fn ends(&self) -> Result<RigPorts, RigError> {
        let [send, receive] = NAMES.map(|(port, own)| Ok(LocalPort::new(own, self.end(own, port)?)));
        let receive: Result<_, RigError> = receive;
        Ok(RigPorts { send: send?, receive: Some(receive?), inline_work: None })
    }

    /// Sends 64-byte frames through the switch at this mean rate with Poisson pacing, for `duration`.
    pub fn loaded(&self, rate: Rate, duration: Duration, key: u32) -> Result<Outcome, RigError> {
        let timing = Timing {
            rate,
            pace: Pace::Poisson(1),
            duration,
            warm_up: WARM_UP,
            catch_up: None,
            timeout: TIMEOUT,
            announce: true,
        };
        let stream = Description { size: Sizes::Fixed(SIZE), ..Description::default() };
        Rig::new(self.ends()?, &[stream], timing, key)?.run(&mut |_| true)
    }

    /// Counters of the switch.
    pub fn snapshot(&self) -> Snapshot {
        self.engine.snapshot()
    }

    /// Stops the switch.
    pub fn stop(self) -> Result<(), RigError> {
        self.engine.stop().map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_pass_an_inline_switch() {
        // Fewer frames than a ring has entries: none is lost if the worker gets no CPU meanwhile.
        let timing = Timing {
            rate: Rate::Frames(1_000.0),
            pace: Pace::Constant,
            duration: Duration::from_millis(100),
            warm_up: Duration::from_millis(20),
            catch_up: None,
            timeout: Duration::from_secs(10),
            announce: true,
        };
        let stream = Description { size: Sizes::Fixed(128), ..Description::default() };
        let rig = Rig::new(inline().unwrap(), &[stream], timing, 5).unwrap();
        let outcome = rig.run(&mut |_| true).unwrap();
        assert!(outcome.sent > 0 && outcome.sent == outcome.received, "{outcome:?}");
        assert_eq!((outcome.lost, outcome.returned, outcome.faults), (0, 0, 0));
    }
}
