//! Hand-over of the ports of a running switch to another process, and its other side.

use super::Switch;
use super::ports::open_first;
use crate::dataplane::handover::Lost;
use crate::dataplane::interface::DataPlaneError;
use crate::dataplane::open::deferred_until;
use crate::dataplane::report::{FdbEntry, Origin};
use crate::dataplane::state::Continued;
use crate::settings::kinds::kind::OpenError;
use crate::settings::topology::{PortSettings, Topology};
use console::Diagnostic;
use engine::EngineError;
use port::handover::{Handover, Handovers, NotHandedOver};
use port::{PortControl, PortId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ports of a switch that takes over those of another process.
pub(crate) struct Succession {
    /// Names of the ports that this process opens once the other one has closed them.
    reopened: Vec<String>,
    /// Whether the other process has closed them.
    released: Arc<AtomicBool>,
    continued: Continued,
}

impl Succession {
    /// A succession whose ports `reopened` are opened after [`Succession::released`].
    pub(crate) fn new(reopened: Vec<String>, continued: Continued) -> Self {
        Self { reopened, released: Arc::default(), continued }
    }

    /// Lets the ports be opened that the other process has closed.
    pub(crate) fn released(&self) {
        // Pairs with the acquire load of the control thread, which opens the ports.
        self.released.store(true, Ordering::Release);
    }

    /// Creates a port: as a successor, or later, or at once if it has no peer.
    pub(super) fn open(&self, port: &PortSettings) -> Result<Box<dyn PortControl>, Diagnostic> {
        if self.reopened.contains(&port.name) {
            let released = self.released.clone();
            return Ok(deferred_until(port, move || released.load(Ordering::Acquire)));
        }
        let Some(successor) = port.kind.successor(port.common()) else { return open_first(port) };
        let wrapped = successor.and_then(|successor| port.wrappers.around_successor(successor, &port.name));
        wrapped.map_err(OpenError::into_diagnostic)
    }
}

impl Switch {
    /// Starts a switch as [`Switch::start`] does, whose ports take over those of another process.
    pub(crate) fn succeed(topology: &Topology, succession: &Succession) -> Result<Self, Diagnostic> {
        let (switch, errors) =
            Self::start_with(topology, &succession.continued, |port| succession.open(port))?;
        if errors.is_empty() { Ok(switch) } else { Err(Diagnostic::all(errors)) }
    }

    pub(super) fn by_name(&self, ports: Vec<(PortId, Handover)>) -> Handovers {
        let names = self.names();
        let name = |id: PortId| names.get(&id.0).cloned().unwrap_or_default();
        ports.into_iter().map(|(id, port)| (name(id), port)).collect()
    }

    /// # Errors
    /// This switch has no port with one of the names.
    pub(super) fn by_number(&self, ports: Handovers) -> Result<Vec<(PortId, Handover)>, DataPlaneError> {
        let missing = |name: &str| {
            let remedy = "use the configuration of the running switch";
            let error =
                Diagnostic::bad(format!("port \"{name}\""), "the new process has no such port", remedy);
            DataPlaneError::Refused(error)
        };
        let known = |(name, port): (String, _)| match self.place_of(&name) {
            Some((id, _)) => Ok((id, port)),
            None => Err(missing(&name)),
        };
        ports.into_iter().map(known).collect()
    }

    /// Static entries are part of the configuration. An address that does not fit is learned again.
    pub(super) fn restore_address(&self, entry: &FdbEntry) {
        let Some((port, bridge)) = self.place_of(&entry.port).filter(|_| entry.origin == Origin::Learned)
        else {
            return;
        };
        let _ = self.bridges.restore(&bridge, (entry.mac, entry.vlan), port, self.engine.now());
    }

    /// What another process cannot continue.
    pub(super) fn losses(&self) -> Result<Vec<Lost>, EngineError> {
        let names = self.names();
        let refused = self.engine.not_handed_over()?.into_iter();
        let refused = refused.filter(|(_, why)| *why != NotHandedOver::Internal);
        let named = |(id, why): (PortId, NotHandedOver)| {
            Lost::Port(names.get(&id.0).cloned().unwrap_or_default(), why.to_string())
        };
        let groups = self.links.multicast(&names).into_iter().filter(|bridge| bridge.total > 0);
        let groups = groups.map(|bridge| {
            Lost::Bridge(bridge.bridge, format!("{} multicast groups are learned again", bridge.total))
        });
        let trees = self.bridge_names().into_iter().filter(|bridge| self.links.has_tree(bridge));
        let trees = trees.map(|bridge| Lost::Bridge(bridge, "its spanning tree starts again".to_owned()));
        Ok(refused.map(named).chain(groups).chain(trees).collect())
    }
}
