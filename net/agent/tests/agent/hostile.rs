//! Peers that send garbage, or do not read.

use crate::client::{Client, add, flow, flow_mod, in_port};
use agent::{Datapath, Kind, SessionError, SessionId, limits};
use flow::tables::{Changes, Modification};
use flow::{FlowCommand, FlowMod, Match, PortNo, TableId};
use openflow::monitor::ADD;
use openflow::{
    FlowStatsRequest, Message, MonitorCommand, MonitorRequest, MultipartReply, MultipartRequest, Version,
    encode,
};
use port::{Context, Now, PortId, PuntReason, Punted};

const FLOWS: u16 = 20_000;

/// Flows with an answer of more than may wait.
fn filled() -> Client {
    let mut client = Client::new(Version::V13);
    let change = |port: u16| Modification::Flow(Box::new(flow(FlowCommand::Add, in_port(port.into()), 2)));
    let changes: Vec<_> = (0..FLOWS).map(change).collect();
    client.rig.switch.modify(&changes, Now(0)).unwrap();
    client
}

fn all_flows() -> Message {
    let (table, matching) = (TableId::ALL, Match::any());
    let request =
        FlowStatsRequest { table, out_port: None, out_group: None, cookie: 0, cookie_mask: 0, matching };
    Message::MultipartRequest(MultipartRequest::Flow(Box::new(request)), false)
}

#[test]
fn requests_wait_while_a_long_answer_is_not_read() {
    let mut client = filled();
    for _ in 0..10 {
        client.post(1, &all_flows());
        client.post(1, &Message::BarrierRequest);
    }
    assert!(client.rig.agent.is_full(SessionId(1)));
    assert_eq!(
        client.rig.agent.sessions().next().unwrap().counters.received,
        2,
        "HELLO and the first request"
    );
    let waiting = client.rig.agent.output(SessionId(1)).len();
    assert!((limits::OUTPUT..limits::OUTPUT + (1 << 17)).contains(&waiting), "{waiting}");
    let mut client = filled();
    for _ in 0..3 {
        client.post(1, &all_flows());
        client.post(1, &Message::BarrierRequest);
    }
    let (mut flows, mut barriers) = (0, 0);
    for answer in client.take(1) {
        match answer {
            Message::MultipartReply(MultipartReply::Flow(list), more) => {
                flows += list.len();
                assert_eq!(!more, flows % usize::from(FLOWS) == 0);
            }
            Message::BarrierReply => {
                barriers += 1;
                assert_eq!(flows, barriers * usize::from(FLOWS), "a barrier follows the answer before it");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(barriers, 3);
}

#[test]
fn a_long_answer_shows_the_tables_at_its_request() {
    let mut client = filled();
    client.post(1, &all_flows());
    client.open(2, Kind::Service, Version::V13);
    client.send(2, &flow_mod(FlowMod { table: TableId::ALL, ..flow(FlowCommand::Delete, Match::any(), 1) }));
    assert_eq!(client.flows(), 0);
    let flows: usize =
        client
            .take(1)
            .iter()
            .map(|answer| {
                if let Message::MultipartReply(MultipartReply::Flow(list), _) = answer {
                    list.len()
                } else {
                    0
                }
            })
            .sum();
    assert_eq!(flows, usize::from(FLOWS));
}

#[test]
fn a_slow_reader_loses_packets_and_nothing_else() {
    let mut client = Client::new(Version::V13);
    let context = Context::received(PortId(0), Now(0));
    let packet = Punted { context, reason: PuntReason::Action, note: None, frame: vec![0; 1500].into() };
    for _ in 0..2000 {
        client.rig.agent.punted(PortNo(1), &packet);
    }
    let counters = client.rig.agent.sessions().next().unwrap().counters;
    assert_eq!(counters.sent + counters.discarded, 2000);
    assert!(counters.discarded > 1000);
    client.post(1, &add(1, 2));
    assert_eq!(client.flows(), 1, "its packets do not keep a controller from ending their flow");
    client.post(1, &Message::BarrierRequest);
    let received = client.take(1);
    assert_eq!((received.len() as u64, received.last()), (counters.sent + 1, Some(&Message::BarrierReply)));
}

#[test]
fn notices_for_a_slow_reader_are_bounded_and_its_requests_are_processed() {
    let mut client = Client::new(Version::V14);
    let port = client.rig.switch.ports()[0].clone();
    for _ in 0..20_000 {
        client.rig.agent.port_changed(openflow::PortReason::Modify, &port);
    }
    assert!(!client.rig.agent.is_full(SessionId(1)));
    assert!(client.rig.agent.output(SessionId(1)).len() < limits::NOTICES + 1000);
    client.does(&add(1, 2));
    assert_eq!(client.flows(), 1);
}

#[test]
fn other_sessions_have_their_turn_after_a_change_with_much_work() {
    let mut client = filled();
    client.post(1, &Message::BarrierRequest);
    client.take(1);
    let modify = flow_mod(flow(FlowCommand::Modify, Match::any(), 3));
    let mut bytes = Vec::new();
    for xid in 0..10 {
        encode(&modify, Version::V13, xid, &mut bytes).unwrap();
    }
    let received = |client: &Client| client.rig.agent.sessions().next().unwrap().counters.received;
    let before = received(&client);
    assert!(client.rig.receive(1, &bytes));
    assert_eq!(received(&client) - before, 1);
    assert!(client.rig.agent.waits(SessionId(1)) && !client.rig.agent.is_full(SessionId(1)));
    client.take(1);
    assert_eq!(received(&client) - before, 10);
}

#[test]
fn memory_of_all_sessions_together_is_bounded() {
    let mut client = filled();
    let sessions = 2 * limits::MEMORY / limits::BUNDLE_BYTES;
    let mut large = flow(FlowCommand::Add, Match::any(), 1);
    large.instructions.apply = vec![flow::Action::Note(vec![0; 63_998].into())];
    let mut refused = 0;
    for id in 2..2 + sessions as u64 {
        client.open(id, Kind::Service, Version::V14);
        for xid in 0..(limits::BUNDLE_BYTES / 64_200) as u32 {
            let message = Box::new(flow_mod(large.clone()));
            let add = openflow::BundleAdd { id: 1, flags: 0, xid, message };
            refused += client.send(id, &Message::BundleAdd(add)).len();
        }
    }
    assert!(refused > 0);
    let [Message::Error(_)] = client.send(1, &all_flows())[..] else { panic!("no memory for a long answer") };
    for id in 2..2 + sessions as u64 {
        client.rig.agent.close(SessionId(id));
    }
    assert!(client.send(1, &all_flows()).len() > 1);
}

#[test]
fn a_session_that_never_reads_ends() {
    let mut client = filled();
    client.post(1, &all_flows());
    let before = client.rig.now.0 + 59_999_999_999;
    assert_eq!(client.rig.agent.tick(Now(before)), (vec![], Some(Now(before + 1))));
    let (ended, _) = client.rig.agent.tick(Now(before + 1));
    assert_eq!(ended, [(SessionId(1), SessionError::Stalled)]);
    client.rig.agent.output(SessionId(1));
    let (ended, next) = client.rig.agent.tick(Now(before + 1));
    assert_eq!((ended, next), (vec![], Some(Now(before + 60_000_000_001))), "the peer reads");
    client.rig.agent.progressed(SessionId(1));
    let (ended, next) = client.rig.agent.tick(Now(before + 60_000_000_001));
    assert_eq!((ended, next), (vec![], Some(Now(before + 120_000_000_001))), "slowly");
}

#[test]
fn changes_for_paused_monitors_are_bounded() {
    let mut client = filled();
    let (table, matching, command) = (TableId::ALL, Match::any(), MonitorCommand::Add);
    let monitor =
        MonitorRequest { id: 1, command, flags: ADD, out_port: None, out_group: None, table, matching };
    client.part(MultipartRequest::FlowMonitor(vec![monitor]));
    client.post(1, &all_flows());
    let changes = |base: u32| -> Changes {
        let flow = |i| FlowMod { table: TableId(1), ..flow(FlowCommand::Add, in_port(base + i), 2) };
        let changes: Vec<_> = (0..50_000).map(|i| Modification::Flow(Box::new(flow(i)))).collect();
        agent::fake::FakeSwitch::new(1).modify(&changes, Now(0)).unwrap()
    };
    let report = |client: &mut Client, base| {
        let tables = client.rig.switch.tables();
        client.rig.agent.changed(&changes(base), &tables, Now(0));
    };
    for base in [0, 100_000] {
        report(&mut client, base);
    }
    assert_eq!(client.rig.agent.tick(client.rig.now).0, []);
    report(&mut client, 200_000);
    assert_eq!(client.rig.agent.tick(client.rig.now).0, [(SessionId(1), SessionError::Stalled)]);
}

#[test]
fn one_session_does_not_disturb_another() {
    let mut client = Client::new(Version::V13);
    client.open(2, Kind::Controller, Version::V13);
    assert!(client.rig.receive(2, &[4, 14, 0, 56]));
    client.does(&add(1, 2));
    assert!(!client.rig.receive(2, &[[0xff; 52], [0; 52]].concat()), "the stream is no longer OpenFlow");
    client.does(&add(2, 2));
    assert_eq!(client.rig.agent.sessions().count(), 1);
}

#[test]
fn many_requests_in_one_read_are_answered_in_order() {
    let mut client = Client::new(Version::V14);
    let mut bytes = Vec::new();
    for i in 0..5000_u32 {
        encode(&Message::EchoRequest(i.to_be_bytes().to_vec()), Version::V14, i, &mut bytes).unwrap();
    }
    for piece in bytes.chunks(4093) {
        assert!(client.rig.receive(1, piece));
    }
    let answers = client.rig.messages(1, Version::V14);
    let expected = |i: u32| (i, Message::EchoReply(i.to_be_bytes().to_vec()));
    assert_eq!(answers, (0..5000).map(expected).collect::<Vec<_>>());
}
