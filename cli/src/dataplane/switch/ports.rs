//! Ports of a running switch: how they join and leave their bridge, their protocols and the engine.

use super::{Member, Switch};
use crate::dataplane::convert::port_config;
use crate::dataplane::interface::DataPlaneError;
use crate::dataplane::logged::Logged;
use crate::dataplane::open::{load, open_in_switch};
use crate::settings::kinds::PortKind;
use crate::settings::kinds::kind::OpenError;
use crate::settings::model::RssMode;
use crate::settings::multicast::RouterSetting;
use crate::settings::topology::PortSettings;
use bridge::PortConfig;
use console::Diagnostic;
use engine::EngineError;
use port::{PortControl, PortId, Remedy};
use std::borrow::Cow;

impl Switch {
    /// Adds a created port to its bridge.
    pub(super) fn join(
        &self,
        port: &PortSettings,
        control: Box<dyn PortControl>,
    ) -> Result<(), DataPlaneError> {
        let mut members = self.members();
        let id = self.plug_in(port, control)?;
        let queues = port.wrappers.queues.clone();
        members.push(Member { id, name: port.name.clone(), bridge: port.bridge.clone(), queues });
        self.apply_mirrors(&members).inspect_err(|_| {
            // The first error has the cause.
            let _ = self.pull_out(id, &port.name);
        })
    }

    /// Passes `control` to the engine, with a number already known to its bridge.
    pub(super) fn plug_in(
        &self,
        port: &PortSettings,
        control: Box<dyn PortControl>,
    ) -> Result<PortId, DataPlaneError> {
        let refused = |e: &dyn Remedy| {
            let remedy = "correct the port's section, or remove another port";
            DataPlaneError::refused(format!("port \"{}\"", port.name), e, remedy)
        };
        let id = self.engine.reserve(&port.name).map_err(|e| refused(&e))?;
        self.captures.add_port(id, &port.name);
        let bond = self.bonds.of_member(&port.name);
        let is_member = bond.is_some();
        let joined = if let Some((bond, member)) = bond {
            let joined = self.bridges.join_bond(id, bond, member, self.engine.now());
            joined.map_err(|e| refused(&e))
        } else {
            let added = self.bridges.add_port(id, &port.bridge, &self.config_of(port));
            added.map_err(|e| refused(&e))
        };
        // A member is no port of the flow tables, and has the protocols of its bond.
        let joined = joined.and_then(|()| match &self.flows {
            Some(flows) if !is_member => {
                flows.add_port(id, &port.bridge, &port.name).map_err(|e| refused(&e))
            }
            _ => Ok(()),
        });
        let joined = joined.and_then(|()| if is_member { Ok(()) } else { self.join_links(id, port) });
        let joined = joined.and_then(|()| self.add_tunnel(id, port));
        self.export.add_port(id, port, speed(port));
        let joined = joined.and_then(|()| self.join_offload(id, port));
        let started = joined.and_then(|()| self.start_port(id, port, control).map_err(|e| refused(&e)));
        started.map(|()| id).inspect_err(|_| {
            // The first error has the cause; a port that never ran is not held.
            let _ = self.pull_out(id, &port.name);
        })
    }

    /// Configuration of a port on its bridge.
    pub(super) fn config_of(&self, port: &PortSettings) -> PortConfig {
        let quota = self.quotas().get(&port.bridge).copied().flatten();
        PortConfig { stp: self.links.has_tree(&port.bridge), ..port_config(port, quota) }
    }

    /// Adds a port to its protocols between neighbours.
    pub(super) fn join_links(&self, id: PortId, port: &PortSettings) -> Result<(), DataPlaneError> {
        let (mut config, mut port) = (port.links.config(speed(port)), Cow::Borrowed(port));
        // An application is no bridge and no router.
        if matches!(port.kind, PortKind::Granted(_)) {
            config.bpdu_guard = true;
            port.to_mut().links.multicast.multicast_router = RouterSetting::Never;
        }
        let added = self.links.add_port(id, &port, config);
        added.map_err(|e| {
            let remedy = "raise the limits on threads";
            DataPlaneError::Refused(Diagnostic::failed(format!("port \"{}\"", port.name), e, remedy))
        })
    }

    /// Adds a port to the kernel fast path, if it has it.
    pub(super) fn join_offload(&self, id: PortId, port: &PortSettings) -> Result<(), DataPlaneError> {
        if !port.kind.has_fast_path() {
            return Ok(());
        }
        let added = self.offload.add_port(id, &port.name, &port.bridge);
        added.map_err(|e| {
            let (place, remedy) = (format!("port \"{}\"", port.name), "remove `kernel_fast_path`");
            DataPlaneError::Refused(Diagnostic::failed(place, e, remedy))
        })
    }

    /// Makes a port a tunnel, if it is one.
    pub(super) fn add_tunnel(&self, id: PortId, port: &PortSettings) -> Result<(), DataPlaneError> {
        let (PortKind::Tunnel(tunnel), Some(flows)) = (&port.kind, &self.flows) else { return Ok(()) };
        let place = format!("port \"{}\"", port.name);
        let remedy = "choose another `remote`, `local`, `key` or `destination_port`";
        let added = flows.add_tunnel(id, tunnel.settings());
        added.map_err(|e| DataPlaneError::Refused(Diagnostic::failed(place, e, remedy)))
    }

    pub(super) fn start_port(
        &self,
        id: PortId,
        port: &PortSettings,
        control: Box<dyn PortControl>,
    ) -> Result<(), EngineError> {
        // A port with several queue pairs distributes packets by choosing a pair.
        let usual = if port.queue_pairs == 1 { self.rss_mode } else { RssMode::Queues };
        let control = Box::new(Logged::new(&port.name, control));
        match port.rss_mode.unwrap_or(usual) {
            RssMode::Software => self.engine.add_rss_port(id, control),
            RssMode::Queues => self.engine.add_reserved(id, control),
        }
    }

    /// Removes a port from engine and bridge. It is not an error if it is already removed. In any case the engine
    /// owns `id` afterwards and may assign it to another port.
    pub(super) fn pull_out(&self, id: PortId, name: &str) -> Result<(), DataPlaneError> {
        let removed = self.engine.remove_port(id);
        self.links.remove_port(id);
        self.export.remove_port(id);
        self.offload.remove_port(id);
        let _ = self.bridges.remove_port(id);
        let _ = self.bridges.leave_bond(id, self.engine.now());
        self.bonds.forget(name);
        self.flows.iter().for_each(|flows| flows.remove_port(id));
        match removed {
            Err(EngineError::WorkerHung { worker, .. }) => Err(DataPlaneError::held(name, worker)),
            _ => Ok(()),
        }
    }
}

/// Opens a port of the file, with the capture that it replays.
pub(super) fn open_first(port: &PortSettings) -> Result<Box<dyn PortControl>, Diagnostic> {
    open_in_switch(port, &load(port)?).map_err(OpenError::into_diagnostic)
}

/// Speed of the interface of a port in bits per second, if the kernel knows it. That of a TAP interface has no meaning.
pub(super) fn speed(port: &PortSettings) -> Option<u64> {
    let has_link = ["af_packet", "af_xdp"].contains(&port.kind.name());
    let interface = port.kind.claims().into_iter().find(|claim| has_link && claim.key == "interface")?;
    let text = std::fs::read_to_string(format!("/sys/class/net/{}/speed", interface.shown)).ok()?;
    // In Mbit/s; negative if it is not known.
    text.trim().parse::<u64>().ok().map(|speed| speed * 1_000_000)
}
