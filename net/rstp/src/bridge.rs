//! A bridge: its ports, its clock, and the events of its state machines.

use crate::bpdu::{Bpdu, Frame};
use crate::config::{BridgeConfig, ConfigError, PortConfig, Protocol};
use crate::port::{MAX_PORT, MIGRATE_TIME, Port};
use crate::status::{BridgeStatus, PortStatus, State};
use crate::vector::{BridgeId, Times, Vector};
use std::time::Duration;
use wire::MacAddress;

/// Seconds that [`Bridge::tick`] makes up for at most: after that, all received information has aged.
const MAX_CATCH_UP: u64 = 128;

/// Tasks of the caller, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Send a frame.
    Send(u16, Box<Frame>),
    /// The state of a port has changed.
    State(u16, State),
    /// Remove the addresses that were learned from a port.
    Flush(u16),
    /// A BPDU was received on a port with a guard, which has stopped until its link goes down.
    Guarded(u16),
}

/// A bridge of a spanning tree.
pub struct Bridge {
    pub(crate) config: BridgeConfig,
    pub(crate) id: BridgeId,
    pub(crate) ports: Vec<Port>,
    /// `rootPriority`
    pub(crate) root: Vector,
    /// `rootTimes`
    pub(crate) root_times: Times,
    /// `rootPortId`: number of the root port.
    pub(crate) root_port: Option<u16>,
    pub(crate) events: Vec<Event>,
    pub(crate) topology_changes: u64,
    /// Start, and the number of seconds since then that have passed through the timers.
    start: Duration,
    seconds: u64,
}

/// A port was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddPortError {
    /// Invalid settings.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The number is in use, or not in 1 to 4095.
    #[error("port number {0} is in use or not in 1 to 4095")]
    Number(u16),
}

impl Bridge {
    /// A bridge without ports. `address` is unique among all bridges; `now` counts from any origin.
    ///
    /// # Errors
    /// If the settings are invalid.
    pub fn new(address: MacAddress, config: BridgeConfig, now: Duration) -> Result<Self, ConfigError> {
        config.validate()?;
        let id = BridgeId::new(config.priority, address);
        Ok(Self {
            config,
            id,
            ports: Vec::new(),
            root: Vector { root: id, bridge: id, ..Vector::default() },
            root_times: times(config),
            root_port: None,
            events: Vec::new(),
            topology_changes: 0,
            start: now,
            seconds: 0,
        })
    }

    /// Adds a port, whose link is down.
    ///
    /// # Errors
    /// If the settings are invalid, or the number is in use or not in 1 to 4095.
    pub fn add_port(&mut self, number: u16, config: PortConfig) -> Result<(), AddPortError> {
        config.validate()?;
        let is_valid = (1..=MAX_PORT).contains(&number) && self.position(number).is_none();
        if !is_valid {
            return Err(AddPortError::Number(number));
        }
        self.ports.push(Port::new(number, config, times(self.config), self.is_rapid()));
        self.settle();
        Ok(())
    }

    /// Removes a port. Does nothing if there is none.
    pub fn remove_port(&mut self, number: u16) {
        let Some(at) = self.position(number) else { return };
        self.ports.remove(at);
        self.ports.iter_mut().for_each(Port::reselect);
        self.settle();
    }

    /// Sets whether the link of a port is up. A port that a BPDU has stopped can run again after its link was down.
    pub fn set_link(&mut self, number: u16, is_up: bool) {
        let Some(at) = self.position(number) else { return };
        let link = &mut self.ports[at].link;
        if link.is_up != is_up {
            (link.is_up, link.guarded) = (is_up, link.guarded && is_up);
            self.settle();
        }
    }

    /// Handles a frame that was received on a port (17.23). Invalid BPDUs and those of the port itself are counted.
    pub fn receive(&mut self, number: u16, frame: &[u8]) {
        let id = self.id;
        let Some(port) = self.position(number).map(|at| &mut self.ports[at]) else { return };
        let bpdu = Bpdu::decode(frame).ok();
        let is_own = |parameters: &crate::Parameters| {
            parameters.vector.bridge == id && parameters.vector.port == port.id()
        };
        let is_own = match &bpdu {
            Some(Bpdu::Config(parameters) | Bpdu::Rapid(parameters)) => is_own(parameters),
            _ => false,
        };
        let Some(bpdu) = bpdu.filter(|_| !is_own) else {
            port.counts.invalid += 1;
            return;
        };
        port.counts.received += 1;
        if !port.is_enabled() {
            return;
        }
        if port.config.bpdu_guard {
            port.link.guarded = true;
            self.events.push(Event::Guarded(number));
        } else {
            let is_rapid = matches!(bpdu, Bpdu::Rapid(_));
            (port.version.received_rapid, port.version.received_stp) = (is_rapid, !is_rapid);
            port.link.edge = false;
            port.timers.edge_delay = MIGRATE_TIME;
            port.info.message = Some(bpdu);
        }
        self.settle();
    }

    /// Runs the timers up to `now`. Returns the time of the next call.
    pub fn tick(&mut self, now: Duration) -> Duration {
        let seconds = now.saturating_sub(self.start).as_secs();
        let due = seconds.saturating_sub(self.seconds).min(MAX_CATCH_UP);
        for _ in 0..due {
            self.ports.iter_mut().for_each(|port| port.timers.tick());
            self.settle();
        }
        self.seconds = self.seconds.max(seconds);
        self.start + Duration::from_secs(self.seconds + 1)
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// State of the bridge.
    pub fn status(&self) -> BridgeStatus {
        BridgeStatus {
            protocol: self.config.protocol,
            id: self.id,
            root: self.root.root,
            cost: self.root.cost,
            root_port: self.root_port,
            times: self.root_times,
            topology_changes: self.topology_changes,
        }
    }

    /// State of a port; `None` if there is none.
    pub fn port_status(&self, number: u16) -> Option<PortStatus> {
        let port = &self.ports[self.position(number)?];
        Some(PortStatus {
            number,
            role: port.roles.role,
            state: port.flow.state,
            id: port.id(),
            cost: port.config.cost,
            designated: port.info.vector,
            edge: port.link.edge,
            point_to_point: port.config.point_to_point,
            rapid: port.version.rapid,
            guarded: port.link.guarded,
            counts: port.counts,
        })
    }

    /// `rstpVersion`
    pub(crate) fn is_rapid(&self) -> bool {
        self.config.protocol == Protocol::Rstp
    }

    /// `BridgeTimes`
    pub(crate) fn own_times(&self) -> Times {
        times(self.config)
    }

    fn position(&self, number: u16) -> Option<usize> {
        self.ports.iter().position(|port| port.number == number)
    }
}

fn times(config: BridgeConfig) -> Times {
    let BridgeConfig { hello, max_age, forward_delay, .. } = config;
    Times { message_age: 0, max_age, hello, forward_delay }
}
