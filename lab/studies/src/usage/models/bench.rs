//! One switch under one execution model, loaded for one reading.

use super::layout::Layout;
use super::load::{Load, Throughput, pair};
use crate::usage::budget::BudgetError;
use crate::usage::budget::failed;
use crate::usage::delay::Delay;
use bridge::Switch;
use bridge::{BridgeConfig, PortConfig};
use engine::{Context, Engine, EngineConfig, Inline, Model, Pipeline, Pipelines, Rss, Verdicts};
use measure::pinning::pin;
use port::patch::Exchange;
use port::{Burst, PortControl};
use std::time::{Duration, Instant};

/// Names of the switch's ports, and of the load's ends of the same cables.
const NAMES: [(&str, &str); 2] = [("red", "load-red"), ("blue", "load-blue")];
const WARM_UP: Duration = Duration::from_millis(20);
/// Timeout for ports to connect.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A bridge's pipelines, with additional work per packet.
struct Working<'a> {
    switch: &'a Switch,
    work: Delay,
}

/// A pipeline with additional work per classified packet.
struct Worked {
    inner: Box<dyn Pipeline>,
    work: Delay,
}

impl Pipelines for Working<'_> {
    fn worker(&self, index: usize) -> Box<dyn Pipeline> {
        Box::new(Worked { inner: self.switch.worker(index), work: self.work.clone() })
    }
}

impl Pipeline for Worked {
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        self.inner.process(burst, context, verdicts);
        (0..burst.len()).for_each(|_| self.work.run());
    }
}

/// Result of one reading.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    pub(super) throughput: Throughput,
    /// Packets that the switch received, sent, and counted as lost, including warm-up and end.
    pub(super) sent: u64,
    pub(super) came: u64,
    pub(super) lost: u64,
}

/// A running switch and its load.
struct Bench {
    engine: Engine,
    inline: Vec<Inline>,
    load: Load,
}

/// Runs a switch under this model with `work` per packet, for `length`.
pub(super) fn read(
    layout: Layout,
    cpus: [usize; 2],
    work: &Delay,
    length: Duration,
) -> Result<Reading, BudgetError> {
    pin(layout.load_on(cpus))?;
    let Bench { engine, mut inline, mut load } = Bench::start(layout, cpus, work)?;
    let mut between = || {
        for inline in &mut inline {
            inline.forward();
        }
    };
    load.announce()?;
    load.run(WARM_UP, layout.shares(), &mut between)?;
    let throughput = load.run(length, layout.shares(), &mut between)?;
    load.drain(&mut between)?;
    let lost = engine.snapshot().ports.iter().flat_map(|port| port.drops.values()).sum();
    engine.stop().map_err(failed)?;
    Ok(Reading { throughput, sent: load.sent, came: load.came, lost })
}

impl Bench {
    fn start(layout: Layout, cpus: [usize; 2], work: &Delay) -> Result<Self, BudgetError> {
        let (switch, exchange) = (Switch::new(NAMES.len()), Exchange::default());
        switch.add_bridge("lan", BridgeConfig::default()).map_err(failed)?;
        let (engine, inline) = start(layout, cpus, &Working { switch: &switch, work: work.clone() })?;
        for (name, peer) in NAMES {
            let id = engine.reserve(name).map_err(failed)?;
            switch.add_port(id, "lan", &PortConfig::default()).map_err(failed)?;
            engine.add_reserved(id, pair(name, peer, &exchange)?).map_err(failed)?;
        }
        let [send, receive] = NAMES.map(|(port, own)| pair(own, port, &exchange));
        let ends: [Box<dyn PortControl>; 2] = [send?, receive?];
        let load = Load::new(ends)?;
        await_ports(&engine)?;
        Ok(Self { engine, inline, load })
    }
}

fn start(
    layout: Layout,
    cpus: [usize; 2],
    pipelines: &dyn Pipelines,
) -> Result<(Engine, Vec<Inline>), BudgetError> {
    let (workers, model): (_, Model) = layout.threads(cpus);
    let config = EngineConfig { workers, max_ports: NAMES.len(), rss: Rss::default() };
    if layout == Layout::Inline {
        return Engine::start_inline(config, pipelines).map_err(failed);
    }
    Ok((Engine::start_as(config, model, pipelines).map_err(failed)?, Vec::new()))
}

fn await_ports(engine: &Engine) -> Result<(), BudgetError> {
    let until = Instant::now() + TIMEOUT;
    while !engine.snapshot().ports.iter().all(|port| port.state == "connected") {
        if Instant::now() > until {
            return Err(failed("the ports of the switch did not connect in time"));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}
