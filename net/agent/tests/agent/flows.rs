use crate::client::{Client, add, flow, flow_mod, in_port};
use flow::{Action, FlowCommand, FlowFlags, FlowMod, Match, PortNo, TableId};
use openflow::{ErrorCode, FlowModRequest, Message, Version};

fn modify(port: u32, to: u32, table: TableId) -> FlowMod {
    FlowMod { table, ..flow(FlowCommand::Modify, in_port(port), to) }
}

fn outputs(client: &Client, table: u8, port: u32) -> usize {
    let tables = agent::Datapath::tables(&client.rig.switch);
    tables.flows(TableId(table)).filter(|flow| flow.outputs_to(PortNo(port))).count()
}

#[test]
fn flows_are_added_and_deleted_in_all_versions() {
    for version in Version::ALL {
        let mut client = Client::new(version);
        client.does(&add(1, 2));
        client.does(&add(2, 1));
        client.does(&add(2, 3));
        assert_eq!((client.flows(), outputs(&client, 0, 3)), (2, 1));
        let all = FlowMod { table: TableId::ALL, ..flow(FlowCommand::Delete, Match::any(), 1) };
        let port_3 = FlowMod { out_port: Some(PortNo(3)), ..all.clone() };
        client.does(&flow_mod(port_3));
        assert_eq!((client.flows(), outputs(&client, 0, 3)), (1, 0));
        client.does(&flow_mod(all));
        assert_eq!(client.flows(), 0);
    }
}

#[test]
fn only_openflow_1_0_adds_flows_that_it_modifies() {
    let mut client = Client::new(Version::V13);
    client.does(&flow_mod(modify(1, 2, TableId(0))));
    assert_eq!(client.flows(), 0);

    let mut client = Client::new(Version::V10);
    client.does(&flow_mod(modify(1, 2, TableId::ALL)));
    assert_eq!((client.flows(), outputs(&client, 0, 2)), (1, 1));
}

#[test]
fn openflow_1_0_modifies_flows_of_all_tables() {
    let mut client = Client::new(Version::V13);
    for table in [0, 3, 9] {
        client.does(&flow_mod(FlowMod { table: TableId(table), ..flow(FlowCommand::Add, in_port(1), 2) }));
    }
    client.open(2, agent::Kind::Service, Version::V10);
    let loose = FlowMod { matching: Match::any(), ..modify(1, 4, TableId::ALL) };
    assert_eq!(client.send(2, &flow_mod(loose)), []);
    let outputs_to = |client: &Client, port| [0, 3, 9].map(|table| outputs(client, table, port));
    assert_eq!((client.flows(), outputs_to(&client, 4)), (3, [1, 1, 1]));
    let strict = FlowMod { command: FlowCommand::ModifyStrict, ..modify(1, 3, TableId::ALL) };
    assert_eq!(client.send(2, &flow_mod(strict)), []);
    assert_eq!((client.flows(), outputs_to(&client, 3)), (3, [1, 1, 1]));
}

#[test]
fn refused_flows_have_the_errors_of_the_specification() {
    let mut client = Client::new(Version::V13);
    let valid = || flow(FlowCommand::Add, in_port(1), 2);
    let with = |action: Action| {
        let mut flow = valid();
        flow.instructions.apply = vec![action];
        flow
    };
    let goto = |to| {
        let mut flow = valid();
        flow.table = TableId(5);
        flow.instructions.goto = Some(TableId(to));
        flow
    };
    let meter = || {
        let mut flow = valid();
        flow.instructions.meter = Some(5);
        flow
    };
    client.does(&flow_mod(goto(6)));
    client.does(&add(1, 2));
    let overlap = FlowFlags { check_overlap: true, ..FlowFlags::default() };
    for (flow, code) in [
        (FlowMod { table: TableId::ALL, ..valid() }, ErrorCode::FlowModBadTableId),
        (FlowMod { flags: overlap, matching: Match::any(), ..valid() }, ErrorCode::FlowModOverlap),
        (goto(5), ErrorCode::InstructionBadTableId),
        (meter(), ErrorCode::MeterInvalid),
        (with(Action::Group(7)), ErrorCode::ActionBadOutGroup),
        (with(Action::PopMpls(1)), ErrorCode::ActionBadArgument),
        (
            with(Action::SetField { field: flow::Field::TcpDst, value: 1, mask: 0xffff }),
            ErrorCode::ActionMatchInconsistent,
        ),
    ] {
        assert_eq!(client.error(&flow_mod(flow.clone())), code, "{flow:?}");
    }
    assert_eq!(client.flows(), 2);
}

#[test]
fn buffers_are_unknown() {
    let mut client = Client::new(Version::V13);
    let buffered = |command| {
        let flow = flow(command, in_port(1), 2);
        Message::FlowMod(Box::new(FlowModRequest { flow, buffer: Some(1) }))
    };
    assert_eq!(client.error(&buffered(FlowCommand::Add)), ErrorCode::RequestBufferUnknown);
    assert_eq!(client.error(&buffered(FlowCommand::Modify)), ErrorCode::RequestBufferUnknown);
    client.does(&buffered(FlowCommand::Delete));
    assert_eq!(client.flows(), 0);
}

#[test]
fn a_full_table_refuses_or_evicts() {
    let mut client = Client::new(Version::V14);
    client.rig.switch.limit(TableId(0), 2);
    for port in 1..=2 {
        client.does(&add(port, 3));
    }
    assert_eq!(client.error(&add(4, 3)), ErrorCode::FlowModTableFull);
    let evict = openflow::TableConfig { table: TableId(0), config: 4, ..openflow::TableConfig::default() };
    client.does(&Message::TableMod(evict));
    client.does(&add(4, 3));
    assert_eq!(client.flows(), 2);
    for config in
        [openflow::TableConfig { config: 16, ..evict }, openflow::TableConfig { eviction: Some(4), ..evict }]
    {
        assert_eq!(client.error(&Message::TableMod(config)), ErrorCode::TableModBadConfig);
    }
    for (down, up) in [(30, 20), (30, 101)] {
        let vacancy = Some(openflow::Vacancy { down, up, current: 0 });
        let config = openflow::TableConfig { vacancy, ..evict };
        assert_eq!(client.error(&Message::TableMod(config)), ErrorCode::PropertyBadValue);
    }
}

#[test]
fn a_table_reports_that_it_becomes_full_and_empty_again() {
    let mut client = Client::new(Version::V14);
    client.rig.switch.limit(TableId(0), 10);
    let thresholds = openflow::Vacancy { down: 20, up: 50, current: 0 };
    let watched = openflow::TableConfig { config: 8, vacancy: Some(thresholds), ..Default::default() };
    client.does(&Message::TableMod(watched));
    let reasons = |messages: Vec<Message>| -> Vec<_> {
        let status = |message: &Message| match message {
            Message::TableStatus(status) => (status.reason, status.table.vacancy.unwrap().current),
            other => panic!("{other:?}"),
        };
        messages.iter().map(status).collect()
    };
    for port in 1..=8 {
        client.does(&add(port, 3));
    }
    assert_eq!(reasons(client.send(1, &add(9, 3))), [(openflow::TableReason::VacancyDown, 10)]);
    client.does(&add(10, 3));
    let delete =
        |port| flow_mod(FlowMod { table: TableId::ALL, ..flow(FlowCommand::Delete, in_port(port), 3) });
    for port in 1..=5 {
        client.does(&delete(port));
    }
    assert_eq!(reasons(client.send(1, &delete(6))), [(openflow::TableReason::VacancyUp, 60)]);
    let described = client.list(openflow::MultipartRequest::TableDesc);
    let openflow::MultipartReply::TableDesc(tables) = &described[0] else { panic!() };
    assert_eq!(tables[0].vacancy, Some(openflow::Vacancy { current: 60, ..thresholds }));
    client.does(&Message::TableMod(openflow::TableConfig { config: 0, vacancy: None, ..watched }));
    for port in 11..=16 {
        client.does(&add(port, 3));
    }
}

#[test]
fn changes_that_arrive_together_are_one_version() {
    let mut client = Client::new(Version::V13);
    let invalid = || {
        let mut invalid = flow(FlowCommand::Add, in_port(9), 2);
        invalid.instructions.apply = vec![Action::Group(7)];
        flow_mod(invalid)
    };
    let messages = [
        invalid(),
        add(1, 2),
        add(2, 2),
        invalid(),
        add(3, 2),
        invalid(),
        Message::BarrierRequest,
        add(4, 2),
    ];
    let mut bytes = Vec::new();
    for (xid, message) in (0..).zip(&messages) {
        openflow::encode(message, Version::V13, xid, &mut bytes).unwrap();
    }
    let before = agent::Datapath::tables(&client.rig.switch).version();
    assert!(client.rig.receive(1, &bytes));
    let answers = client.rig.messages(1, Version::V13);
    let xids: Vec<_> = answers.iter().map(|(xid, _)| *xid).collect();
    assert_eq!(xids, [0, 3, 5, 6], "errors in the order of their messages, before the barrier");
    assert!(matches!(answers[3], (_, Message::BarrierReply)));
    let versions = agent::Datapath::tables(&client.rig.switch).version() - before;
    assert_eq!(
        (client.flows(), versions),
        (4, 3),
        "two before the second error, one before the third, and the last"
    );
}
