use crate::client::{Client, add, flow, flow_mod, in_port};
use agent::{Kind, limits};
use flow::{FlowCommand, FlowMod, Match, PortNo, TableId};
use openflow::monitor::{ADD, INITIAL, INSTRUCTIONS, MODIFY, NO_ABBREV, ONLY_OWN, REMOVED};
use openflow::{
    ErrorCode, FlowEvent, FlowUpdate, Message, MonitorCommand, MonitorRequest, MultipartReply,
    MultipartRequest, Version,
};

const ALL: u16 = INITIAL | ADD | REMOVED | MODIFY | INSTRUCTIONS;

fn monitor(id: u32, flags: u16) -> MonitorRequest {
    let (table, matching, command) = (TableId::ALL, Match::any(), MonitorCommand::Add);
    MonitorRequest { id, command, flags, out_port: None, out_group: None, table, matching }
}

fn request(requests: Vec<MonitorRequest>) -> MultipartRequest {
    MultipartRequest::FlowMonitor(requests)
}

fn delete(port: Option<u32>) -> Message {
    let matching = port.map_or(Match::any(), in_port);
    flow_mod(FlowMod { table: TableId::ALL, ..flow(FlowCommand::Delete, matching, 1) })
}

fn updates(messages: Vec<Message>) -> Vec<FlowUpdate> {
    let list = |message| match message {
        Message::MultipartReply(MultipartReply::FlowMonitor(updates), _) => updates,
        Message::MonitorPaused => vec![FlowUpdate::Paused],
        Message::MonitorResumed => vec![FlowUpdate::Resumed],
        other => panic!("{other:?}"),
    };
    messages.into_iter().flat_map(list).collect()
}

/// Event and ingress port of each report.
fn events(messages: Vec<Message>) -> Vec<(FlowEvent, u32)> {
    let event = |update| match update {
        FlowUpdate::Flow(report) => {
            (report.event, report.matching.exact(flow::Field::InPort).unwrap_or_default() as u32)
        }
        other => panic!("{other:?}"),
    };
    updates(messages).into_iter().map(event).collect()
}

#[test]
fn monitors_report_what_exists_and_what_changes() {
    for version in Version::ALL {
        let mut client = Client::new(version);
        client.does(&add(1, 2));
        client.open(2, Kind::Controller, version);
        let start = client.send(2, &Message::MultipartRequest(request(vec![monitor(5, ALL)]), false));
        let initial = if version < Version::V14 { FlowEvent::Added } else { FlowEvent::Initial };
        assert_eq!(events(start), [(initial, 1)]);
        client.does(&add(2, 2));
        let table = if version == Version::V10 { TableId::ALL } else { TableId(0) };
        client.does(&flow_mod(FlowMod { table, ..flow(FlowCommand::ModifyStrict, in_port(2), 3) }));
        client.does(&delete(Some(1)));
        let expected = [(FlowEvent::Added, 2), (FlowEvent::Modified, 2), (FlowEvent::Removed, 1)];
        assert_eq!(events(client.take(2)), expected);
    }
}

#[test]
fn own_changes_are_short_unless_a_monitor_wants_them() {
    for version in Version::ALL {
        let mut client = Client::new(version);
        client.part(request(vec![monitor(5, ADD)]));
        let xid = client.post(1, &add(1, 2));
        assert_eq!(updates(client.take(1)), [FlowUpdate::Own(xid)]);
        client.part(request(vec![monitor(6, ADD | NO_ABBREV)]));
        client.post(1, &add(2, 2));
        assert_eq!(events(client.take(1)), [(FlowEvent::Added, 2)]);
    }
    let mut client = Client::new(Version::V14);
    client.open(2, Kind::Controller, Version::V14);
    client.part(request(vec![monitor(5, ADD | ONLY_OWN | NO_ABBREV)]));
    client.send(2, &add(1, 2));
    assert_eq!(client.take(1), []);
    client.post(1, &add(2, 2));
    assert_eq!(events(client.take(1)), [(FlowEvent::Added, 2)]);
    // As ovs-ofctl uses the flag.
    client.part(request(vec![monitor(6, ADD | ONLY_OWN)]));
    client.send(2, &add(3, 2));
    client.post(1, &add(4, 2));
    assert_eq!(events(client.take(1)), [(FlowEvent::Added, 3), (FlowEvent::Added, 4)]);
}

#[test]
fn monitors_select_flows() {
    let mut client = Client::new(Version::V14);
    client.open(2, Kind::Controller, Version::V14);
    let port = MonitorRequest { out_port: Some(PortNo(3)), ..monitor(1, ADD) };
    let matching = MonitorRequest { matching: in_port(4), ..monitor(2, ADD) };
    let table = MonitorRequest { table: TableId(9), ..monitor(3, ADD) };
    client.part(request(vec![port, matching, table]));
    for (from, to) in [(1, 2), (2, 3), (4, 1)] {
        client.send(2, &add(from, to));
    }
    client.send(2, &flow_mod(FlowMod { table: TableId(9), ..flow(FlowCommand::Add, in_port(5), 1) }));
    let ports: Vec<_> = events(client.take(1)).into_iter().map(|(_, port)| port).collect();
    assert_eq!(ports, [2, 4, 5]);
}

#[test]
fn monitors_are_changed_all_or_none_and_bounded() {
    let mut client = Client::new(Version::V14);
    let error =
        |client: &mut Client, requests| client.error(&Message::MultipartRequest(request(requests), false));
    let command = |command, id| MonitorRequest { command, ..monitor(id, ADD) };
    client.part(request(vec![monitor(1, ADD), monitor(2, ADD)]));
    assert_eq!(error(&mut client, vec![monitor(3, ADD), monitor(1, ADD)]), ErrorCode::MonitorExists);
    assert_eq!(error(&mut client, vec![command(MonitorCommand::Modify, 3)]), ErrorCode::MonitorUnknownId);
    assert_eq!(error(&mut client, vec![command(MonitorCommand::Delete, 3)]), ErrorCode::MonitorUnknownId);
    client.part(request(vec![command(MonitorCommand::Modify, 1), command(MonitorCommand::Delete, 2)]));
    let many = (10..10 + limits::MONITORS as u32).map(|id| monitor(id, ADD)).collect();
    assert_eq!(error(&mut client, many), ErrorCode::RequestPermissions);
    client.part(request(vec![command(MonitorCommand::Delete, 1)]));
    client.does(&add(1, 2));

    for version in [Version::V10, Version::V13] {
        let mut client = Client::new(version);
        client.part(request(vec![monitor(1, ADD)]));
        client.does(&Message::MonitorCancel(1));
        assert_eq!(client.error(&Message::MonitorCancel(1)), ErrorCode::MonitorUnknownId);
        client.does(&add(1, 2));
    }
}

#[test]
fn monitors_of_a_slow_reader_pause_and_catch_up() {
    const FLOWS: u32 = 12_000;
    for version in Version::ALL {
        let mut client = Client::new(version);
        client.open(2, Kind::Controller, version);
        client.does(&add(1, 2));
        let monitors = request(vec![monitor(5, ADD | REMOVED | MODIFY)]);
        client.send(2, &Message::MultipartRequest(monitors, false));
        for port in 2..=FLOWS {
            client.post(1, &add(port, 2));
        }
        client.does(&delete(Some(1)));
        client.does(&delete(Some(FLOWS)));
        let found = updates(client.take(2));
        let paused = found.iter().position(|update| *update == FlowUpdate::Paused).unwrap();
        assert!((1..FLOWS as usize - 1).contains(&paused));
        assert_eq!(found.last(), Some(&FlowUpdate::Resumed));
        let event =
            |update: &FlowUpdate| if let FlowUpdate::Flow(report) = update { report.event } else { panic!() };
        assert_eq!(event(&found[paused + 1]), FlowEvent::Removed);
        let added = found.iter().filter(|update| matches!(update, FlowUpdate::Flow(_))).count() - 1;
        assert_eq!(added, FLOWS as usize - 2, "each flow but the removed ones once");
        client.does(&delete(Some(2)));
        assert_eq!(events(client.take(2)), [(FlowEvent::Removed, 2)]);
    }
}

#[test]
fn changes_by_others_are_reported_in_the_order_of_all_changes() {
    let mut client = Client::new(Version::V14);
    client.open(2, Kind::Controller, Version::V14);
    client.send(2, &Message::MultipartRequest(request(vec![monitor(5, ALL)]), false));
    let by_other = |client: &mut Client, port| {
        let change = flow(FlowCommand::Add, in_port(port), 2);
        let change = [flow::tables::Modification::Flow(Box::new(change))];
        let done = agent::Datapath::modify(&mut client.rig.switch, &change, port::Now(0)).unwrap();
        client.rig.switch.earlier.extend(done);
    };
    by_other(&mut client, 1);
    client.does(&delete(Some(1)));
    assert_eq!(events(client.take(2)), [(FlowEvent::Added, 1), (FlowEvent::Removed, 1)]);
    by_other(&mut client, 3);
    // A new monitor finds the flow, and does not get it again.
    let start = client.send(1, &Message::MultipartRequest(request(vec![monitor(6, ALL)]), false));
    assert_eq!(events(start), [(FlowEvent::Initial, 3)]);
    assert_eq!(events(client.take(2)), [(FlowEvent::Added, 3)]);
}
