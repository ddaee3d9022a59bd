//! Variables of a port (17.17, 17.19), grouped by the state machine that owns them.

use crate::bpdu::Bpdu;
use crate::config::PortConfig;
use crate::status::{PortCounts, Role, State};
use crate::vector::{Times, Vector};

/// Time in which a neighbour of another version, or a host, is detected: `MigrateTime`, in seconds.
pub(crate) const MIGRATE_TIME: u8 = 3;
/// Mask of a port number in a port identifier.
pub(crate) const MAX_PORT: u16 = 0xfff;

pub(crate) struct Port {
    pub(crate) number: u16,
    pub(crate) config: PortConfig,
    pub(crate) link: Link,
    pub(crate) timers: Timers,
    pub(crate) info: Information,
    pub(crate) roles: Roles,
    pub(crate) handshake: Handshake,
    pub(crate) flow: Flow,
    pub(crate) topology: Topology,
    pub(crate) version: Version,
    /// `newInfo`: a BPDU is to be sent.
    pub(crate) new_info: bool,
    pub(crate) counts: PortCounts,
}

/// Whether the port is in use.
#[derive(Default)]
pub(crate) struct Link {
    pub(crate) is_up: bool,
    /// A BPDU has stopped the port, which has a guard.
    pub(crate) guarded: bool,
    /// `operEdge`
    pub(crate) edge: bool,
}

/// Timers in seconds (17.17); 0: expired.
#[derive(Default)]
pub(crate) struct Timers {
    pub(crate) edge_delay: u8,
    /// `fdWhile`
    pub(crate) forward: u8,
    /// `helloWhen`
    pub(crate) hello: u8,
    /// `mdelayWhile`
    pub(crate) migration: u8,
    /// `rbWhile`
    pub(crate) recent_backup: u8,
    /// `rcvdInfoWhile`
    pub(crate) received: u8,
    /// `rrWhile`
    pub(crate) recent_root: u8,
    /// `tcWhile`
    pub(crate) topology_change: u8,
    /// `txCount`: BPDUs sent in the last seconds.
    pub(crate) sent: u8,
}

impl Timers {
    /// Port Timers state machine (17.22).
    pub(crate) fn tick(&mut self) {
        let Self {
            edge_delay,
            forward,
            hello,
            migration,
            recent_backup,
            received,
            recent_root,
            topology_change,
            sent,
        } = self;
        let all = [
            edge_delay,
            forward,
            hello,
            migration,
            recent_backup,
            received,
            recent_root,
            topology_change,
            sent,
        ];
        for timer in all {
            *timer = timer.saturating_sub(1);
        }
    }
}

/// Origin of a port's information: `infoIs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Source {
    #[default]
    Disabled,
    Aged,
    Mine,
    Received,
}

/// Port Information state machine.
#[derive(Default)]
pub(crate) struct Information {
    pub(crate) source: Source,
    /// `portPriority`
    pub(crate) vector: Vector,
    /// `portTimes`
    pub(crate) times: Times,
    /// `designatedPriority`
    pub(crate) designated: Vector,
    /// `designatedTimes`
    pub(crate) designated_times: Times,
    /// Received BPDU that is not handled yet: `rcvdMsg`.
    pub(crate) message: Option<Bpdu>,
    /// `updtInfo`: `designated` becomes the port's.
    pub(crate) update: bool,
}

/// Port Role Selection state machine.
#[derive(Default)]
pub(crate) struct Roles {
    pub(crate) role: Role,
    /// `selectedRole`
    pub(crate) chosen: Role,
    pub(crate) selected: bool,
    pub(crate) reselect: bool,
}

/// Proposals and agreements.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "the variables of the standard")]
pub(crate) struct Handshake {
    pub(crate) agree: bool,
    pub(crate) agreed: bool,
    pub(crate) disputed: bool,
    pub(crate) proposed: bool,
    pub(crate) proposing: bool,
    pub(crate) sync: bool,
    pub(crate) synced: bool,
    /// `reRoot`
    pub(crate) reroot: bool,
}

/// Port State Transition state machine: wanted and actual state.
#[derive(Default)]
pub(crate) struct Flow {
    pub(crate) learn: bool,
    pub(crate) forward: bool,
    pub(crate) state: State,
}

/// State of the Topology Change state machine.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Inactive,
    Learning,
    Active,
}

/// Topology Change state machine.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "the variables of the standard")]
pub(crate) struct Topology {
    pub(crate) phase: Phase,
    /// `rcvdTc`
    pub(crate) change: bool,
    /// `rcvdTcn`
    pub(crate) notification: bool,
    /// `rcvdTcAck`
    pub(crate) acknowledgement: bool,
    /// `tcProp`
    pub(crate) propagate: bool,
    /// `tcAck`: the next configuration BPDU acknowledges a notification.
    pub(crate) acknowledge: bool,
}

/// State of the Port Protocol Migration state machine.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Migration {
    /// Sends RSTP, and ignores the neighbour's version.
    #[default]
    Checking,
    /// Sends STP, and ignores the neighbour's version.
    Selecting,
    /// Follows the neighbour's version.
    Sensing,
}

/// Port Protocol Migration state machine.
#[derive(Default)]
pub(crate) struct Version {
    pub(crate) migration: Migration,
    /// `sendRSTP`
    pub(crate) rapid: bool,
    /// `rcvdRSTP`
    pub(crate) received_rapid: bool,
    /// `rcvdSTP`
    pub(crate) received_stp: bool,
}

impl Port {
    /// A port without link (`BEGIN`).
    pub(crate) fn new(number: u16, config: PortConfig, times: Times, rapid: bool) -> Self {
        let info = Information { designated_times: times, ..Information::default() };
        let roles = Roles { reselect: true, ..Roles::default() };
        let handshake = Handshake { sync: true, reroot: true, ..Handshake::default() };
        let timers = Timers {
            forward: times.max_age,
            recent_root: times.forward_delay,
            migration: MIGRATE_TIME,
            edge_delay: MIGRATE_TIME,
            ..Timers::default()
        };
        Self {
            number,
            config,
            link: Link { edge: config.edge == crate::config::Edge::Yes, ..Link::default() },
            timers,
            info,
            roles,
            handshake,
            flow: Flow::default(),
            topology: Topology::default(),
            version: Version { rapid, ..Version::default() },
            new_info: true,
            counts: PortCounts::default(),
        }
    }

    /// `portEnabled`
    pub(crate) fn is_enabled(&self) -> bool {
        self.link.is_up && !self.link.guarded
    }

    /// Port identifier.
    pub(crate) fn id(&self) -> u16 {
        u16::from(self.config.priority) << 8 | self.number
    }

    /// `selected` and not `updtInfo`: the role is final.
    pub(crate) fn is_settled(&self) -> bool {
        self.roles.selected && !self.info.update
    }

    /// `forwardDelay` (17.20.5)
    pub(crate) fn forward_delay(&self) -> u8 {
        let times = &self.info.designated_times;
        if self.version.rapid { times.hello } else { times.forward_delay }
    }

    /// Requests a new selection of roles.
    pub(crate) fn reselect(&mut self) {
        (self.roles.reselect, self.roles.selected) = (true, false);
    }
}
