//! Converts validated settings to those of the engine and the bridges.

use crate::settings::bonds::{self, BondSettings, LacpMode, LacpRate, LacpSettings};
use crate::settings::placement::{Placement, Rebalance};
use crate::settings::policy::Policy;
use crate::settings::topology::{self, BridgeSettings, Polling, PortSettings, QueueFull, WorkerSettings};
use crate::settings::vlan::Vlan;
use bridge::{BondConfig, BondMode, BridgeConfig, MacMoves, MemberConfig, PortConfig, Rate};
use engine::balance::Rebalancing;
use engine::{Rss, WorkerConfig};
use lacp::GroupConfig;
use port::PortId;
use std::num::NonZeroU32;
use wire::VlanId;

pub(super) fn rebalancing(placement: &Placement) -> Option<Rebalancing> {
    let moves = match placement.rebalance {
        Rebalance::Off => return None,
        Rebalance::DryRun => false,
        Rebalance::Auto => true,
    };
    Some(Rebalancing { interval: placement.interval.0, threshold: placement.threshold.0, moves })
}

pub(super) fn rss(rss: topology::Rss) -> Rss {
    match rss {
        topology::Rss::Symmetric => Rss::Symmetric,
        topology::Rss::Toeplitz => Rss::Toeplitz,
        topology::Rss::Pair => Rss::Pair,
    }
}

pub(super) fn worker_config(worker: &WorkerSettings) -> WorkerConfig {
    WorkerConfig {
        cpu: worker.cpu,
        polling: match worker.polling {
            Polling::Adaptive => engine::Polling::Adaptive,
            Polling::Busy => engine::Polling::Busy,
        },
        queue_full: match worker.queue_full {
            QueueFull::Drop => engine::QueueFull::Drop,
            QueueFull::Wait => engine::QueueFull::Wait,
        },
    }
}

pub(super) fn bridge_config(bridge: &BridgeSettings) -> BridgeConfig {
    BridgeConfig {
        capacity: bridge.table as usize,
        ageing_seconds: u32::try_from(bridge.ageing.0.as_secs()).unwrap_or(u32::MAX),
        forward_reserved: bridge.forward_reserved,
        mac_moves: match bridge.mac_moves {
            topology::MacMoves::Guarded => MacMoves::Guarded,
            topology::MacMoves::Free => MacMoves::Free,
        },
        dhcp_snooping: bridge.dhcp_snooping,
        flow_tables: bridge.pipeline == topology::PipelineKind::Openflow,
        multicast_snooping: bridge.multicast.is_some(),
    }
}

/// `stp` depends on the bridge of the port.
pub(super) fn port_config(port: &PortSettings, quota: Option<u32>) -> PortConfig {
    let Policy { security, limit_burst, .. } = &port.policy;
    let rate = |limit: Option<u32>| {
        let default = Rate::per_second(limit.and_then(NonZeroU32::new)?);
        Some(limit_burst.and_then(|burst| Rate::new(limit?, burst)).unwrap_or(default))
    };
    PortConfig {
        vlan: vlan(port.policy.vlan.as_ref()),
        trusted: security.trusted,
        learn: security.learn,
        max_macs: security.max_macs.or(quota),
        macs: security.macs.clone(),
        sources: (!security.sources.is_empty()).then(|| security.sources.clone()),
        broadcast_limit: rate(port.policy.broadcast_limit),
        unknown_limit: rate(port.policy.unknown_limit),
        stp: false,
        lldp: port.links.lldp,
    }
}

/// Configuration of a member of a bond.
pub(super) fn member_config(bond: &BondSettings, port: &str) -> MemberConfig {
    MemberConfig {
        priority: bond.priority(port),
        is_primary: bond.switching.primary.as_deref() == Some(port),
    }
}

/// Configuration of bond `id`.
pub(super) fn bond_config(bond: &BondSettings, id: PortId) -> BondConfig {
    let LacpSettings { mode, rate, system_priority, system_id, key, fallback, .. } = &bond.lacp;
    let lacp = GroupConfig {
        is_active: *mode == LacpMode::Active,
        is_fast: *rate == LacpRate::Fast,
        system_priority: *system_priority,
        system: system_id.unwrap_or_default(),
        // 0 is reserved.
        key: key.unwrap_or(id.0 + 1),
    };
    let switching = &bond.switching;
    BondConfig {
        mode: match bond.mode {
            bonds::BondMode::ActiveBackup => BondMode::ActiveBackup,
            bonds::BondMode::BalanceSlb => BondMode::BalanceSlb,
            bonds::BondMode::BalanceTcp => BondMode::BalanceTcp,
        },
        lacp: (*mode != LacpMode::Off).then_some(lacp),
        fallback: *fallback,
        up_delay: switching.up_delay.0,
        down_delay: switching.down_delay.0,
        rebalance: Some(switching.rebalance.0).filter(|interval| !interval.is_zero()),
    }
}

/// The configuration must be valid: every number is a VLAN identifier.
pub(super) fn vlan(vlan: Option<&Vlan>) -> bridge::Vlan {
    match vlan {
        None => bridge::Vlan::Transparent,
        Some(Vlan::Access(own)) => VlanId::new(*own).map_or_else(Default::default, bridge::Vlan::Access),
        Some(Vlan::Trunk { trunk, native }) => bridge::Vlan::Trunk {
            allowed: trunk.iter().copied().filter_map(VlanId::new).collect(),
            native: native.and_then(VlanId::new),
        },
    }
}
