use crate::client::{Client, add, flow, flow_mod, in_port};
use flow::{Action, Field, FlowCommand, FlowMod, Instructions, Match, PortNo, TableId};
use openflow::{
    ALL_QUEUES, ErrorCode, FlowStatsRequest, Message, MultipartReply, MultipartRequest, OxmId, QueueConfig,
    QueueDesc, QueueRequest, QueueStats, TableFeatures, TableProperty, Version,
};
use std::time::Duration;

fn all() -> FlowStatsRequest {
    let (table, matching) = (TableId::ALL, Match::any());
    FlowStatsRequest { table, out_port: None, out_group: None, cookie: 0, cookie_mask: 0, matching }
}

fn flows(client: &mut Client, request: FlowStatsRequest) -> Vec<openflow::FlowStats> {
    let parts = client.list(MultipartRequest::Flow(Box::new(request)));
    let flows = |part| if let MultipartReply::Flow(flows) = part { flows } else { panic!("{part:?}") };
    parts.into_iter().flat_map(flows).collect()
}

#[test]
fn descriptions_are_those_of_the_identity() {
    for version in Version::ALL {
        let MultipartReply::Desc(desc) = Client::new(version).part(MultipartRequest::Desc) else { panic!() };
        assert_eq!(desc.software, "linerate");
    }
}

#[test]
fn flows_are_selected_and_have_counters() {
    for version in Version::ALL {
        let mut client = Client::new(version);
        client.does(&flow_mod(FlowMod {
            cookie: 0x12,
            idle_timeout: 9,
            ..flow(FlowCommand::Add, in_port(1), 2)
        }));
        client.does(&add(2, 3));
        let tables = agent::Datapath::tables(&client.rig.switch);
        let counted = tables.exact(TableId(0), &in_port(1), 10).unwrap();
        client.rig.now.0 += 3_000_000_000;
        counted.entry().count(5, 300, client.rig.now);
        client.rig.now.0 += 1_000_000_000;
        let found = flows(&mut client, FlowStatsRequest { out_port: Some(PortNo(2)), ..all() });
        let [stats] = &found[..] else { panic!("{found:?}") };
        assert_eq!((stats.packets, stats.bytes, stats.cookie, stats.idle_timeout), (5, 300, 0x12, 9));
        assert_eq!(
            (stats.duration, stats.matching, stats.priority),
            (Duration::from_secs(4), in_port(1), 10)
        );
        assert_eq!(stats.instructions.apply, [Action::Output { port: PortNo(2), max_len: 0 }]);
        assert_eq!(flows(&mut client, all()).len(), 2);
        let aggregate = client.part(MultipartRequest::Aggregate(Box::new(all())));
        assert_eq!(
            aggregate,
            MultipartReply::Aggregate(openflow::Aggregate { packets: 5, bytes: 300, flows: 2 })
        );
        assert_eq!(flows(&mut client, FlowStatsRequest { matching: in_port(3), ..all() }), []);
        assert_eq!(flows(&mut client, FlowStatsRequest { table: TableId(7), ..all() }), []);
    }
}

#[test]
fn cookies_select_flows() {
    let mut client = Client::new(Version::V13);
    for cookie in [0x11, 0x12, 0x21] {
        let flow = flow(FlowCommand::Add, in_port(cookie as u32), 2);
        client.does(&flow_mod(FlowMod { cookie, ..flow }));
    }
    let selected = flows(&mut client, FlowStatsRequest { cookie: 0x10, cookie_mask: 0xf0, ..all() });
    assert_eq!(selected.len(), 2);
}

#[test]
fn nicira_requests_have_answers_of_their_kind() {
    let mut client = Client::new(Version::V10);
    client.does(&add(1, 2));
    client.rig.now.0 += 2_000_000_000;
    let MultipartReply::NxFlow(flows) = client.part(MultipartRequest::NxFlow(Box::new(all()))) else {
        panic!()
    };
    assert_eq!((flows.len(), flows[0].idle_age, flows[0].hard_age), (1, Some(2), Some(2)));
    let sums = client.part(MultipartRequest::NxAggregate(Box::new(all())));
    assert!(matches!(sums, MultipartReply::NxAggregate(sums) if sums.flows == 1));
}

#[test]
fn long_answers_are_several_messages_in_order() {
    let mut client = Client::new(Version::V13);
    for priority in 0..200 {
        client.does(&flow_mod(FlowMod { priority, ..flow(FlowCommand::Add, in_port(1), 2) }));
    }
    let parts = client.list(MultipartRequest::Flow(Box::new(all())));
    assert!(parts.len() > 1);
    let mut priorities: Vec<_> = flows(&mut client, all()).iter().map(|flow| flow.priority).collect();
    priorities.sort_unstable();
    assert_eq!(priorities, (0..200).collect::<Vec<_>>());
}

#[test]
fn flows_that_a_version_cannot_express_are_left_out() {
    let mut client = Client::new(Version::V13);
    client.does(&add(1, 2));
    let instructions = Instructions {
        apply: vec![Action::Output { port: PortNo(0x1_0000), max_len: 0 }],
        ..Instructions::default()
    };
    client.does(&flow_mod(FlowMod { instructions, ..flow(FlowCommand::Add, in_port(2), 3) }));
    client.open(2, agent::Kind::Service, Version::V10);
    let answers = client.send(2, &Message::MultipartRequest(MultipartRequest::Flow(Box::new(all())), false));
    let [Message::MultipartReply(MultipartReply::Flow(flows), false)] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!(flows.len(), 1);
}

#[test]
fn tables_have_counters_and_settings() {
    for version in Version::ALL {
        let mut client = Client::new(version);
        client.does(&add(1, 2));
        agent::Datapath::tables(&client.rig.switch).count(TableId(0), 9, 4);
        let parts = client.list(MultipartRequest::Table);
        let tables =
            |part| if let MultipartReply::Table(tables) = part { tables } else { panic!("{part:?}") };
        let tables: Vec<_> = parts.into_iter().flat_map(tables).collect();
        let first = &tables[0];
        assert_eq!((tables.len(), first.active, first.lookups, first.matched), (255, 1, 9, 4));
        assert_eq!(first.name, if version == Version::V10 { "table0" } else { "" });
    }
    let mut client = Client::new(Version::V14);
    let desc: usize = client
        .list(MultipartRequest::TableDesc)
        .into_iter()
        .map(
            |part| {
                if let MultipartReply::TableDesc(tables) = part { tables.len() } else { panic!("{part:?}") }
            },
        )
        .sum();
    assert_eq!(desc, 255);
}

fn features(client: &mut Client, request: Vec<TableFeatures>) -> Vec<TableFeatures> {
    let parts = client.list(MultipartRequest::TableFeatures(request));
    let tables =
        |part| if let MultipartReply::TableFeatures(list) = part { list } else { panic!("{part:?}") };
    parts.into_iter().flat_map(tables).collect()
}

#[test]
fn features_of_tables_are_listed_and_names_change() {
    for version in [Version::V13, Version::V14, Version::V15] {
        let mut client = Client::new(version);
        let mut tables = features(&mut client, vec![]);
        assert_eq!((tables.len(), &tables[7].name[..], tables[0].properties.len()), (255, "table7", 8));
        let TableProperty::NextTables(false, next) = &tables[253].properties[1] else { panic!() };
        assert_eq!(next[..], [TableId(254)]);
        tables[7].name = "acl".into();
        let changed = features(&mut client, tables.clone());
        assert_eq!(changed, tables);
        let one = Message::MultipartRequest(MultipartRequest::TableFeatures(vec![tables[0].clone()]), false);
        assert_eq!(client.error(&one), ErrorCode::TableFeaturesPermissions);
    }
}

/// Fields of connections are set within `ct` only, and tunnels have no group policies.
#[test]
fn features_of_tables_list_what_flows_can_use() {
    let mut client = Client::new(Version::V13);
    let table = features(&mut client, vec![]).remove(0);
    let id = |field| OxmId::of(field, false, Version::V13).expect("a number");
    let lists = |property: &TableProperty, field: Field| match property {
        TableProperty::Wildcards(ids)
        | TableProperty::WriteSetField(_, ids)
        | TableProperty::ApplySetField(_, ids) => ids.contains(&id(field)),
        _ => false,
    };
    let lists = |field| table.properties.iter().filter(|property| lists(property, field)).count();
    assert_eq!((lists(Field::Ipv4Src), lists(Field::TcpFlags)), (3, 1));
    assert_eq!((lists(Field::CtMark), lists(Field::CtLabel), lists(Field::TunGbpId)), (1, 1, 0));
}

#[test]
fn openflow_1_5_changes_single_tables_without_properties() {
    let mut client = Client::new(Version::V15);
    let table = features(&mut client, vec![]).remove(3);
    let change = TableFeatures { command: 1, name: "in".into(), properties: vec![], ..table };
    assert_eq!(features(&mut client, vec![change.clone()])[3].name, "in");
    let property = TableProperty::NextTables(false, vec![TableId(1)]);
    for (change, code) in [
        (TableFeatures { command: 2, ..change.clone() }, ErrorCode::TableFeaturesPermissions),
        (TableFeatures { command: 9, ..change.clone() }, ErrorCode::TableFeaturesBadCommand),
        (TableFeatures { table: TableId::ALL, ..change.clone() }, ErrorCode::TableFeaturesBadTable),
        (TableFeatures { max_entries: 1, ..change.clone() }, ErrorCode::TableFeaturesPermissions),
        (TableFeatures { properties: vec![property], ..change.clone() }, ErrorCode::TableFeaturesPermissions),
    ] {
        let request = Message::MultipartRequest(MultipartRequest::TableFeatures(vec![change]), false);
        assert_eq!(client.error(&request), code);
    }
}

#[test]
fn ports_are_listed() {
    for (version, known) in [(Version::V10, 4), (Version::V13, 5), (Version::V15, 5)] {
        let mut client = Client::new(version);
        let MultipartReply::PortDesc(ports) = client.part(MultipartRequest::PortDesc(PortNo::ANY)) else {
            panic!()
        };
        let MultipartReply::Port(stats) = client.part(MultipartRequest::Port(PortNo::ANY)) else { panic!() };
        assert_eq!(
            (ports.len(), stats.len(), &ports[1].name[..], stats[1].counters),
            (known, known, "p2", [2; 8])
        );
        let MultipartReply::Port(one) = client.part(MultipartRequest::Port(PortNo(2))) else { panic!() };
        assert_eq!(one, stats[1..2]);
        assert_eq!(client.part(MultipartRequest::Port(PortNo(99))), MultipartReply::Port(vec![]));
    }
}

#[test]
fn queues_are_selected_by_port_and_number() {
    let queue = |port, queue| {
        let (port, min_rate) = (PortNo(port), Some(250));
        let stats =
            QueueStats { port, queue, bytes: 60, packets: 1, errors: 3, duration: Duration::from_secs(2) };
        (QueueDesc { port, queue, min_rate, max_rate: Some(1000) }, stats)
    };
    let queues = [queue(1, 0), queue(1, 7), queue(2, 7)];
    let mut client = Client::new(Version::V13);
    client.rig.switch.queues = queues.to_vec();
    for (port, number, expected) in [
        (PortNo::ANY, ALL_QUEUES, &queues[..]),
        (PortNo(1), ALL_QUEUES, &queues[..2]),
        (PortNo(1), 7, &queues[1..2]),
    ] {
        let request = MultipartRequest::Queue(QueueRequest { port, queue: number });
        let expected = expected.iter().map(|(_, stats)| *stats).collect();
        assert_eq!(client.part(request), MultipartReply::Queue(expected));
    }
    let missing = MultipartRequest::Queue(QueueRequest { port: PortNo(2), queue: 0 });
    assert_eq!(client.error(&Message::MultipartRequest(missing, false)), ErrorCode::QueueBadQueue);
    let config = QueueConfig { port: PortNo(2), queues: vec![queues[2].0] };
    assert_eq!(client.ask(&Message::QueueConfigRequest(PortNo(2))), Message::QueueConfigReply(config));
}

#[test]
fn ports_have_no_queues() {
    let mut client = Client::new(Version::V13);
    let request = |port, queue| MultipartRequest::Queue(QueueRequest { port, queue });
    assert_eq!(client.part(request(PortNo::ANY, ALL_QUEUES)), MultipartReply::Queue(vec![]));
    assert_eq!(client.part(request(PortNo(1), ALL_QUEUES)), MultipartReply::Queue(vec![]));
    let error = |client: &mut Client, request| client.error(&Message::MultipartRequest(request, false));
    assert_eq!(error(&mut client, request(PortNo(1), 3)), ErrorCode::QueueBadQueue);
    assert_eq!(error(&mut client, request(PortNo(9), ALL_QUEUES)), ErrorCode::QueueBadPort);
    let config = QueueConfig { port: PortNo(1), queues: vec![] };
    assert_eq!(client.ask(&Message::QueueConfigRequest(PortNo(1))), Message::QueueConfigReply(config));
    assert_eq!(client.error(&Message::QueueConfigRequest(PortNo(9))), ErrorCode::QueueBadPort);
    let mut client = Client::new(Version::V14);
    let request = MultipartRequest::QueueDesc(QueueRequest { port: PortNo::ANY, queue: ALL_QUEUES });
    assert_eq!(client.part(request), MultipartReply::QueueDesc(vec![]));
}

#[test]
fn parts_of_requests_are_joined_and_bounded() {
    let mut client = Client::new(Version::V15);
    let tables = features(&mut client, vec![]);
    let named = |i: usize, name: &str| {
        let table = TableFeatures { command: 1, name: name.into(), properties: vec![], ..tables[i].clone() };
        MultipartRequest::TableFeatures(vec![table])
    };
    let part = |request, more| {
        let mut bytes = Vec::new();
        openflow::encode(&Message::MultipartRequest(request, more), Version::V15, 77, &mut bytes).unwrap();
        bytes
    };
    assert!(client.rig.receive(1, &part(named(1, "a"), true)));
    assert_eq!(client.take(1), []);
    assert!(client.rig.receive(1, &part(named(2, "b"), false)));
    client.take(1);
    let names: Vec<_> = features(&mut client, vec![]).into_iter().take(4).map(|table| table.name).collect();
    assert_eq!(names, ["table0", "a", "b", "table3"]);

    let other = Message::MultipartRequest(MultipartRequest::Desc, true);
    assert_eq!(client.error(&other), ErrorCode::RequestMultipartBufferOverflow);
    let long = part(MultipartRequest::TableFeatures(tables[..20].to_vec()), true);
    let many = agent::limits::PARTS / long.len() + 1;
    for i in 0..many {
        assert!(client.rig.receive(1, &long));
        assert_eq!(client.take(1).len(), usize::from(i + 1 == many));
    }
}
