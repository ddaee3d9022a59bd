//! Messages.

use crate::bundle::{BundleAdd, BundleControl};
use crate::error::ErrorMessage;
use crate::flow_mod::FlowModRequest;
use crate::flow_removed::FlowRemoved;
use crate::hello::Hello;
use crate::multipart::reply::MultipartReply;
use crate::multipart::request::{ExperimenterData, MultipartRequest};
use crate::packet::{PacketIn, PacketInFormat, PacketOut};
use crate::port::{PortMod, PortStatus};
use crate::queue::QueueConfig;
use crate::switch::{AsyncConfig, Features, RoleMessage, RoleStatus, SwitchConfig};
use crate::table::{TableConfig, TableStatus};
use crate::tlv::TlvTable;
use flow::{GroupMod, MeterMod, OptionChange, PortNo};

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Versions of a side.
    Hello(Hello),
    /// Error.
    Error(ErrorMessage),
    /// Probe of the connection, with data for the answer.
    EchoRequest(Vec<u8>),
    /// Answer to a probe.
    EchoReply(Vec<u8>),
    /// Data of an experimenter other than Nicira and the ONF. The answer is
    /// [`crate::ErrorCode::RequestBadExperimenter`].
    Experimenter(ExperimenterData),
    /// Request for the features of the switch.
    FeaturesRequest,
    /// Features of the switch.
    FeaturesReply(Features),
    /// Request for the configuration.
    GetConfigRequest,
    /// Configuration.
    GetConfigReply(SwitchConfig),
    /// Change of the configuration.
    SetConfig(SwitchConfig),
    /// Packet for the controller.
    PacketIn(Box<PacketIn>),
    /// Notice of a removed flow.
    FlowRemoved(Box<FlowRemoved>),
    /// The same in Nicira's form, in OpenFlow 1.0.
    NxFlowRemoved(Box<FlowRemoved>),
    /// Notice of a changed port.
    PortStatus(Box<PortStatus>),
    /// Packet to send.
    PacketOut(Box<PacketOut>),
    /// Change of flows.
    FlowMod(Box<FlowModRequest>),
    /// Change of groups.
    GroupMod(GroupMod),
    /// Change of a port.
    PortMod(PortMod),
    /// Change of a table.
    TableMod(TableConfig),
    /// Request for information; whether more messages belong to it.
    MultipartRequest(MultipartRequest, bool),
    /// Information; whether more messages belong to it.
    MultipartReply(MultipartReply, bool),
    /// Request for an answer when all earlier messages are processed.
    BarrierRequest,
    /// Answer to a barrier.
    BarrierReply,
    /// Request for the queues of a port, before OpenFlow 1.4.
    QueueConfigRequest(PortNo),
    /// Queues of a port, before OpenFlow 1.4.
    QueueConfigReply(QueueConfig),
    /// Request for a role.
    RoleRequest(RoleMessage),
    /// Role.
    RoleReply(RoleMessage),
    /// Request for the choice of asynchronous messages.
    GetAsyncRequest,
    /// Choice of asynchronous messages.
    GetAsyncReply(AsyncConfig),
    /// Change of that choice.
    SetAsync(AsyncConfig),
    /// Change of meters.
    MeterMod(MeterMod),
    /// Notice of a changed role.
    RoleStatus(RoleStatus),
    /// Notice of a table.
    TableStatus(TableStatus),
    /// A request of another controller.
    RequestForward {
        /// Its transaction identifier.
        xid: u32,
        /// Change of groups or meters.
        request: Box<Message>,
    },
    /// Control of a bundle.
    BundleControl(BundleControl),
    /// A message of a bundle.
    BundleAdd(BundleAdd),
    /// End of a monitor, before OpenFlow 1.4.
    MonitorCancel(u32),
    /// Notice that reports stop, before OpenFlow 1.4.
    MonitorPaused,
    /// Notice that reports continue, before OpenFlow 1.4.
    MonitorResumed,
    /// Form of flow messages (`NXFF_*`: 0 OpenFlow 1.0, 2 Nicira), in OpenFlow 1.0.
    SetFlowFormat(u32),
    /// Whether commands of flow changes contain a table ([`crate::Dialect::table_ids`]), in OpenFlow 1.0.
    FlowModTableId(bool),
    /// Form of packet-ins.
    SetPacketInFormat(PacketInFormat),
    /// Identifier of the controller, for its actions.
    SetControllerId(u16),
    /// Request for ages in statistics of flows, which always contain them.
    FlowAge,
    /// Forgets the connections of a zone.
    CtFlushZone(u16),
    /// Change of the map from options of tunnels to fields.
    TlvTableMod(OptionChange),
    /// Request for that map.
    TlvTableRequest,
    /// That map.
    TlvTableReply(TlvTable),
}

/// Header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version.
    pub version: u8,
    /// Type in the version.
    pub kind: u8,
    /// Length of the message.
    pub length: u16,
    /// Transaction identifier.
    pub xid: u32,
}

impl Header {
    /// Length.
    pub const LEN: usize = 8;

    /// Reads a header; `None` if `bytes` is shorter.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let [version, kind, high, low, xid @ ..] = *bytes.first_chunk::<8>()?;
        Some(Self { version, kind, length: u16::from_be_bytes([high, low]), xid: u32::from_be_bytes(xid) })
    }
}
