use crate::client::{Client, flow, flow_mod, in_port};
use crate::groups::group;
use agent::Kind;
use flow::translate::ControllerOperation;
use flow::{Action, Field, FlowCommand, FlowFlags, FlowMod, GroupCommand, Match, PortNo, TableId};
use openflow::{
    AsyncConfig, Message, NO_COOKIE, PacketIn, PacketInFormat, RemovedReason, Role, RoleMessage,
    SwitchConfig, Version, reason,
};
use port::{Context, PortId, PuntReason, Punted};
use std::sync::Arc;
use std::time::Duration;

fn punted(client: &Client, operation: Option<ControllerOperation>) -> Punted {
    let note = operation.map(|operation| Arc::new(operation) as Arc<dyn std::any::Any + Send + Sync>);
    let context = Context::received(PortId(3), client.rig.now);
    Punted { context, reason: PuntReason::NoMatch, note, frame: (0..100).collect() }
}

fn operation(reason: u8) -> ControllerOperation {
    ControllerOperation {
        max_len: 60,
        controller: 0,
        reason,
        table: TableId(2),
        cookie: 0x77,
        userdata: [9, 8].into(),
        pipeline: Match::any().with(Field::Metadata, 5),
    }
}

fn packets(client: &mut Client, id: u64) -> Vec<PacketIn> {
    let packet =
        |message| if let Message::PacketIn(packet) = message { *packet } else { panic!("{message:?}") };
    client.take(id).into_iter().map(packet).collect()
}

fn punt(client: &mut Client, operation: Option<ControllerOperation>) {
    let packet = punted(client, operation);
    client.rig.agent.punted(PortNo(4), &packet);
}

#[test]
fn packets_have_the_form_of_the_session() {
    for version in Version::ALL {
        for format in [PacketInFormat::Standard, PacketInFormat::Nicira, PacketInFormat::Nicira2] {
            let mut client = Client::new(version);
            client.does(&Message::SetPacketInFormat(format));
            punt(&mut client, Some(operation(reason::ACTION)));
            let packets = packets(&mut client, 1);
            let [packet] = &packets[..] else { panic!("{packets:?}") };
            let is_v10 = version == Version::V10 && format == PacketInFormat::Standard;
            let userdata = if format == PacketInFormat::Nicira2 { vec![9, 8] } else { vec![] };
            assert_eq!(
                (packet.format, packet.reason, packet.total_len, packet.buffer),
                (format, 1, 100, None)
            );
            assert_eq!(packet.data, (0..60).collect::<Vec<_>>());
            assert_eq!(packet.metadata.exact(Field::InPort), Some(4));
            assert_eq!(packet.metadata.exact(Field::Metadata), (!is_v10).then_some(5));
            assert_eq!(
                (packet.cookie, packet.userdata.clone()),
                (if is_v10 { NO_COOKIE } else { 0x77 }, userdata)
            );
        }
    }
}

#[test]
fn reasons_are_those_of_the_version_and_are_chosen() {
    for (version, expected) in
        [(Version::V10, [0, 1, 1]), (Version::V13, [0, 1, 1]), (Version::V14, [0, 1, 3])]
    {
        let mut client = Client::new(version);
        for reason in [reason::NO_MATCH, reason::ACTION, reason::INVALID_TTL, reason::ACTION_SET] {
            punt(&mut client, Some(operation(reason)));
        }
        let reasons: Vec<_> = packets(&mut client, 1).iter().map(|packet| packet.reason).collect();
        assert_eq!(reasons, expected, "invalid TTLs are not sent by default");
    }
    let mut client = Client::new(Version::V10);
    client.does(&Message::SetConfig(SwitchConfig { flags: 4, miss_send_len: 128 }));
    punt(&mut client, Some(operation(reason::INVALID_TTL)));
    assert_eq!(packets(&mut client, 1)[0].reason, reason::INVALID_TTL);
    let mut client = Client::new(Version::V13);
    let mut config = AsyncConfig { masks: [[Some(0); 2]; 6] };
    config.masks[0][0] = Some(1 << reason::ACTION);
    config.masks[3..].fill([None; 2]);
    client.does(&Message::SetAsync(config));
    punt(&mut client, Some(operation(reason::NO_MATCH)));
    punt(&mut client, Some(operation(reason::ACTION_SET)));
    assert_eq!(packets(&mut client, 1).len(), 1);
}

#[test]
fn packets_reach_the_controllers_of_an_identifier() {
    let mut client = Client::new(Version::V13);
    client.open(2, Kind::Controller, Version::V13);
    client.send(2, &Message::SetControllerId(7));
    punt(&mut client, Some(ControllerOperation { controller: 7, ..operation(reason::ACTION) }));
    assert_eq!((packets(&mut client, 1).len(), packets(&mut client, 2).len()), (0, 1));
    punt(&mut client, None);
    let whole = packets(&mut client, 1);
    assert_eq!((whole[0].data.len(), whole[0].reason, whole[0].cookie), (100, reason::NO_MATCH, NO_COOKIE));
    assert_eq!(packets(&mut client, 2), []);
}

#[test]
fn secondaries_and_management_clients_get_no_packets_unless_they_ask() {
    let mut client = Client::new(Version::V13);
    client.open(2, Kind::Service, Version::V13);
    client.send(1, &Message::RoleRequest(RoleMessage { role: Role::Secondary, generation: 1 }));
    punt(&mut client, None);
    assert_eq!((packets(&mut client, 1), packets(&mut client, 2)), (vec![], vec![]));
    let mut config = AsyncConfig::default();
    config.masks[..3].fill([Some(3); 2]);
    for id in [1, 2] {
        client.send(id, &Message::SetAsync(config));
    }
    punt(&mut client, None);
    assert_eq!((packets(&mut client, 1).len(), packets(&mut client, 2).len()), (1, 1));
}

fn removed_flow() -> FlowMod {
    let flags = FlowFlags { send_removed: true, ..FlowFlags::default() };
    FlowMod { flags, cookie: 5, hard_timeout: 3, idle_timeout: 9, ..flow(FlowCommand::Add, in_port(1), 2) }
}

fn removals(client: &mut Client, id: u64) -> Vec<RemovedReason> {
    let reason = |message| match message {
        Message::FlowRemoved(removed) | Message::NxFlowRemoved(removed) => removed.reason,
        other => panic!("{other:?}"),
    };
    client.take(id).into_iter().map(reason).collect()
}

#[test]
fn removed_flows_are_reported() {
    for version in Version::ALL {
        let mut client = Client::new(version);
        client.does(&flow_mod(removed_flow()));
        client.does(&flow_mod(removed_flow()));
        client.rig.now.0 += 3_500_000_000;
        let expired = client.rig.switch.expire(client.rig.now);
        client.rig.agent.changed(&expired, &agent::Datapath::tables(&client.rig.switch), client.rig.now);
        let messages = client.take(1);
        let [Message::FlowRemoved(removed)] = &messages[..] else { panic!("{messages:?}") };
        assert_eq!((removed.reason, removed.cookie, removed.priority), (RemovedReason::HardTimeout, 5, 10));
        assert_eq!((removed.duration, removed.matching), (Duration::from_millis(3500), in_port(1)));
    }
}

#[test]
fn reasons_that_a_version_lacks_are_not_reported() {
    for (version, expected) in [(Version::V10, 0), (Version::V13, 1)] {
        let mut client = Client::new(Version::V14);
        client.open(2, Kind::Controller, version);
        client.does(&group(GroupCommand::Add, 4, vec![]));
        let mut flow = removed_flow();
        flow.instructions.apply = vec![Action::Group(4)];
        client.does(&flow_mod(flow));
        client.post(1, &group(GroupCommand::Delete, 4, vec![]));
        assert_eq!(removals(&mut client, 1), [RemovedReason::GroupDelete]);
        assert_eq!(removals(&mut client, 2).len(), expected);
    }
}

#[test]
fn flow_formats_decide_the_form_of_removals() {
    let mut client = Client::new(Version::V10);
    client.does(&Message::SetFlowFormat(2));
    client.does(&flow_mod(removed_flow()));
    let delete = FlowMod { table: TableId::ALL, ..flow(FlowCommand::Delete, Match::any(), 1) };
    let messages = client.send(1, &flow_mod(delete));
    assert!(
        matches!(&messages[..], [Message::NxFlowRemoved(removed)] if removed.reason == RemovedReason::Delete)
    );
    client.error(&Message::SetFlowFormat(9));
}
