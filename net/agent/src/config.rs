//! Features and configuration of the switch (OpenFlow 1.3.5, 7.3.1, 7.3.2 and 7.3.10).

use crate::request::{Answer, Request};
use crate::session::Kind;
use crate::settings::MISS_SEND_LEN;
use flow::{PortNo, TableId};
use openflow::{AsyncConfig, ErrorCode, Features, Message, Port, SwitchConfig, Version};

/// Counters of flows, tables and ports (`ofp_capabilities`).
const STATS: u32 = 0x7;
/// Counters of groups; since OpenFlow 1.1.
const GROUP_STATS: u32 = 0x8;
/// Counters of queues.
const QUEUE_STATS: u32 = 0x40;
/// Matches on addresses in ARP packets, in OpenFlow 1.0.
const ARP_MATCH_IP: u32 = 0x80;
/// Bundles and monitors, since OpenFlow 1.4.
const BUNDLES: u32 = 0x200;
const FLOW_MONITORING: u32 = 0x400;
/// All actions of OpenFlow 1.0: output, changes of fields, and queues.
const ACTIONS_V10: u32 = 0xfff;
/// Handling of fragments, of which all but 2 (`OFPC_FRAG_REASM`) is supported: flows match on fragments with 0
/// (`OFPC_FRAG_NORMAL`) as well as with 3 (`OFPC_FRAG_NX_MATCH`).
const FRAGMENTS: u16 = 0x3;
const DROP: u16 = 1;
const REASSEMBLE: u16 = 2;
/// `OFPC_INVALID_TTL_TO_CONTROLLER`, before OpenFlow 1.3.
const INVALID_TTL: u16 = 0x4;
/// Highest port number in OpenFlow 1.0.
const MAX_V10: PortNo = PortNo(0xfeff);

/// Whether OpenFlow 1.0 can name a port.
fn is_port_of_v10(port: &Port) -> bool {
    port.number <= MAX_V10 || port.number == PortNo::LOCAL
}

impl Request<'_> {
    pub(crate) fn features(&mut self) -> Answer {
        let version = self.version();
        let capabilities = match version {
            Version::V10 => STATS | QUEUE_STATS | ARP_MATCH_IP,
            Version::V13 => STATS | GROUP_STATS | QUEUE_STATS,
            Version::V14 | Version::V15 => STATS | GROUP_STATS | QUEUE_STATS | BUNDLES | FLOW_MONITORING,
        };
        let mut ports = if version == Version::V10 { self.datapath.ports() } else { Vec::new() };
        ports.retain(is_port_of_v10);
        self.reply(&Message::FeaturesReply(Features {
            datapath_id: self.switch.identity.datapath_id,
            buffers: 0,
            tables: TableId::COUNT as u8,
            auxiliary: self.session.auxiliary.map_or(0, |auxiliary| auxiliary.number),
            capabilities,
            actions: ACTIONS_V10,
            ports,
        }))
    }

    pub(crate) fn get_config(&mut self) -> Answer {
        let is_old = self.version() == Version::V10;
        let settings = self.settings();
        let ttl = if is_old && settings.invalid_ttl() { INVALID_TTL } else { 0 };
        let miss_send_len = settings.miss_send_len;
        let flags = self.switch.fragments | ttl;
        self.reply(&Message::GetConfigReply(SwitchConfig { flags, miss_send_len }))
    }

    /// Secondary controllers change their own settings only.
    pub(crate) fn set_config(&mut self, config: SwitchConfig) -> Answer {
        let is_old = self.version() == Version::V10;
        let known = if is_old { FRAGMENTS | INVALID_TTL } else { FRAGMENTS };
        let fragments = config.flags & FRAGMENTS;
        if config.flags & !known != 0 || fragments == REASSEMBLE {
            return Err(ErrorCode::ConfigBadFlags);
        }
        if self.session.role != openflow::Role::Secondary {
            self.switch.fragments = fragments;
            self.datapath.drop_fragments(fragments == DROP);
        }
        if is_old {
            self.settings().set_invalid_ttl(config.flags & INVALID_TTL != 0);
        }
        self.settings().miss_send_len = config.miss_send_len;
        Ok(())
    }

    pub(crate) fn get_async(&mut self) -> Answer {
        let version = self.version();
        let config = self.settings().asynchronous(version);
        self.reply(&Message::GetAsyncReply(config))
    }

    /// A management client that chooses messages wants them.
    pub(crate) fn set_async(&mut self, config: &AsyncConfig) -> Answer {
        let (version, kind) = (self.version(), self.session.kind);
        let settings = self.settings();
        settings.set_asynchronous(config, version)?;
        if kind != Kind::Controller && settings.miss_send_len == 0 {
            settings.miss_send_len = MISS_SEND_LEN;
        }
        Ok(())
    }
}
