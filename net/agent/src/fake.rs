//! A switch with real tables and without packets, for tests.

use crate::datapath::Datapath;
use flow::tables::{Changes, Control, Modification, TableConfig, Tables};
use flow::{Action, CacheCounts, ChangeError, PacketOutError, PortNo, TableId};
use openflow::{ErrorCode, Port, PortMod, PortStats, QueueDesc, QueueStats};
use port::Now;
use std::sync::Arc;
use std::time::Duration;

/// The only bit of a port's configuration that can change (`OFPPC_PORT_DOWN`).
const PORT_DOWN: u32 = 1;

/// A switch that records what it gets.
pub struct FakeSwitch {
    control: Control,
    tables: Arc<Tables>,
    /// Ports.
    pub ports: Vec<Port>,
    /// Queues of ports.
    pub queues: Vec<(QueueDesc, QueueStats)>,
    /// Packets that were sent: ingress port, actions and frame.
    pub sent: Vec<(PortNo, Vec<Action>, Vec<u8>)>,
    /// Why packets are refused; `None` if they are sent.
    pub refusal: Option<PacketOutError>,
    /// Changes by others that the agent does not know yet.
    pub earlier: Changes,
    /// Zones whose connections were flushed.
    pub flushed: Vec<u16>,
}

impl FakeSwitch {
    /// A switch with `ports` ports from number 1 on, and one that OpenFlow 1.0 cannot name.
    pub fn new(ports: u32) -> Self {
        let mut control = Control::new(7);
        let tables = control.seal();
        let ports = (1..=ports).chain([0x1_0000]).map(port).collect();
        let (sent, refusal, earlier, flushed) = (Vec::new(), None, Changes::default(), Vec::new());
        Self { control, tables, ports, queues: Vec::new(), sent, refusal, earlier, flushed }
    }

    /// Removes flows whose timeout has passed.
    pub fn expire(&mut self, now: Now) -> Changes {
        let changes = self.control.expire(now);
        self.tables = self.control.seal();
        changes
    }

    /// Limits the flows of a table.
    pub fn limit(&mut self, table: TableId, limit: usize) {
        let config = TableConfig { limit, ..self.tables.config(table) };
        self.configure_tables(&[(table, config)]);
    }
}

fn port(number: u32) -> Port {
    let [_, _, high, low] = number.to_be_bytes();
    Port {
        number: PortNo(number),
        address: [2, 0, 0, 0, high, low].into(),
        name: format!("p{number}"),
        config: 0,
        state: 0,
        current: 0x820,
        advertised: 0,
        supported: 0,
        peer: 0,
        current_speed: 1_000_000,
        max_speed: 1_000_000,
    }
}

impl Datapath for FakeSwitch {
    fn ports(&self) -> Vec<Port> {
        self.ports.clone()
    }

    fn port_stats(&self) -> Vec<PortStats> {
        let stats = |port: &Port| PortStats {
            port: port.number,
            counters: [u64::from(port.number.0); 8],
            ethernet: [u64::MAX; 4],
            duration: Duration::from_secs(5),
        };
        self.ports.iter().map(stats).collect()
    }

    fn queues(&self) -> Vec<(QueueDesc, QueueStats)> {
        self.queues.clone()
    }

    fn check_port(&self, change: &PortMod) -> Result<(), ErrorCode> {
        if change.mask & !PORT_DOWN == 0 { Ok(()) } else { Err(ErrorCode::PortModBadConfig) }
    }

    fn configure_port(&mut self, change: &PortMod) -> Result<(), ErrorCode> {
        self.check_port(change)?;
        for port in self.ports.iter_mut().filter(|port| port.number == change.number) {
            port.config = port.config & !change.mask | change.config & change.mask;
        }
        Ok(())
    }

    fn tables(&self) -> Arc<Tables> {
        self.tables.clone()
    }

    fn modify(&mut self, changes: &[Modification], now: Now) -> Result<Changes, ChangeError> {
        let done = self.control.bundle(changes, now).map_err(|(i, error)| ChangeError::Invalid(i, error))?;
        self.tables = self.control.seal();
        Ok(done)
    }

    fn send(
        &mut self,
        in_port: PortNo,
        actions: &[Action],
        frame: &[u8],
        _now: Now,
    ) -> Result<(), PacketOutError> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        self.sent.push((in_port, actions.to_vec(), frame.to_vec()));
        Ok(())
    }

    fn counts(&self) -> CacheCounts {
        CacheCounts::default()
    }

    fn drop_fragments(&mut self, drops: bool) {
        self.control.tables_mut().drop_fragments(drops);
        self.tables = self.control.seal();
    }

    fn configure_tables(&mut self, configs: &[(TableId, TableConfig)]) {
        for (table, config) in configs {
            self.control.tables_mut().configure(*table, *config);
        }
        self.tables = self.control.seal();
    }

    fn earlier(&mut self) -> Changes {
        std::mem::take(&mut self.earlier)
    }

    fn synchronize(&mut self) -> (Changes, Arc<Tables>) {
        (self.earlier(), self.tables())
    }

    fn flush_connections(&mut self, zone: u16) -> Result<(), ErrorCode> {
        self.flushed.push(zone);
        Ok(())
    }
}
