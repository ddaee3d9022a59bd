//! Arguments of commands for a running switch.

mod bridges;
mod flows;
mod ports;
mod workers;

pub(crate) use bridges::{
    BondsAddArgs, BondsCommand, BondsSetArgs, BondsShowArgs, BridgesCommand, BridgesShowArgs, FdbAddArgs,
    FdbCommand, FdbRemoveArgs, FdbSelection, FdbShowArgs, FlushArgs, NeighborsCommand, OffloadCommand,
};
pub(crate) use flows::{
    CtCommand, CtLimitsCommand, ExportCommand, FlowsCommand, TunnelOptionsCommand, TunnelsCommand,
};
pub(crate) use ports::{PortsAddArgs, PortsCommand, PortsRemoveArgs, PortsSetArgs, PortsShowArgs};
pub(crate) use workers::{PlacementCommand, RebalanceArgs, WorkersAddArgs, WorkersCommand};
