//! Fuzz target of frames against flow tables, also replayed by ordinary tests.
//!
//! A script has a line for each step: `flow`, `group` or `meter` with the text of a change, `send` with a port from 0
//! to 3 and a frame in hexadecimal, and `wait` with milliseconds. Other lines, and changes that are refused, are
//! nothing.

use super::FlowSwitch;
use super::probe::{Normal, Outcome, send};
use crate::action::Action;
use crate::modify::{FlowMod, GroupCommand, GroupKind, MeterCommand};
use crate::tables::Modification;
use crate::text::{NoNames, parse_flow, parse_group, parse_meter};
use port::{Now, Pipeline, Pipelines, PortId};
use std::sync::Arc;

/// Lines of a script; the rest is not executed.
const LINES: usize = 256;
/// Ports of the bridge.
const PORTS: u16 = 4;
const BRIDGE: &str = "br0";
const MILLISECOND: u64 = 1_000_000;

/// Executes a script on a switch whose worker has caches, and on one with a new worker for each frame.
///
/// # Panics
/// If their results differ, or the counters of a result do not add up.
pub fn fuzz_script(script: &[u8]) {
    let mut pair = Pair {
        cached: Switch::new(),
        fresh: Switch::new(),
        now: Now(1_000_000_000),
        is_random: false,
        learns: false,
    };
    let script = String::from_utf8_lossy(script);
    script.lines().take(LINES).for_each(|line| pair.execute(line));
}

struct Pair {
    cached: Switch,
    fresh: Switch,
    now: Now,
    /// Whether results depend on random numbers, which each switch has its own of: select groups, and ports of
    /// translations.
    is_random: bool,
    learns: bool,
}

struct Switch {
    switch: FlowSwitch,
    worker: Box<dyn Pipeline>,
}

impl Pair {
    fn execute(&mut self, line: &str) {
        let Some((step, rest)) = line.split_once(' ') else { return };
        match step {
            "send" => self.send(rest),
            "wait" => self.wait(rest.parse().unwrap_or(0)),
            _ => self.change(step, rest),
        }
    }

    fn change(&mut self, what: &str, text: &str) {
        let change = match what {
            "flow" => {
                parse_flow(text, None, &NoNames).map(|change| Modification::Flow(Box::new(distinct(change))))
            }
            "group" => parse_group(text, GroupCommand::Add, &NoNames).map(Modification::Group),
            "meter" => parse_meter(text, MeterCommand::Add).map(Modification::Meter),
            _ => return,
        };
        let Ok(change) = change else { return };
        self.learns |= text.contains("learn(");
        // A cached result learns again up to half a second later, so that what it learned also ends later.
        self.is_random |= text.contains("nat(")
            || (text.contains("learn(") && text.contains("_timeout="))
            || matches!(&change, Modification::Group(group) if group.kind == GroupKind::Select);
        let done = [&self.cached, &self.fresh]
            .map(|side| side.switch.modify(BRIDGE, std::slice::from_ref(&change), self.now).is_ok());
        assert_eq!(done[0], done[1], "{text}");
    }

    fn send(&mut self, text: &str) {
        let Some((port, frame)) = text.split_once(' ') else { return };
        let Some((port, frame)) = port.parse::<u16>().ok().zip(bytes(frame)) else { return };
        if port >= PORTS || !(14..=port::HEAD).contains(&frame.len()) {
            return;
        }
        self.fresh.worker = self.fresh.switch.worker(1);
        let [cached, fresh] = [&mut self.cached, &mut self.fresh].map(|side| {
            let mut outcome = side.send(port, &frame, self.now);
            // Which of these reasons counts a packet without an output, and whether one also counts the rest of a
            // packet with other outcomes, depends on the fields that flows read when its result was cached: they decide
            // where it has recirculated.
            outcome.drops.retain(|reason, _| !["flow-drop", "no-flow"].contains(reason));
            outcome
        });
        assert!(self.is_random || cached == fresh, "{text}: {cached:?}, without caches {fresh:?}");
        self.report();
    }

    /// Workers report once a millisecond. In each report, they repeat what some cached results have learned: all of
    /// them in half a second.
    fn report(&mut self) {
        let (reports, millis) = if self.learns { (32, 16) } else { (1, 1) };
        (0..reports).for_each(|_| self.wait(millis));
    }

    fn wait(&mut self, millis: u16) {
        self.now.0 += u64::from(millis) * MILLISECOND;
        for side in [&mut self.cached, &mut self.fresh] {
            side.worker.tick(self.now);
            side.switch.learn(self.now);
            side.switch.expire(self.now);
        }
    }
}

impl Switch {
    fn new() -> Self {
        let switch = FlowSwitch::new(Arc::new(Normal));
        let added = switch.add_bridge(BRIDGE);
        assert!(added.is_ok(), "{added:?}");
        for port in 0..PORTS {
            let added = switch.add_port(PortId(port), BRIDGE, None);
            assert!(added.is_ok(), "{added:?}");
        }
        let worker = switch.worker(0);
        Self { switch, worker }
    }

    fn send(&mut self, port: u16, frame: &[u8], now: Now) -> Outcome {
        send(self.worker.as_mut(), port, &[frame.to_vec()], now)
    }
}

/// The same, unless a packet may match it and another flow of its priority: which of them applies is not defined. Parts
/// of conjunctions may overlap, and have priorities of their own.
fn distinct(mut change: FlowMod) -> FlowMod {
    let is_part = change.instructions.apply.iter().any(|action| matches!(action, Action::Conjunction { .. }));
    change.priority = change.priority >> 1 | u16::from(is_part) << 15;
    change.flags.check_overlap = !is_part;
    change
}

/// The bytes of hexadecimal digits.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().as_chunks::<2>().0.iter();
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
