//! A switch of our own that runs within the generator's own thread: merged, with no other core involved.

use super::budget::BudgetError;
use crate::traffic::rig::{Beside, Ends, RigError, Side};
use engine::{Engine, EngineConfig, Spread, WorkerConfig};
use net::Switch;
use net::bridge::{BridgeConfig, PortConfig};
use port::PortControl;
use port::memif::Options;
use port::pair::{Exchange, Pair};

/// Names of the switch's ports, and of the generator's ends of the same cables.
const NAMES: [(&str, &str); 2] = [("red", "generator-red"), ("blue", "generator-blue")];

fn failed(error: impl std::fmt::Display) -> BudgetError {
    BudgetError::Wire(RigError::Wire(error.to_string()))
}

/// The generator's ends of a switch with one bridge and two ports of kind `pair`, which forwards in every turn of the generator. It
/// ends with them.
pub fn merged() -> Result<Ends, BudgetError> {
    let (exchange, switch) = (Exchange::default(), Switch::new(NAMES.len()));
    switch.add_bridge("lan", BridgeConfig::default()).map_err(failed)?;
    let config = EngineConfig {
        workers: vec![WorkerConfig::default()],
        max_ports: NAMES.len(),
        spread: Spread::default(),
    };
    let (engine, mut merged) = Engine::start_merged(config, &switch).map_err(failed)?;
    let end = |name: &str, peer: &str| -> Result<Box<dyn PortControl>, BudgetError> {
        Ok(Box::new(Pair::new(name, peer, Options::default(), &exchange).map_err(failed)?))
    };
    for (name, peer) in NAMES {
        let id = engine.reserve(name).map_err(failed)?;
        switch.add_port(id, "lan", &PortConfig::default()).map_err(failed)?;
        engine.add_reserved(id, end(name, peer)?).map_err(failed)?;
    }
    let [send, receive] = NAMES.map(|(port, own)| Ok::<_, BudgetError>(Side::new(own, end(own, port)?)));
    let beside = Beside::new(move || {
        // The engine lives as long as somebody forwards.
        let _ = &engine;
        merged.iter_mut().fold(false, |worked, merged| merged.forward() | worked)
    });
    Ok(Ends { send: send?, receive: Some(receive?), beside: Some(beside) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::rate::Rate;
    use crate::traffic::rig::{Rig, Timing};
    use crate::traffic::schedule::Pace;
    use crate::traffic::{Description, Sizes};
    use std::time::Duration;

    #[test]
    fn frames_pass_a_switch_that_only_the_generator_runs() {
        let timing = Timing {
            rate: Rate::Frames(20_000.0),
            pace: Pace::Constant,
            duration: Duration::from_millis(100),
            warm_up: Duration::from_millis(20),
            catch_up: None,
            patience: Duration::from_secs(10),
            announce: true,
        };
        let stream = Description { size: Sizes::Fixed(128), ..Description::default() };
        let rig = Rig::new(merged().unwrap(), &[stream], timing, 5).unwrap();
        let outcome = rig.run(&mut |_| true).unwrap();
        assert!(outcome.sent > 0 && outcome.sent == outcome.received, "{outcome:?}");
        assert_eq!((outcome.lost, outcome.returned, outcome.faults), (0, 0, 0));
    }
}
