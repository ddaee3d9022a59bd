//! Clients of one agent.

use agent::Kind;
use agent::fuzz::Rig;
use flow::{Action, FlowCommand, FlowMod, Instructions, Match, PortNo};
use openflow::{ErrorCode, FlowModRequest, Message, MultipartReply, MultipartRequest, Version, encode};
use std::collections::BTreeMap;

/// An agent, and the versions of its sessions.
pub(crate) struct Client {
    pub(crate) rig: Rig,
    versions: BTreeMap<u64, Version>,
    xid: u32,
}

impl Client {
    /// An agent with the controller 1.
    pub(crate) fn new(version: Version) -> Self {
        let mut client = Self { rig: Rig::new(), versions: BTreeMap::new(), xid: 100 };
        client.open(1, Kind::Controller, version);
        client
    }

    /// Opens a session, whose HELLO is taken.
    pub(crate) fn open(&mut self, id: u64, kind: Kind, version: Version) {
        self.versions.insert(id, version);
        self.rig.open(id, kind, version);
        let hello = self.take(id);
        assert!(matches!(hello[..], [Message::Hello(_)]), "{hello:?}");
    }

    /// Opens an auxiliary session of `main`, whose HELLO is taken.
    pub(crate) fn open_auxiliary(&mut self, id: u64, main: u64) {
        let version = self.version(main);
        self.versions.insert(id, version);
        self.rig.open_auxiliary(id, main, version);
        let hello = self.take(id);
        assert!(matches!(hello[..], [Message::Hello(_)]), "{hello:?}");
    }

    pub(crate) fn version(&self, id: u64) -> Version {
        self.versions[&id]
    }

    /// Sends a message without looking at the output; returns its transaction identifier.
    pub(crate) fn post(&mut self, id: u64, message: &Message) -> u32 {
        self.xid += 1;
        let xid = if let Message::BundleAdd(add) = message { add.xid } else { self.xid };
        let mut bytes = Vec::new();
        encode(message, self.version(id), xid, &mut bytes)
            .unwrap_or_else(|error| panic!("{message:?}: {error}"));
        assert!(self.rig.receive(id, &bytes), "the session stays open");
        xid
    }

    /// Messages that wait for a session.
    pub(crate) fn take(&mut self, id: u64) -> Vec<Message> {
        self.rig.messages(id, self.version(id)).into_iter().map(|(_, message)| message).collect()
    }

    /// Sends a message and returns all messages that wait then.
    pub(crate) fn send(&mut self, id: u64, message: &Message) -> Vec<Message> {
        self.post(id, message);
        self.take(id)
    }

    /// Sends a request of controller 1 and returns its only answer.
    pub(crate) fn ask(&mut self, message: &Message) -> Message {
        let xid = self.post(1, message);
        let mut answers = self.rig.messages(1, self.version(1));
        assert_eq!(answers.len(), 1, "{message:?}: {answers:?}");
        let (answered, answer) = answers.remove(0);
        assert_eq!(answered, xid);
        answer
    }

    /// The parts of a list that answers a request of controller 1.
    pub(crate) fn list(&mut self, request: MultipartRequest) -> Vec<MultipartReply> {
        let answers = self.send(1, &Message::MultipartRequest(request, false));
        let last = answers.len() - 1;
        let part = |(i, answer)| match answer {
            Message::MultipartReply(part, more) => {
                assert_eq!(more, i < last);
                part
            }
            other => panic!("{other:?}"),
        };
        answers.into_iter().enumerate().map(part).collect()
    }

    /// The only part of a list.
    pub(crate) fn part(&mut self, request: MultipartRequest) -> MultipartReply {
        let mut parts = self.list(request);
        assert_eq!(parts.len(), 1);
        parts.remove(0)
    }

    /// Sends a request of controller 1 that has no answer.
    pub(crate) fn does(&mut self, message: &Message) {
        let answers = self.send(1, message);
        assert_eq!(answers, [], "{message:?}");
    }

    /// The error that answers a request of controller 1.
    pub(crate) fn error(&mut self, message: &Message) -> ErrorCode {
        let answer = self.ask(message);
        code(&answer, self.version(1))
    }

    /// Number of flows of all tables.
    pub(crate) fn flows(&self) -> usize {
        let tables = agent::Datapath::tables(&self.rig.switch);
        tables.used_tables().into_iter().map(|table| tables.len(table)).sum()
    }
}

/// The reason of an error message.
pub(crate) fn code(answer: &Message, version: Version) -> ErrorCode {
    let Message::Error(error) = answer else { panic!("{answer:?} is no error") };
    error.code(version).unwrap()
}

/// A flow of table 0 that sends to a port.
#[expect(clippy::large_types_passed_by_value, reason = "short tests")]
pub(crate) fn flow(command: FlowCommand, matching: Match, port: u32) -> FlowMod {
    let apply = vec![Action::Output { port: PortNo(port), max_len: 0 }];
    let is_delete = matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict);
    FlowMod {
        instructions: Instructions {
            apply: if is_delete { Vec::new() } else { apply },
            ..Instructions::default()
        },
        ..FlowMod::new(command, &matching, 10)
    }
}

pub(crate) fn flow_mod(flow: FlowMod) -> Message {
    Message::FlowMod(Box::new(FlowModRequest { flow, buffer: None }))
}

/// Adds a flow that sends packets of port `from` to port `to`.
pub(crate) fn add(from: u32, to: u32) -> Message {
    flow_mod(flow(FlowCommand::Add, in_port(from), to))
}

pub(crate) fn in_port(port: u32) -> Match {
    Match::any().with(flow::Field::InPort, port.into())
}
