//! Execution model of the workers: keys of `[worker]`, and the engine's settings derived from them.

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// An execution model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ModelKind {
    /// Each worker receives, processes and sends packets.
    #[default]
    RunToCompletion,
    /// Like run-to-completion, but an idle worker takes bursts from the fullest queue of another.
    Stealing,
    /// Stages, on separate or shared CPUs.
    Pipeline,
}

/// Where packets of a port with one queue pair are distributed to workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RssMode {
    /// Not distributed: each queue has one worker.
    #[default]
    Queues,
    /// In software, by flow.
    Software,
}

/// Behaviour when the next stage is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Full {
    /// Packets are dropped and counted as `handoff-full`.
    Drop,
    /// The stage receives only as many packets as fit.
    #[default]
    Wait,
}

/// Order preserved between stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    #[default]
    Flow,
    Port,
    None,
}

/// Part of the packet processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Receives packets from ports.
    Rx,
    /// Decides on packets.
    Work,
    /// Sends packets to ports.
    Tx,
}

impl Role {
    pub(crate) const ALL: [Self; 3] = [Self::Rx, Self::Work, Self::Tx];

    /// Name in files, tables and JSON.
    pub(crate) const fn name(self) -> &'static str {
        self.engine().name()
    }

    pub(crate) const fn engine(self) -> engine::Role {
        match self {
            Self::Rx => engine::Role::Rx,
            Self::Work => engine::Role::Work,
            Self::Tx => engine::Role::Tx,
        }
    }
}

/// Roles of one worker; none if it runs to completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RoleSettings {
    pub(crate) rx: bool,
    pub(crate) work: bool,
    pub(crate) tx: bool,
}

impl RoleSettings {
    pub(crate) fn set(&mut self, role: Role, has: bool) {
        match role {
            Role::Rx => self.rx = has,
            Role::Work => self.work = has,
            Role::Tx => self.tx = has,
        }
    }

    pub(crate) fn has(self, role: Role) -> bool {
        match role {
            Role::Rx => self.rx,
            Role::Work => self.work,
            Role::Tx => self.tx,
        }
    }

    pub(crate) fn engine(self) -> engine::Roles {
        engine::Roles { rx: self.rx, work: self.work, tx: self.tx }
    }
}

impl fmt::Display for RoleSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.engine().each().map(engine::Role::name).collect();
        f.write_str(&names.join(" "))
    }
}

/// `[worker]`, without its CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ModelSettings {
    pub(crate) model: ModelKind,
    pub(crate) rss_mode: RssMode,
    /// Maximum number of packets between two stages.
    pub(crate) ring: usize,
    /// Number of packets published to the next stage at once; `None`: those of one burst.
    pub(crate) write_unit: Option<usize>,
    /// Number of packets taken from the previous stage at once.
    pub(crate) read_unit: usize,
    pub(crate) full: Full,
    pub(crate) order: Order,
}

impl Default for ModelSettings {
    fn default() -> Self {
        let handoffs = engine::HandoffConfig::default();
        Self {
            model: ModelKind::default(),
            rss_mode: RssMode::default(),
            ring: handoffs.ring,
            write_unit: None,
            read_unit: handoffs.read_unit,
            full: Full::default(),
            order: Order::default(),
        }
    }
}

impl ModelSettings {
    /// The engine's model, for workers with these roles.
    pub(crate) fn engine(&self, roles: impl Iterator<Item = RoleSettings>) -> engine::Model {
        let handoffs = self.handoffs();
        match (self.model, self.rss_mode) {
            (ModelKind::RunToCompletion, RssMode::Queues) => engine::Model::RunToCompletion,
            (ModelKind::Stealing, _) => engine::Model::Stealing,
            (ModelKind::RunToCompletion, RssMode::Software) => engine::Model::SoftwareRss(handoffs),
            (ModelKind::Pipeline, _) => {
                let roles = roles.map(RoleSettings::engine).collect();
                engine::Model::Pipeline(engine::PipelineConfig { roles, handoffs })
            }
        }
    }

    fn handoffs(&self) -> engine::HandoffConfig {
        engine::HandoffConfig {
            ring: self.ring,
            write_unit: self.write_unit.unwrap_or(0),
            read_unit: self.read_unit,
            full: match self.full {
                Full::Drop => engine::QueueFull::Drop,
                Full::Wait => engine::QueueFull::Wait,
            },
            order: match self.order {
                Order::Flow => engine::Order::Flow,
                Order::Port => engine::Order::Port,
                Order::None => engine::Order::None,
            },
            ..engine::HandoffConfig::default()
        }
    }
}

impl fmt::Display for ModelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.model, self.rss_mode) {
            (ModelKind::Pipeline, _) => "pipeline",
            (ModelKind::RunToCompletion, RssMode::Queues) => return f.write_str("run-to-completion"),
            (ModelKind::Stealing, _) => {
                return f.write_str("stealing: idle workers take bursts from busy ones");
            }
            (ModelKind::RunToCompletion, RssMode::Software) => "run-to-completion, RSS in software",
        })?;
        write!(f, ": rings of {}, read by {}", self.ring, self.read_unit)?;
        match self.write_unit {
            Some(unit) => write!(f, ", written by {unit}")?,
            None => f.write_str(", written by bursts")?,
        }
        f.write_str(match self.order {
            Order::Flow => ", flows keep their order",
            Order::Port => ", ports keep their order",
            Order::None => ", order is not kept",
        })?;
        f.write_str(match self.full {
            Full::Drop => ", drops when a stage is full",
            Full::Wait => ", waits when a stage is full",
        })
    }
}
