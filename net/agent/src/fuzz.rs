//! Arbitrary bytes of several sessions of one agent.
//!
//! Invariants: nothing panics, all output consists of messages that can be decoded, and what waits is bounded.

use crate::fake::FakeSwitch;
use crate::{Agent, Auxiliary, Datapath, Identity, Kind, SessionId, limits};
use flow::PortNo;
use openflow::{Description, Framing, Hello, Message, PortReason, Version, decode, encode};
use port::{Context, Now, PortId, PuntReason, Punted};

/// Sessions of a script.
const SESSIONS: u64 = 3;
/// A part of an answer and a notice more than what may wait.
const OUTPUT: usize = limits::OUTPUT + (limits::CHUNK + 2) * (1 << 16);

/// An agent, its switch, and what each session agreed on.
pub struct Rig {
    /// Agent.
    pub agent: Agent,
    /// Switch.
    pub switch: FakeSwitch,
    /// Time.
    pub now: Now,
}

impl Rig {
    /// An agent without sessions.
    pub fn new() -> Self {
        let description = Description { software: "linerate".into(), ..Description::default() };
        let agent = Agent::new(Identity::new(0x1234, description));
        Self { agent, switch: FakeSwitch::new(4), now: Now(1_000_000_000) }
    }

    /// Opens a session that agrees on `version`. The output starts with the HELLO.
    pub fn open(&mut self, id: u64, kind: Kind, version: Version) {
        self.agent.open(SessionId(id), kind, self.now);
        let mut hello = Vec::new();
        let _ = encode(&Message::Hello(Hello::new(&[version])), version, 1, &mut hello);
        self.receive(id, &hello);
    }

    /// Opens an auxiliary session of `main`, which agrees on `version`.
    pub fn open_auxiliary(&mut self, id: u64, main: u64, version: Version) {
        let place = Auxiliary { main: SessionId(main), number: 1 };
        self.agent.open_auxiliary(SessionId(id), place, self.now);
        let mut hello = Vec::new();
        let _ = encode(&Message::Hello(Hello::new(&[version])), version, 1, &mut hello);
        self.receive(id, &hello);
    }

    /// Processes bytes; a session that must end is closed. Whether it stays open.
    pub fn receive(&mut self, id: u64, bytes: &[u8]) -> bool {
        let result = self.agent.receive(SessionId(id), bytes, &mut self.switch, self.now);
        if result.is_err() {
            self.agent.close(SessionId(id));
        }
        result.is_ok()
    }

    /// Takes the output of a session until nothing waits, and checks and decodes it.
    ///
    /// # Panics
    /// If an invariant is violated.
    pub fn messages(&mut self, id: u64, version: Version) -> Vec<(u32, Message)> {
        let (mut framing, mut found) = (Framing::new(), Vec::new());
        loop {
            let output = self.agent.output(SessionId(id));
            assert!(output.len() <= OUTPUT, "{} bytes wait", output.len());
            if output.is_empty() && !self.agent.waits(SessionId(id)) {
                return found;
            }
            let mut rest = &output[..];
            while !rest.is_empty() {
                rest = &rest[framing.push(rest)..];
                while let Some(message) = framing.next_message().unwrap_or_else(|error| panic!("{error}")) {
                    let xid = openflow::Header::read(message).map_or(0, |header| header.xid);
                    let decoded = decode(message, version);
                    found.push((xid, decoded.unwrap_or_else(|error| panic!("{error}: {message:02x?}"))));
                }
            }
            assert_eq!(framing.room(), openflow::limits::FRAMING, "output ends with a message");
            // Continues with requests that waited.
            self.receive(id, &[]);
        }
    }
}

impl Default for Rig {
    fn default() -> Self {
        Self::new()
    }
}

/// Runs a script of steps: a session with its version, a kind of step, and up to 255 bytes for it.
///
/// # Panics
/// If an invariant is violated.
pub fn fuzz_agent(script: &[u8]) {
    let (mut rig, mut rest) = (Rig::new(), script);
    let versions: Vec<_> =
        (0..SESSIONS).map(|id| Version::ALL[(usize::from(first(script)) + id as usize) % 4]).collect();
    for id in 0..SESSIONS {
        rig.open(id, if id == 0 { Kind::Service } else { Kind::Controller }, versions[id as usize]);
    }
    while let Some((&[step, kind, len], tail)) = rest.split_first_chunk() {
        let (data, tail) = tail.split_at(tail.len().min(len.into()));
        rest = tail;
        let id = u64::from(step) % SESSIONS;
        run(&mut rig, id, step / 4, kind, data, versions[id as usize]);
    }
    for id in 0..SESSIONS {
        rig.messages(id, versions[id as usize]);
    }
}

fn first(script: &[u8]) -> u8 {
    script.first().copied().unwrap_or(0) & 3
}

fn run(rig: &mut Rig, id: u64, step: u8, kind: u8, data: &[u8], version: Version) {
    match step % 8 {
        0 => {
            rig.receive(id, data);
        }
        1 => drop(rig.messages(id, version)),
        2 => {
            rig.now.0 += u64::from(kind) * 250_000_000;
            let (ended, _) = rig.agent.tick(rig.now);
            for (id, _) in ended {
                rig.agent.close(id);
            }
            let expired = rig.switch.expire(rig.now);
            rig.agent.changed(&expired, &rig.switch.tables(), rig.now);
        }
        3 => {
            let context = Context::received(PortId(0), rig.now);
            let packet = Punted { context, reason: PuntReason::NoMatch, note: None, frame: data.into() };
            rig.agent.punted(PortNo(kind.into()), &packet);
        }
        4 => {
            let port = rig.switch.ports()[usize::from(kind) % 5].clone();
            rig.agent.port_changed(PortReason::Modify, &port);
        }
        5 if kind < 128 => rig.open(id, Kind::Controller, version),
        5 => rig.open_auxiliary(id, u64::from(kind) % SESSIONS, version),
        // A message of this type with the data as its body.
        _ => {
            let len = (data.len() as u16 + 8).to_be_bytes();
            let header = [version as u8, kind % 36, len[0], len[1], 0, 0, 0, kind];
            rig.receive(id, &[&header, data].concat());
        }
    }
}
