//! Tunnels in the control API's JSON, and the addresses of bridges.

use crate::settings::topology::Topology;
use console::Diagnostic;
use flow::{FlowSwitch, TunnelReport};
use port::{Now, PortId};
use rustix::rand::GetRandomFlags;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// One tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TunnelEntry {
    /// Name of its port.
    pub(crate) port: String,
    /// Bridge of the port.
    pub(crate) bridge: String,
    /// OpenFlow number of the port.
    pub(crate) number: u32,
    /// Protocol.
    pub(crate) protocol: String,
    /// Address of the other end, or `flow`.
    pub(crate) remote: String,
    /// Key, `flow`, or empty.
    pub(crate) key: String,
    /// Maximum length in bytes of IP packets without VLAN tags that fit; absent if there is no path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mtu: Option<u16>,
    /// Why there is no path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Received packets.
    pub(crate) rx_packets: u64,
    /// Received bytes, without outer headers.
    pub(crate) rx_bytes: u64,
    /// Sent packets; one that is segmented later counts once.
    pub(crate) tx_packets: u64,
    /// Sent bytes, without outer headers.
    pub(crate) tx_bytes: u64,
}

/// An option of Geneve tunnels and the field that it is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct OptionEntry {
    /// Bridge of the tunnels.
    pub(crate) bridge: String,
    /// Field, `tun_metadata0` to `tun_metadata7`.
    pub(crate) field: String,
    /// Option class, in hexadecimal.
    pub(crate) class: String,
    /// Type with the critical bit, in hexadecimal.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// Length of the data in bytes.
    pub(crate) length: u8,
}

/// Selection of options of tunnels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct OptionFilter {
    /// Name of the bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bridge: Option<String>,
    /// Field, `tun_metadata0` to `tun_metadata7`; all by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) field: Option<String>,
}

/// Request of `POST /v1/tunnels/options`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OptionRequest {
    /// Name of the bridge; the only OpenFlow bridge by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bridge: Option<String>,
    /// Options in the syntax of `ovs-ofctl add-tlv-map`; all are bound, or none.
    pub(crate) options: Vec<String>,
}

/// All tunnels. `name` returns the name of a port.
pub(super) fn list(switch: &FlowSwitch, name: impl Fn(PortId) -> Option<String>) -> Vec<TunnelEntry> {
    let entry = |report: TunnelReport| {
        let TunnelReport { port, tunnel, counts, path } = report;
        let (bridge, number) = switch.number(port)?;
        let (mtu, reason) = match path {
            Ok(mtu) => (Some(mtu), None),
            Err(reason) => (None, Some(reason)),
        };
        Some(TunnelEntry {
            port: name(port)?,
            bridge,
            number: number.0,
            protocol: tunnel.kind.to_string(),
            remote: tunnel.remote.map_or_else(|| "flow".to_owned(), |remote| remote.to_string()),
            key: match tunnel.key {
                tunnel::Key::None => String::new(),
                tunnel::Key::Fixed(key) => key.to_string(),
                tunnel::Key::Flow => "flow".to_owned(),
            },
            mtu,
            reason,
            rx_packets: counts.rx_packets,
            rx_bytes: counts.rx_bytes,
            tx_packets: counts.tx_packets,
            tx_bytes: counts.tx_bytes,
        })
    };
    switch.tunnels().into_iter().filter_map(entry).collect()
}

/// Gives bridges their addresses.
pub(super) fn set_underlay(switch: &FlowSwitch, topology: &Topology, now: Now) -> Result<(), Diagnostic> {
    if topology.underlays.is_empty() {
        return Ok(());
    }
    let interface = |underlay: &crate::settings::underlay::UnderlaySettings| {
        let bridge = topology.bridges.iter().find(|bridge| bridge.name == underlay.bridge);
        let id = bridge.and_then(|bridge| bridge.openflow.as_ref()?.datapath_id);
        (underlay.bridge.clone(), underlay.interface(id.map_or(0, |id| id.0)))
    };
    let interfaces = topology.underlays.iter().map(interface).collect();
    let failed =
        |e: &dyn std::fmt::Display| Diagnostic::failed("underlay", e, "correct the [[underlay]] sections");
    let mut secret = [0; 16];
    rustix::rand::getrandom(&mut secret[..], GetRandomFlags::empty()).map_err(|e| failed(&e))?;
    switch.set_underlay(interfaces, secret, now).map_err(|e| failed(&e))
}
