//! Interface of the running switch for the control API and `run`.
//!
//! Calls wait at most for a burst boundary of every worker. Workers do not call this interface.

use super::bond_report::BondState;
use super::capture_report::{CaptureRequest, Captured};
use super::connections::{ConnectionFilter, ConnectionLimits, ConnectionReport};
use super::export_report::ExportReport;
use super::flow_report::{FlowCounts, TraceReport, TraceRequest};
use super::handover::Lost;
use super::link_report::{NeighborsReport, StpPortReport};
use super::multicast_report::MulticastReport;
use super::offload_report::OffloadReport;
use super::report::{BridgeReport, FdbEntry, FdbFilter, FlowEntry, FlowFilter, FlowRequest, StationFilter};
use super::state::{Continued, SaveStep, StateMessage};
use super::tunnels::{OptionEntry, OptionFilter, OptionRequest, TunnelEntry};
use crate::remedy;
use crate::settings::bonds::BondSettings;
use crate::settings::conntrack::ConntrackSettings;
use crate::settings::kinds::kind::{Loaded, OpenError};
use crate::settings::mirror::MirrorSettings;
use crate::settings::model::Role;
use crate::settings::topology::{BridgeSettings, PortSettings, StaticEntry, Topology, WorkerSettings};
use bridge::MirrorStatistics;
use console::Diagnostic;
use engine::balance::{Balance, QueueLoad};
use engine::{OnFault, Snapshot};
use port::Remedy;
use port::handover::Handovers;
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;
use wire::MacAddress;

/// Why a call was not completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DataPlaneError {
    /// Nothing was changed.
    Refused(Diagnostic),
    /// The port was removed, and its name and socket are free, but a hung worker may still use its memory.
    Held(Diagnostic),
}

impl DataPlaneError {
    /// Refused with an error of a library. `default` is the remedy of an error without one.
    pub(crate) fn refused(place: impl Display, error: &dyn Remedy, default: &str) -> Self {
        Self::Refused(remedy::failed(place, error, default))
    }

    /// The port `name` was removed, and worker `worker` hangs.
    pub(crate) fn held(name: &str, worker: usize) -> Self {
        let reason = format!("the port is removed; its memory is kept until worker {worker} answers");
        let remedy = "its name and its socket are free; if the worker never answers, end the process";
        Self::Held(Diagnostic::failed(format!("port \"{name}\""), reason, remedy))
    }

    /// The error without its class.
    pub(crate) fn into_diagnostic(self) -> Diagnostic {
        match self {
            Self::Refused(error) | Self::Held(error) => error,
        }
    }
}

impl From<OpenError> for DataPlaneError {
    fn from(error: OpenError) -> Self {
        Self::Refused(error.into_diagnostic())
    }
}

/// A running switch.
pub(crate) trait DataPlane: Send + Sync {
    /// All counters and states.
    fn snapshot(&self) -> Snapshot;
    /// The wanted addresses of all bridges, including static ones. The caller applies the limit of their number.
    fn fdb(&self, wanted: &StationFilter) -> Vec<FdbEntry>;
    /// All bridges, with learned addresses and refused moves of their ports.
    fn bridges(&self) -> Vec<BridgeReport>;
    /// States of the ports in spanning trees, by name.
    fn stp_ports(&self) -> BTreeMap<String, StpPortReport>;
    /// Neighbours of the ports with LLDP.
    fn neighbors(&self) -> NeighborsReport;
    /// Pairs of stations whose frames the kernel forwards.
    fn offload(&self) -> OffloadReport;
    /// Bridges with multicast snooping.
    fn multicast(&self) -> Vec<MulticastReport>;
    /// Removes the memberships of multicast groups that match the filter. Returns their number.
    fn flush_multicast(&self, wanted: &FdbFilter) -> u64;
    /// Number of addresses of a bridge.
    fn addresses(&self, bridge: &str) -> usize;
    /// Adds a port to its bridge and starts it; it plays the file `loaded`.
    fn add_port(&self, port: &PortSettings, loaded: Loaded) -> Result<(), DataPlaneError>;
    /// Adds the port of an application to its bridge, on the connection to its holder.
    fn add_granted(&self, port: &PortSettings, socket: OwnedFd) -> Result<(), DataPlaneError>;
    /// Stops a port and removes its learned and static addresses, also with [`DataPlaneError::Held`].
    fn remove_port(&self, name: &str) -> Result<(), DataPlaneError>;
    /// Adds a bridge without ports, which consists of its table only.
    fn add_bridge(&self, bridge: &BridgeSettings) -> Result<(), DataPlaneError>;
    /// Changes the settings of a bridge that its ports can have while they run. `ports` has the settings of all ports.
    fn set_bridge(&self, bridge: &BridgeSettings, ports: &[PortSettings]) -> Result<(), DataPlaneError>;
    /// Removes a bridge without ports.
    fn remove_bridge(&self, name: &str) -> Result<(), DataPlaneError>;
    /// States of all bonds, by name.
    fn bonds(&self) -> BTreeMap<String, BondState>;
    /// Adds a bond, whose members leave their bridge. `ports` has the settings of all ports.
    fn add_bond(&self, bond: &BondSettings, ports: &[PortSettings]) -> Result<(), DataPlaneError>;
    /// Changes the members of a bond and how it uses them.
    fn set_bond(&self, bond: &BondSettings, ports: &[PortSettings]) -> Result<(), DataPlaneError>;
    /// Removes a bond with its addresses. Its members return to the bridge.
    fn remove_bond(&self, name: &str, ports: &[PortSettings]) -> Result<(), DataPlaneError>;
    /// Adds the last worker of `wanted`, a stage with this role in a pipeline. Returns its number.
    fn add_worker(&self, role: Option<Role>, wanted: &Topology) -> Result<usize, DataPlaneError>;
    /// Numbers of the workers, in the order of the running configuration. Stages of a pipeline on one thread are one
    /// worker there.
    fn worker_numbers(&self) -> Vec<Vec<usize>>;
    /// The kernel's number of a worker's thread.
    fn worker_thread(&self, number: usize) -> Option<u32>;
    /// Changes a worker, and the other stages on its thread, while it runs.
    fn set_worker(&self, number: usize, worker: &WorkerSettings) -> Result<(), DataPlaneError>;
    /// Removes a worker. `wanted` is the configuration without it.
    fn remove_worker(&self, number: usize, wanted: &Topology) -> Result<(), DataPlaneError>;
    /// Pins an address to a port, on that port's bridge.
    fn pin(&self, entry: &StaticEntry) -> Result<(), DataPlaneError>;
    /// Removes one address of a bridge, learned or static. The VLAN is as in [`DataPlane::fdb`].
    fn forget(&self, bridge: &str, mac: MacAddress, vlan: u16) -> Result<(), DataPlaneError>;
    /// Removes the learned addresses that match the filter. Returns their number.
    fn flush(&self, wanted: &FdbFilter) -> Result<u64, DataPlaneError>;
    /// The flows of OpenFlow bridges that match the filter, at most its limit, and the number of all of them. Waits for
    /// the interval of the filter.
    fn flows(&self, wanted: &FlowFilter) -> Result<(usize, Vec<FlowEntry>), DataPlaneError>;
    /// Counters of an OpenFlow bridge; `None` for another bridge.
    fn flow_counts(&self, bridge: &str) -> Option<FlowCounts>;
    /// Traces a packet through the tables of an OpenFlow bridge.
    fn trace(&self, request: &TraceRequest) -> Result<TraceReport, DataPlaneError>;
    /// Adds flows, all or none. Returns their number.
    fn add_flows(&self, request: &FlowRequest) -> Result<usize, DataPlaneError>;
    /// Replaces the flows of the last file by those of `new`, all flows of a bridge or none. Other flows stay.
    fn replace_file_flows(&self, new: &Topology) -> Result<(), DataPlaneError>;
    /// Removes flows. Returns their number.
    fn remove_flows(&self, wanted: &FlowFilter) -> Result<usize, DataPlaneError>;
    /// The connections of OpenFlow bridges that match the filter.
    fn connections(&self, wanted: &ConnectionFilter) -> Result<ConnectionReport, DataPlaneError>;
    /// Limits of connections, which are `settings`, and the connections that count for them.
    fn connection_limits(&self, settings: &ConntrackSettings) -> Result<ConnectionLimits, DataPlaneError>;
    /// Changes limits and timeouts of connections.
    fn limit_connections(&self, settings: &ConntrackSettings) -> Result<(), DataPlaneError>;
    /// Removes all connections, or those of a zone. Returns their number.
    fn flush_connections(&self, zone: Option<u16>) -> Result<u64, DataPlaneError>;
    /// Replaces all mirrors.
    fn set_mirrors(&self, mirrors: &[MirrorSettings]) -> Result<(), DataPlaneError>;
    /// Counters of the mirrors of a bridge.
    fn mirrors(&self, bridge: &str) -> Vec<MirrorStatistics>;
    /// All tunnels.
    fn tunnels(&self) -> Vec<TunnelEntry>;
    /// The options of tunnels that match a filter.
    fn tunnel_options(&self, wanted: &OptionFilter) -> Result<Vec<OptionEntry>, DataPlaneError>;
    /// Binds options of tunnels to fields, all or none. Returns their number.
    fn add_tunnel_options(&self, request: &OptionRequest) -> Result<usize, DataPlaneError>;
    /// Frees fields of options. Returns the number of options that were bound.
    fn remove_tunnel_options(&self, wanted: &OptionFilter) -> Result<usize, DataPlaneError>;
    /// Export of samples and counters to collectors.
    fn export(&self) -> ExportReport;
    /// Captures packets of running ports. Returns the end of a pipe with a pcapng file; the capture ends when it is
    /// closed.
    fn capture(&self, request: &CaptureRequest) -> Result<Captured, DataPlaneError>;
    /// Running captures that another process can continue: their keys, and the parameters of their requests.
    fn captures(&self) -> Vec<(u64, String)> {
        Vec::new()
    }
    /// Begins a capture of another process, which waits for its client.
    fn continue_capture(&self, _key: u64, _request: &CaptureRequest) -> Result<(), DataPlaneError> {
        Ok(())
    }
    /// What another process must know at its start to continue this switch.
    fn continued(&self) -> Continued;
    /// Passes state that another process continues to `send`, in the order of the steps. Controllers are not connected
    /// afterwards. Must be followed by [`DataPlane::keep_state`] or [`DataPlane::release`].
    fn save_state(
        &self,
        step: SaveStep,
        send: &mut dyn FnMut(StateMessage) -> Result<(), DataPlaneError>,
    ) -> Result<(), DataPlaneError>;
    /// Continues without another process after [`DataPlane::save_state`].
    fn keep_state(&self, topology: &Topology);
    /// Continues a part of the state of another process.
    fn restore_state(&self, message: StateMessage) -> Result<(), DataPlaneError>;
    /// What another process cannot continue.
    fn losses(&self) -> Result<Vec<Lost>, DataPlaneError>;
    /// Describes all ports except those with the names `closed` for another process while packets pass. Messages of
    /// their peers wait until [`DataPlane::resume`], or the other process reads them. After an error, all ports have
    /// continued.
    fn describe(&self, closed: &[String]) -> Result<Handovers, DataPlaneError>;
    /// Stops all ports after [`DataPlane::describe`], without an effect on their peers. Must be followed by
    /// [`DataPlane::resume`] or [`DataPlane::release`], unless it fails; all ports have continued then.
    fn hand_over(&self) -> Result<Handovers, DataPlaneError>;
    /// Continues all ports after [`DataPlane::describe`] or [`DataPlane::hand_over`].
    fn resume(&self);
    /// Closes all ports after [`DataPlane::hand_over`], without an effect on the peers of those that were handed over.
    fn release(&self);
    /// Learns addresses that another process has learned.
    fn restore_addresses(&self, addresses: &[FdbEntry]);
    /// Adds the counters of another process.
    fn restore_counters(&self, before: &Snapshot);
    /// Connects bridges to their controllers, after another process has closed its connections and sockets.
    fn start_controllers(&self, topology: &Topology) -> Result<(), Diagnostic>;
    /// Prepares the ports that another process has described.
    fn prepare(&self, ports: Handovers, on_fault: OnFault) -> Result<(), DataPlaneError>;
    /// Takes over the prepared ports. The other process can continue them until [`DataPlane::start_ports`].
    fn take_over(&self, ports: Handovers, on_fault: OnFault) -> Result<(), DataPlaneError>;
    /// Starts the ports after [`DataPlane::take_over`].
    fn start_ports(&self);
    /// All receive queues, each with its worker.
    fn queues(&self) -> Result<Vec<QueueLoad>, DataPlaneError>;
    /// Latest result of load balancing, if enabled.
    fn latest_balance(&self) -> Option<Balance>;
    /// Measures load for this duration, then reports or executes moves.
    fn rebalance(&self, over: Duration, threshold: f64, moves: bool) -> Result<Balance, DataPlaneError>;
}
