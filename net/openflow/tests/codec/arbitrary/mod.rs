//! Arbitrary matches, actions and messages that a version can express.

mod actions;
mod changes;
mod matching;
mod multipart;
mod packets;

pub(crate) use matching::matches;

use changes::{flow_mod, group_mod, meter};
use flow::{Field, Mapping, MeterCommand, MeterMod, OptionChange};
use matching::ports;
use multipart::{experimenter, queue_desc, replies, requests, table_config};
use openflow::*;
use packets::{packet_in, packet_out, port, removed};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

fn asynchronous(version: Version) -> BoxedStrategy<AsyncConfig> {
    proptest::array::uniform6(proptest::array::uniform2(of(any::<u32>())))
        .prop_map(move |mut masks| {
            if version < Version::V14 {
                masks[..3].iter_mut().flatten().for_each(|mask| *mask = mask.or(Some(0)));
                masks[3..].iter_mut().flatten().for_each(|mask| *mask = None);
            }
            AsyncConfig { masks }
        })
        .boxed()
}

fn role(version: Version) -> BoxedStrategy<RoleMessage> {
    let is_old = version == Version::V10;
    (select(Role::ALL[usize::from(is_old)..].to_vec()), any::<u64>())
        .prop_map(move |(role, generation)| RoleMessage {
            role,
            generation: if is_old { 0 } else { generation },
        })
        .boxed()
}

/// Messages of every version.
fn common(version: Version) -> BoxedStrategy<Message> {
    use Message as M;
    let data = || vec(any::<u8>(), 0..30);
    let hello =
        any::<u32>().prop_map(move |bits| M::Hello(Hello { version: version as u8, versions: Some(bits) }));
    let errors = (select(ErrorCode::ALL.to_vec()), data())
        .prop_map(move |(code, data)| M::Error(ErrorMessage { error: code.wire(version), data }));
    let config = any::<[u16; 2]>().prop_map(|[flags, miss_send_len]| SwitchConfig { flags, miss_send_len });
    let features = (any::<u64>(), any::<[u32; 3]>(), any::<[u8; 2]>(), vec(port(version), 0..4)).prop_map(
        move |(datapath_id, [buffers, capabilities, actions], [tables, auxiliary], ports)| {
            let (actions, ports) = if version == Version::V10 { (actions, ports) } else { (0, Vec::new()) };
            M::FeaturesReply(Features {
                datapath_id,
                buffers,
                tables,
                auxiliary,
                capabilities,
                actions,
                ports,
            })
        },
    );
    let status = (select(PortReason::ALL.to_vec()), port(version))
        .prop_map(|(reason, port)| M::PortStatus(Box::new(PortStatus { reason, port })));
    let port_mod = port(version).prop_map(|port| {
        let Port { number, address, config, state: mask, advertised: advertise, .. } = port;
        M::PortMod(PortMod { number, address, config, mask, advertise })
    });
    let fixed = vec![
        M::FeaturesRequest,
        M::GetConfigRequest,
        M::BarrierRequest,
        M::BarrierReply,
        M::FlowAge,
        M::SetPacketInFormat(PacketInFormat::Nicira2),
        M::SetControllerId(7),
        M::CtFlushZone(9),
        M::TlvTableRequest,
        M::TlvTableMod(OptionChange::Delete(vec![0, 7])),
        M::TlvTableMod(OptionChange::Clear),
    ];
    let mapping = (0..Field::OPTIONS, any::<(u16, u8)>(), 0..32_u8)
        .prop_map(|(n, (class, kind), words)| (n, Mapping { class, kind, len: 4 * words.min(31) }));
    let tlv = (any::<bool>(), any::<(u32, u16)>(), vec(mapping, 0..6)).prop_map(
        |(is_change, (space, fields), entries)| {
            if is_change {
                M::TlvTableMod(OptionChange::Add(entries))
            } else {
                M::TlvTableReply(TlvTable { space, fields, entries })
            }
        },
    );
    let basic = prop_oneof![
        hello,
        errors,
        data().prop_map(M::EchoRequest),
        data().prop_map(M::EchoReply),
        experimenter(version).prop_map(M::Experimenter),
        features,
        config.prop_map(M::SetConfig),
        status,
        port_mod,
        role(version).prop_map(M::RoleRequest),
        role(version).prop_map(M::RoleReply),
        asynchronous(version).prop_map(M::SetAsync),
        select(fixed),
        tlv,
    ];
    let large = prop_oneof![
        flow_mod(version),
        group_mod(version),
        packet_in(version),
        packet_out(version),
        removed(version, false),
        (requests(version), any::<bool>()).prop_map(|(request, more)| M::MultipartRequest(request, more)),
        (replies(version), any::<bool>()).prop_map(|(reply, more)| M::MultipartReply(reply, more)),
    ];
    prop_oneof![1 => basic, 3 => large].boxed()
}

/// Messages of OpenFlow 1.3 and later.
fn later(version: Version) -> BoxedStrategy<Message> {
    use Message as M;
    let commands = select(vec![MeterCommand::Add, MeterCommand::Modify, MeterCommand::Delete]);
    let meter_mod = (commands, meter())
        .prop_map(|(command, (flags, id, bands))| M::MeterMod(MeterMod { command, flags, id, bands }));
    let is_new = version >= Version::V14;
    let table_mod = table_config().prop_map(move |config| {
        let vacancy = config.vacancy.filter(|_| is_new);
        M::TableMod(TableConfig { eviction: config.eviction.filter(|_| is_new), vacancy, ..config })
    });
    let inner = || prop_oneof![flow_mod(version), group_mod(version), packet_out(version)];
    let bundle = (any::<u32>(), 0..4_u16, inner()).prop_map(|(id, flags, message)| {
        M::BundleAdd(BundleAdd { id, flags, xid: crate::round_trip::XID, message: Box::new(message) })
    });
    let control = (any::<u32>(), select(BundleStep::ALL.to_vec()), 0..4_u16)
        .prop_map(|(id, step, flags)| M::BundleControl(BundleControl { id, step, flags }));
    let status = (select(Role::ALL.to_vec()), any::<u8>(), any::<u64>())
        .prop_map(|(role, reason, generation)| M::RoleStatus(RoleStatus { role, reason, generation }));
    let forward = (any::<u32>(), group_mod(version))
        .prop_map(|(xid, request)| M::RequestForward { xid, request: Box::new(request) });
    prop_oneof![
        meter_mod,
        table_mod,
        bundle,
        control,
        status,
        forward,
        Just(M::GetAsyncRequest),
        asynchronous(version).prop_map(M::GetAsyncReply),
    ]
    .boxed()
}

fn queues() -> BoxedStrategy<Message> {
    let config = ports().prop_flat_map(|port| {
        vec(queue_desc(port), 0..3)
            .prop_map(move |queues| Message::QueueConfigReply(QueueConfig { port, queues }))
    });
    prop_oneof![ports().prop_map(Message::QueueConfigRequest), config].boxed()
}

fn monitors() -> BoxedStrategy<Message> {
    let cancel = any::<u32>().prop_map(Message::MonitorCancel);
    prop_oneof![cancel, select(vec![Message::MonitorPaused, Message::MonitorResumed])].boxed()
}

/// Any message that a version can express.
pub(crate) fn messages(version: Version) -> BoxedStrategy<Message> {
    let common = common(version);
    match version {
        Version::V10 => {
            let nicira = prop_oneof![
                removed(version, true),
                any::<u32>().prop_map(Message::SetFlowFormat),
                any::<bool>().prop_map(Message::FlowModTableId),
            ];
            prop_oneof![6 => common, 1 => nicira, 1 => queues(), 1 => monitors()].boxed()
        }
        Version::V13 => prop_oneof![6 => common, 3 => later(version), 1 => queues(), 1 => monitors()].boxed(),
        Version::V14 | Version::V15 => {
            let status = (select(TableReason::ALL.to_vec()), table_config())
                .prop_map(|(reason, table)| Message::TableStatus(TableStatus { reason, table }));
            prop_oneof![6 => common, 3 => later(version), 1 => status].boxed()
        }
    }
}
