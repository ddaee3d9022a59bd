//! A configuration as text: a tree of one line for each worker, bridge and port.

use super::{
    BridgeSettings, MacMoves, PipelineKind, Polling, PortSettings, QueueFull, Rss, StaticEntry, Topology,
    WorkerSettings,
};
use crate::settings::model::{ModelSettings, RoleSettings, RssMode};
use std::fmt;

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "switch {}", self.switch.name)?;
        if let Some(path) = &self.switch.control {
            write!(f, ", control {}", path.display())?;
        }
        if let Some(path) = &self.switch.grants {
            write!(f, ", grants at {}", path.display())?;
        }
        if let Some(address) = self.switch.metrics {
            write!(f, ", metrics at {address}")?;
        }
        if let Some(address) = self.switch.web {
            write!(f, ", web page at {address}")?;
        }
        f.write_str(match self.switch.rss {
            Rss::Symmetric => "",
            Rss::Toeplitz => ", RSS as in network cards",
            Rss::Pair => ", packets keep the number of their queue pair",
        })?;
        let branches = self.branches();
        for (i, (text, leaves)) in branches.iter().enumerate() {
            let last = i + 1 == branches.len();
            write!(f, "\n{} {text}", if last { "└─" } else { "├─" })?;
            for (j, leaf) in leaves.iter().enumerate() {
                let bar = if last { ' ' } else { '│' };
                let knee = if j + 1 == leaves.len() { "└─" } else { "├─" };
                write!(f, "\n{bar}  {knee} {leaf}")?;
            }
        }
        Ok(())
    }
}

impl Topology {
    /// The subtree of the switch: workers and their placement, then bridges with their ports, static entries and flows.
    fn branches(&self) -> Vec<(String, Vec<String>)> {
        let workers = self.workers.iter().enumerate();
        let workers = workers.map(|(i, worker)| (format!("worker {i}: {worker}"), Vec::new()));
        let usual = self.model == ModelSettings::default();
        let model = (!usual).then(|| (self.model.to_string(), Vec::new()));
        let placement = self.placement.iter().map(|placement| (placement.to_string(), placement.leaves()));
        model
            .into_iter()
            .chain(workers)
            .chain(placement)
            .chain(self.bridges.iter().map(|b| (b.to_string(), self.leaves(b))))
            .chain((!self.conntrack.is_default()).then(|| (self.conntrack.to_string(), Vec::new())))
            .chain(self.grants.iter().map(|grant| (grant.to_string(), Vec::new())))
            .collect()
    }

    fn leaves(&self, bridge: &BridgeSettings) -> Vec<String> {
        let ports = self.ports.iter().filter(|port| port.bridge == bridge.name);
        let acl = self.flows.acl.iter().filter(|rule| rule.bridge == bridge.name);
        let flows = self.flows.flows.iter().filter(|flow| flow.bridge == bridge.name);
        let flows = acl.map(ToString::to_string).chain(flows.map(ToString::to_string));
        let statics = bridge.statics.iter().map(ToString::to_string);
        let bonds = self.bonds.iter().filter(|bond| bond.bridge == bridge.name).map(ToString::to_string);
        let mirrors = self.mirrors.iter().filter(|mirror| mirror.bridge == bridge.name);
        let mirrors = mirrors.map(ToString::to_string);
        let underlays = self.underlays.iter().filter(|underlay| underlay.bridge == bridge.name);
        let statics = underlays.map(ToString::to_string).chain(statics);
        ports.map(ToString::to_string).chain(bonds).chain(statics).chain(flows).chain(mirrors).collect()
    }
}

impl fmt::Display for WorkerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cpu {
            Some(cpu) => write!(f, "cpu {cpu}")?,
            None => f.write_str("any cpu")?,
        }
        if self.roles != RoleSettings::default() {
            write!(f, ", {}", self.roles)?;
        }
        f.write_str(match self.polling {
            Polling::Adaptive => ", sleeps when idle",
            Polling::Busy => ", always polls",
        })?;
        f.write_str(match self.queue_full {
            QueueFull::Drop => ", drops when a queue is full",
            QueueFull::Wait => ", waits when a queue is full",
        })
    }
}

impl fmt::Display for BridgeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flows = if self.pipeline == PipelineKind::Openflow { "OpenFlow, " } else { "" };
        write!(f, "bridge {}: {flows}{} addresses", self.name, self.table)?;
        write!(f, ", aged out after {}", self.ageing)?;
        if let Some(most) = self.max_macs_per_port {
            write!(f, ", at most {most} per port")?;
        }
        f.write_str(if self.forward_reserved { ", reserved groups forwarded" } else { "" })?;
        f.write_str(if self.mac_moves == MacMoves::Free { ", addresses move freely" } else { "" })?;
        f.write_str(if self.dhcp_snooping { ", DHCP snooping" } else { "" })?;
        self.stp.iter().try_for_each(|stp| stp.fmt(f))?;
        self.multicast.iter().try_for_each(|multicast| multicast.fmt(f))?;
        self.openflow.iter().try_for_each(|openflow| openflow.fmt(f))?;
        self.export.fmt(f)
    }
}

impl fmt::Display for StaticEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "static {} at port {}", self.mac, self.port)?;
        if self.vlan == 0 { Ok(()) } else { write!(f, ", VLAN {}", self.vlan) }
    }
}

impl fmt::Display for PortSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, queue_pairs, mtu, .. } = self;
        let pairs = if *queue_pairs == 1 { "pair" } else { "pairs" };
        write!(f, "port {name}: {kind}, {queue_pairs} queue {pairs}")?;
        if let Some(mtu) = mtu {
            write!(f, ", MTU {mtu}")?;
        }
        self.policy.fmt(f)?;
        self.links.fmt(f)?;
        f.write_str(match self.rss_mode {
            None => "",
            Some(RssMode::Queues) => ", RSS by queues",
            Some(RssMode::Software) => ", RSS in software",
        })?;
        self.wrappers.fmt(f)
    }
}
