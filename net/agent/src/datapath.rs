//! The switch below the agent.

use flow::tables::{Changes, Modification, TableConfig, Tables};
use flow::{Action, CacheCounts, ChangeError, PacketOutError, PortNo, TableId};
use openflow::{ErrorCode, Port, PortMod, PortStats, QueueDesc, QueueStats};
use port::Now;
use std::sync::Arc;

/// The switch that an agent controls: one bridge. Calls must not block for long: sessions wait for them.
pub trait Datapath {
    /// All ports with their state, by number.
    fn ports(&self) -> Vec<Port>;

    /// Counters of all ports, by number.
    fn port_stats(&self) -> Vec<PortStats>;

    /// All queues of ports, with their counters, by port.
    fn queues(&self) -> Vec<(QueueDesc, QueueStats)> {
        Vec::new()
    }

    /// Whether the configuration bits of a port modification can be applied. Its port exists.
    ///
    /// # Errors
    /// If the port does not support a bit, usually [`ErrorCode::PortModBadConfig`].
    fn check_port(&self, change: &PortMod) -> Result<(), ErrorCode>;

    /// Applies the configuration bits of a port modification, whose port exists and has the address of the request.
    ///
    /// # Errors
    /// As [`Datapath::check_port`].
    fn configure_port(&mut self, change: &PortMod) -> Result<(), ErrorCode>;

    /// The tables as workers see them, with the changes of all earlier calls of [`Datapath::modify`].
    fn tables(&self) -> Arc<Tables>;

    /// Executes all changes, or none.
    ///
    /// # Errors
    /// With the position of the refused change.
    fn modify(&mut self, changes: &[Modification], now: Now) -> Result<Changes, ChangeError>;

    /// Changes by others that preceded the last call of [`Datapath::modify`], and that the agent does not know yet.
    fn earlier(&mut self) -> Changes {
        Changes::default()
    }

    /// Changes by others that the agent does not know yet, and the tables after exactly these.
    fn synchronize(&mut self) -> (Changes, Arc<Tables>) {
        (Changes::default(), self.tables())
    }

    /// Executes the actions of a packet-out on a frame. `in_port` is a port, [`PortNo::LOCAL`],
    /// [`PortNo::CONTROLLER`] or [`PortNo::ANY`].
    ///
    /// # Errors
    /// If the packet is not valid, or cannot be executed now.
    fn send(
        &mut self,
        in_port: PortNo,
        actions: &[Action],
        frame: &[u8],
        now: Now,
    ) -> Result<(), PacketOutError>;

    /// Packets by the place where their result was found.
    fn counts(&self) -> CacheCounts;

    /// Forgets the connections of a zone.
    ///
    /// # Errors
    /// If connections are not tracked.
    fn flush_connections(&mut self, zone: u16) -> Result<(), ErrorCode> {
        let _ = zone;
        Err(ErrorCode::RequestBadExperimenterType)
    }

    /// Drops fragments before the first table, or no more.
    fn drop_fragments(&mut self, drops: bool);

    /// Changes the settings of tables.
    fn configure_tables(&mut self, configs: &[(TableId, TableConfig)]);
}
