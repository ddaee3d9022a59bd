//! The spanning tree of one bridge: carries out the events of its state machines.
//!
//! A neighbour that reports topology changes without end costs one flush a second.

use super::Environment;
use crate::dataplane::link_report::{StpPortReport, StpReport};
use crate::dataplane::log_limit::LogLimit;
use crate::settings::links::address_of;
use crate::settings::topology::BridgeSettings;
use bridge::PortState;
use port::PortId;
use rstp::{Bridge, Event, PortConfig, State};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Flushes at once; one more each second.
const MAX_FLUSHES: u32 = 10;

pub(super) struct Tree {
    name: String,
    bridge: Bridge,
    /// Ports by number.
    ports: BTreeMap<u16, Port>,
    flushes: Flushes,
    /// Ports whose addresses were flushed since [`Tree::take_flushed`].
    flushed: BTreeSet<PortId>,
}

struct Port {
    name: String,
    /// Limit of log lines: a neighbour determines how often the state changes.
    lines: LogLimit,
}

/// Flushes of addresses that were done and that are due.
struct Flushes {
    done: u64,
    due: BTreeSet<PortId>,
    /// Flushes that are allowed now.
    allowed: u32,
    counted_at: Duration,
}

/// Number of a port in the protocol, from 1.
fn number(port: PortId) -> u16 {
    port.0 + 1
}

fn port(number: u16) -> PortId {
    PortId(number - 1)
}

impl Tree {
    /// The tree of a bridge; `None` if it has none.
    pub(super) fn new(switch: &str, bridge: &BridgeSettings, now: Duration) -> Option<Self> {
        let settings = bridge.stp.as_ref()?;
        let address = settings.address.unwrap_or_else(|| address_of(switch, &bridge.name));
        // Validated settings are accepted.
        let machine = Bridge::new(address, settings.config(), now).ok()?;
        let flushes = Flushes { done: 0, due: BTreeSet::new(), allowed: MAX_FLUSHES, counted_at: now };
        Some(Self {
            name: bridge.name.clone(),
            bridge: machine,
            ports: BTreeMap::new(),
            flushes,
            flushed: BTreeSet::new(),
        })
    }

    pub(super) fn add_port(&mut self, id: PortId, name: &str, config: PortConfig, environment: &Environment) {
        match self.bridge.add_port(number(id), config) {
            Ok(()) => {
                self.ports.insert(number(id), Port { name: name.to_owned(), lines: LogLimit::default() });
                // The number may have been that of a removed port, whose last state was published since.
                environment.switch.set_states(&self.name, [(id, PortState::Discarding)].into_iter());
            }
            Err(reason) => warn!(port = name, bridge = self.name, %reason, "not in the spanning tree"),
        }
        self.act(environment);
    }

    pub(super) fn remove_port(&mut self, id: PortId, environment: &Environment) {
        if self.ports.remove(&number(id)).is_some() {
            self.bridge.remove_port(number(id));
            self.act(environment);
        }
    }

    pub(super) fn set_link(&mut self, id: PortId, is_up: bool, environment: &Environment) {
        self.bridge.set_link(number(id), is_up);
        self.act(environment);
    }

    pub(super) fn receive(&mut self, id: PortId, frame: &[u8], environment: &Environment) {
        if frame.starts_with(&rstp::GROUP.octets()) {
            self.bridge.receive(number(id), frame);
            self.act(environment);
        }
    }

    /// Runs the timers. Returns the time of the next call; `None` without ports.
    pub(super) fn tick(&mut self, now: Duration, environment: &Environment) -> Option<Duration> {
        let next = self.bridge.tick(now);
        let seconds = now.saturating_sub(self.flushes.counted_at).as_secs();
        self.flushes.counted_at += Duration::from_secs(seconds);
        let allowed = self.flushes.allowed.saturating_add(u32::try_from(seconds).unwrap_or(MAX_FLUSHES));
        self.flushes.allowed = allowed.min(MAX_FLUSHES);
        self.act(environment);
        (!self.ports.is_empty()).then_some(next)
    }

    /// Carries out the events of the state machines: states first, so that a frame tells what is true.
    fn act(&mut self, environment: &Environment) {
        let (mut states, mut frames) = (BTreeMap::new(), Vec::new());
        for event in self.bridge.take_events() {
            match event {
                Event::State(number, state) => _ = states.insert(number, state),
                Event::Send(number, frame) => frames.push((number, frame)),
                Event::Flush(number) => _ = self.flushes.due.insert(port(number)),
                Event::Guarded(number) => self.log_guarded(number),
            }
        }
        self.publish(&states, environment);
        for (number, frame) in frames {
            environment.send(port(number), frame as Box<[u8]>);
        }
        self.flush(environment);
    }

    fn publish(&mut self, states: &BTreeMap<u16, State>, environment: &Environment) {
        let ports = states.iter().map(|(number, state)| {
            let state = match state {
                State::Discarding => PortState::Discarding,
                State::Learning => PortState::Learning,
                State::Forwarding => PortState::Forwarding,
            };
            (port(*number), state)
        });
        if !states.is_empty() {
            environment.switch.set_states(&self.name, ports);
        }
        for (number, state) in states {
            self.log_state(*number, *state);
        }
    }

    fn log_state(&mut self, number: u16, state: State) {
        let role = self.bridge.port_status(number).map(|status| status.role).unwrap_or_default();
        let Some(port) = self.ports.get_mut(&number) else { return };
        if let Some(left_out) = port.lines.admit(Instant::now()) {
            let left_out = (left_out > 0).then_some(left_out);
            info!(port = port.name, bridge = self.name, left_out, %role, "{state}");
        }
    }

    fn log_guarded(&self, number: u16) {
        let port = self.ports.get(&number).map(|port| &port.name);
        warn!(port, bridge = self.name, "stopped: a BPDU was received (bpdu_guard)");
    }

    fn flush(&mut self, environment: &Environment) {
        let Flushes { done, due, allowed, .. } = &mut self.flushes;
        if due.is_empty() || *allowed == 0 {
            return;
        }
        // The bridge exists as long as the switch.
        let _ = environment.switch.flush_ports(&self.name, due);
        self.flushed.append(due);
        (*done, *allowed) = (*done + 1, *allowed - 1);
    }

    /// Ports whose addresses were flushed since the last call.
    pub(super) fn take_flushed(&mut self) -> BTreeSet<PortId> {
        std::mem::take(&mut self.flushed)
    }

    pub(super) fn report(&self) -> StpReport {
        let status = self.bridge.status();
        let root_port =
            status.root_port.and_then(|number| self.ports.get(&number).map(|port| port.name.clone()));
        StpReport::of(&status, root_port, self.flushes.done)
    }

    /// States of the ports, by name.
    pub(super) fn port_reports(&self) -> Vec<(String, StpPortReport)> {
        let report = |(number, port): (&u16, &Port)| {
            Some((port.name.clone(), self.bridge.port_status(*number)?.into()))
        };
        self.ports.iter().filter_map(report).collect()
    }
}
