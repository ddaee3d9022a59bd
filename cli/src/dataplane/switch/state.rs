//! State that another process continues beside ports: flow tables, connections and leases, and its other side.

use super::Switch;
use crate::dataplane::flows::Flows;
use crate::dataplane::interface::DataPlaneError;
use crate::dataplane::state::{Continued, SaveStep, StateMessage, monotonic};
use crate::settings::topology::Topology;
use conntrack::SavedChanges;
use port::PortId;
use std::collections::BTreeMap;
use std::time::Duration;
use tracing::error;

/// Passes of connections while packets pass.
const PASSES: usize = 8;
/// Changes of connections of a pass after which the ports may stop.
const FEW: usize = 1024;
/// Changes of connections in one message.
const BATCH: usize = 4096;
/// Number of a port that no longer exists.
const NO_PORT: u16 = u16::MAX;
/// Time in which workers add the packets of flows to their counters.
const COUNTED: Duration = Duration::from_millis(600);

type Sink<'a> = &'a mut dyn FnMut(StateMessage) -> Result<(), DataPlaneError>;

impl Switch {
    /// What a switch must know at its start to continue this one.
    pub(super) fn continued(&self) -> Continued {
        let numbers = self.flows.as_ref().map(Flows::continued).unwrap_or_default();
        Continued { origin: Some(monotonic().saturating_sub(self.engine.now().0)), ..numbers }
    }

    /// Passes the state of a step to `send`.
    pub(super) fn send_state(&self, step: SaveStep, send: Sink<'_>) -> Result<(), DataPlaneError> {
        if let Some(flows) = &self.flows {
            match step {
                SaveStep::Running => self.send_running(flows, send)?,
                SaveStep::Stopped => {
                    flows.check_unchanged()?;
                    self.send_connections(flows, send)?;
                    send(StateMessage::Expectations(flows.expectations()))?;
                }
                SaveStep::Counters => {
                    std::thread::sleep(COUNTED);
                    let counters = flows.bridges().map(|bridge| flows.counters(bridge));
                    counters.map(Box::new).try_for_each(|counters| send(StateMessage::Counters(counters)))?;
                }
            }
        }
        if step == SaveStep::Stopped {
            self.send_leases(send)?;
        }
        send(StateMessage::End)
    }

    /// Without controllers, nothing changes the tables from here on.
    fn send_running(&self, flows: &Flows, send: Sink<'_>) -> Result<(), DataPlaneError> {
        flows.stop_controllers();
        for bridge in flows.bridges() {
            send(StateMessage::Bridge(Box::new(flows.save(bridge)?)))?;
        }
        flows.tracker().record_changes();
        for _ in 0..PASSES {
            if self.send_connections(flows, send)? < FEW {
                break;
            }
        }
        Ok(())
    }

    /// Passes changes of connections on. Returns their number.
    fn send_connections(&self, flows: &Flows, send: Sink<'_>) -> Result<usize, DataPlaneError> {
        let names = self.names();
        let (mut total, mut waiting, mut batch) = (0, 0, Vec::new());
        for changes in flows.tracker().take_changes() {
            (total, waiting) = (total + changes.len(), waiting + changes.len());
            batch.push(changes);
            if waiting >= BATCH {
                send(StateMessage::Connections(names.clone(), std::mem::take(&mut batch)))?;
                waiting = 0;
            }
        }
        if waiting > 0 {
            send(StateMessage::Connections(names, batch))?;
        }
        Ok(total)
    }

    fn send_leases(&self, send: Sink<'_>) -> Result<(), DataPlaneError> {
        let now = self.engine.now();
        let leases = self.names().into_iter().map(|(id, name)| (name, self.bridges.leases(PortId(id), now)));
        let mut leases = leases.filter(|(_, leases)| !leases.is_empty());
        leases.try_for_each(|(port, leases)| send(StateMessage::Leases(port, leases)))
    }

    /// Continues without another process after [`Switch::send_state`].
    pub(super) fn keep(&self, topology: &Topology) {
        let Some(flows) = &self.flows else { return };
        flows.keep();
        if flows.has_controllers() {
            return;
        }
        if let Err(error) = self.connect_controllers(topology) {
            error!(reason = %error, "bridges are not connected to their controllers");
        }
    }

    /// Continues a part of the state of another process.
    pub(super) fn continue_state(&self, message: StateMessage) -> Result<(), DataPlaneError> {
        if let StateMessage::Leases(name, leases) = &message {
            let port = self.place_of(name).map(|(port, _)| port);
            let leases = port.into_iter().flat_map(|port| leases.iter().map(move |lease| (port, lease)));
            leases.for_each(|(port, (ip, until))| self.bridges.restore_lease(port, *ip, *until));
        }
        let Some(flows) = &self.flows else { return Ok(()) };
        match message {
            StateMessage::Bridge(bridge) => return flows.restore(&bridge),
            StateMessage::Connections(names, changes) => {
                flows.restore_connections(self.with_own_ports(&names, changes));
            }
            StateMessage::Expectations(expected) => flows.finish_connections(&expected),
            StateMessage::Counters(counters) => flows.restore_counters(&counters),
            StateMessage::Leases(..) | StateMessage::End => {}
        }
        Ok(())
    }

    /// Changes of connections with the numbers that the ports `names` have here.
    fn with_own_ports(
        &self,
        names: &BTreeMap<u16, String>,
        mut changes: Vec<SavedChanges>,
    ) -> Vec<SavedChanges> {
        let number = |(id, name): (&u16, &String)| Some((*id, self.place_of(name)?.0.0));
        let numbers: BTreeMap<_, _> = names.iter().filter_map(number).collect();
        for connection in changes.iter_mut().flat_map(|changes| &mut changes.changed) {
            connection.port = numbers.get(&connection.port).copied().unwrap_or(NO_PORT);
        }
        changes
    }
}
