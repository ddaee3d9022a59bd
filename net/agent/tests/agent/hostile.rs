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
    assert_eq!(client.flows(), 0, "a session with a full output is not processed");
    assert_eq!(client.take(1).len() as u64, counters.sent);
    assert_eq!(client.flows(), 1);
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
    for base in [0, 100_000] {
        client.rig.agent.changed(&changes(base), Now(0));
    }
    assert_eq!(client.rig.agent.tick(client.rig.now).0, []);
    client.rig.agent.changed(&changes(200_000), Now(0));
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
