use crate::client::{Client, add, code, flow, flow_mod, in_port};
use crate::groups::group;
use agent::{Kind, SessionId, limits};
use flow::{Action, FlowCommand, FlowMod, GroupCommand, Match, PortNo, TableId};
use openflow::{
    ATOMIC, BundleAdd, BundleControl, BundleStep, ErrorCode, Message, ORDERED, PacketOut, PortMod, Version,
};

const VERSIONS: [Version; 3] = [Version::V13, Version::V14, Version::V15];
const FLAGS: u16 = ATOMIC | ORDERED;

fn control(step: BundleStep, id: u32, flags: u16) -> Message {
    Message::BundleControl(BundleControl { id, step, flags })
}

fn add_to(id: u32, flags: u16, xid: u32, message: Message) -> Message {
    Message::BundleAdd(BundleAdd { id, flags, xid, message: Box::new(message) })
}

fn steps(client: &mut Client, step: BundleStep, reply: BundleStep) {
    assert_eq!(client.ask(&control(step, 1, FLAGS)), control(reply, 1, 0));
}

#[test]
fn a_bundle_changes_nothing_before_its_commit() {
    for version in VERSIONS {
        let mut client = Client::new(version);
        steps(&mut client, BundleStep::Open, BundleStep::OpenReply);
        client.does(&add_to(1, FLAGS, 8, group(GroupCommand::Add, 4, vec![])));
        let mut uses_group = flow(FlowCommand::Add, in_port(1), 2);
        uses_group.instructions.apply = vec![Action::Group(4)];
        client.does(&add_to(1, FLAGS, 9, flow_mod(uses_group)));
        steps(&mut client, BundleStep::Close, BundleStep::CloseReply);
        assert_eq!(client.flows(), 0);
        steps(&mut client, BundleStep::Commit, BundleStep::CommitReply);
        assert_eq!(client.flows(), 1);
        assert_eq!(client.error(&control(BundleStep::Commit, 1, FLAGS)), ErrorCode::BundleBadId);
    }
}

#[test]
fn a_refused_message_undoes_the_bundle_and_is_named() {
    for version in VERSIONS {
        let mut client = Client::new(version);
        client.does(&add_to(1, FLAGS, 8, add(1, 2)));
        let mut invalid = flow(FlowCommand::Add, in_port(2), 2);
        invalid.instructions.apply = vec![Action::Group(4)];
        client.does(&add_to(1, FLAGS, 9, flow_mod(invalid)));
        client.does(&add_to(1, FLAGS, 10, add(3, 2)));
        let xid = client.post(1, &control(BundleStep::Commit, 1, FLAGS));
        let answers = client.rig.messages(1, version);
        let found: Vec<_> = answers.iter().map(|(xid, answer)| (*xid, code(answer, version))).collect();
        assert_eq!(found, [(9, ErrorCode::ActionBadOutGroup), (xid, ErrorCode::BundleMessageFailed)]);
        assert_eq!(client.flows(), 0);
    }
}

#[test]
fn steps_out_of_order_are_refused() {
    let mut client = Client::new(Version::V14);
    for step in [BundleStep::Close, BundleStep::Commit, BundleStep::Discard] {
        assert_eq!(client.error(&control(step, 1, FLAGS)), ErrorCode::BundleBadId);
    }
    steps(&mut client, BundleStep::Open, BundleStep::OpenReply);
    assert_eq!(client.error(&control(BundleStep::Open, 1, FLAGS)), ErrorCode::BundleBadId);
    steps(&mut client, BundleStep::Open, BundleStep::OpenReply);
    assert_eq!(client.error(&control(BundleStep::Close, 1, ATOMIC)), ErrorCode::BundleBadFlags);
    steps(&mut client, BundleStep::Open, BundleStep::OpenReply);
    steps(&mut client, BundleStep::Close, BundleStep::CloseReply);
    assert_eq!(client.error(&control(BundleStep::Close, 1, FLAGS)), ErrorCode::BundleClosed);
    steps(&mut client, BundleStep::Open, BundleStep::OpenReply);
    steps(&mut client, BundleStep::Close, BundleStep::CloseReply);
    assert_eq!(client.error(&add_to(1, FLAGS, 9, add(1, 2))), ErrorCode::BundleClosed);
    steps(&mut client, BundleStep::Open, BundleStep::OpenReply);
    assert_eq!(client.error(&add_to(1, 0, 9, add(1, 2))), ErrorCode::BundleBadFlags);
    steps(&mut client, BundleStep::Open, BundleStep::OpenReply);
    client.does(&add_to(1, FLAGS, 9, add(1, 2)));
    steps(&mut client, BundleStep::Discard, BundleStep::DiscardReply);
    assert_eq!(client.error(&control(BundleStep::OpenReply, 1, FLAGS)), ErrorCode::BundleBadType);
    assert_eq!(client.flows(), 0);
}

#[test]
fn ports_and_packets_follow_the_tables() {
    let mut client = Client::new(Version::V14);
    let port =
        PortMod { number: PortNo(2), address: [2, 0, 0, 0, 0, 2].into(), config: 1, mask: 1, advertise: 0 };
    let metadata = in_port(1);
    let packet = PacketOut { buffer: None, metadata, actions: vec![], data: vec![0; 60] };
    client.does(&add_to(1, ORDERED, 8, Message::PacketOut(Box::new(packet))));
    client.does(&add_to(1, ORDERED, 9, Message::PortMod(port)));
    client.does(&add_to(1, ORDERED, 10, add(1, 2)));
    assert_eq!(client.ask(&control(BundleStep::Commit, 1, ORDERED)), control(BundleStep::CommitReply, 1, 0));
    assert_eq!((client.flows(), client.rig.switch.sent.len(), client.rig.switch.ports[1].config), (1, 1, 1));
    client.does(&add_to(1, ATOMIC, 8, Message::PortMod(port)));
    client.does(&add_to(1, ATOMIC, 9, add(2, 2)));
    assert_eq!(client.send(1, &control(BundleStep::Commit, 1, ATOMIC)).len(), 2);
    assert_eq!(client.flows(), 1);
}

#[test]
fn a_bundle_with_an_invalid_packet_or_port_changes_nothing() {
    let mut client = Client::new(Version::V14);
    let packet = |group| {
        let (metadata, actions) = (in_port(1), vec![Action::Group(group)]);
        Message::PacketOut(Box::new(PacketOut { buffer: None, metadata, actions, data: vec![0; 60] }))
    };
    let unknown =
        PortMod { number: PortNo(2), address: [2, 0, 0, 0, 0, 9].into(), config: 1, mask: 1, advertise: 0 };
    let bit = PortMod { address: [2, 0, 0, 0, 0, 2].into(), config: 4, mask: 4, ..unknown };
    for (message, code_of) in [
        (packet(5), ErrorCode::ActionBadOutGroup),
        (Message::PortMod(unknown), ErrorCode::PortModBadHwAddr),
        (Message::PortMod(bit), ErrorCode::PortModBadConfig),
    ] {
        client.does(&add_to(1, ORDERED, 8, group(GroupCommand::Add, 4, vec![])));
        client.does(&add_to(1, ORDERED, 9, packet(4)));
        client.does(&add_to(1, ORDERED, 10, add(1, 2)));
        client.does(&add_to(1, ORDERED, 11, message));
        let answers = client.send(1, &control(BundleStep::Commit, 1, ORDERED));
        let codes: Vec<_> = answers.iter().map(|answer| code(answer, Version::V14)).collect();
        assert_eq!(codes, [code_of, ErrorCode::BundleMessageFailed]);
        assert_eq!((client.flows(), client.rig.switch.sent.len()), (0, 0));
        assert!(agent::Datapath::tables(&client.rig.switch).group(4).is_none());
    }
    client.does(&add_to(1, ATOMIC, 8, group(GroupCommand::Add, 4, vec![])));
    client.does(&add_to(1, ATOMIC, 9, packet(4)));
    assert_eq!(client.ask(&control(BundleStep::Commit, 1, ATOMIC)), control(BundleStep::CommitReply, 1, 0));
    assert_eq!(client.rig.switch.sent.len(), 1, "a group of the same bundle");
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn a_bundle_that_modifies_all_flows_too_often_changes_nothing() {
    let mut client = Client::new(Version::V14);
    let flows: Vec<_> = (0..50_000)
        .map(|port| flow::tables::Modification::Flow(Box::new(flow(FlowCommand::Add, in_port(port), 2))))
        .collect();
    agent::Datapath::modify(&mut client.rig.switch, &flows, port::Now(0)).unwrap();
    for xid in 0..100 {
        client.does(&add_to(1, ORDERED, xid, flow_mod(flow(FlowCommand::Modify, Match::any(), 3))));
    }
    let answers = client.send(1, &control(BundleStep::Commit, 1, ORDERED));
    let codes: Vec<_> = answers.iter().map(|answer| code(answer, Version::V14)).collect();
    assert_eq!(codes, [ErrorCode::BundleMessageTooMany, ErrorCode::BundleMessageFailed]);
    let tables = agent::Datapath::tables(&client.rig.switch);
    assert!(tables.flows(TableId(0)).all(|flow| flow.outputs_to(PortNo(2))));
}

#[test]
fn bundles_end_with_their_session_and_when_they_are_idle() {
    let mut client = Client::new(Version::V14);
    client.open(2, Kind::Controller, Version::V14);
    client.does(&add_to(1, FLAGS, 8, add(1, 2)));
    client.send(2, &add_to(1, FLAGS, 8, add(1, 2)));
    client.rig.agent.close(SessionId(2));
    client.open(2, Kind::Controller, Version::V14);
    let commit = client.send(2, &control(BundleStep::Commit, 1, FLAGS));
    assert_eq!(code(&commit[0], Version::V14), ErrorCode::BundleBadId);
    client.rig.now.0 += u64::try_from(limits::BUNDLE_IDLE.as_nanos()).unwrap();
    assert_eq!(client.rig.agent.tick(client.rig.now).0, []);
    let messages = client.take(1);
    let errors = messages.iter().filter(|message| matches!(message, Message::Error(_)));
    assert_eq!(errors.map(|error| code(error, Version::V14)).collect::<Vec<_>>(), [ErrorCode::BundleTimeout]);
    assert_eq!(client.error(&control(BundleStep::Commit, 1, FLAGS)), ErrorCode::BundleBadId);
}

#[test]
fn bundles_are_bounded() {
    let mut client = Client::new(Version::V14);
    for id in 0..limits::BUNDLES as u32 {
        client.ask(&control(BundleStep::Open, id, FLAGS));
    }
    let more = limits::BUNDLES as u32;
    assert_eq!(client.error(&control(BundleStep::Open, more, FLAGS)), ErrorCode::BundleOutOfBundles);
    assert_eq!(client.error(&add_to(more, FLAGS, 9, add(1, 2))), ErrorCode::BundleOutOfBundles);
    let mut large = flow(FlowCommand::Add, Match::any(), 1);
    large.instructions.apply = vec![Action::Note(vec![0; 63_998].into())];
    let large = add_to(0, FLAGS, 9, flow_mod(FlowMod { table: TableId(1), ..large }));
    let mut refused = 0;
    for _ in 0..limits::BUNDLE_BYTES / 60_000 {
        refused += client.send(1, &large).len();
    }
    assert!(refused > 0);
    client.ask(&control(BundleStep::Discard, 0, FLAGS));
    client.ask(&control(BundleStep::Open, 0, FLAGS));
    client.does(&large);
}
