//! All sessions of one bridge.

use crate::batch::Batch;
use crate::datapath::Datapath;
use crate::request::Request;
use crate::session::{Auxiliary, Kind, Liveness, Session, SessionError, SessionId, SessionReport};
use crate::vacancy::Vacancies;
use crate::{handshake, limits, liveness};
use flow::tables::{Changes, Tables};
use openflow::{DecodeError, Description, Header, Message, Version, decode};
use port::Now;
use std::collections::BTreeMap;
use std::time::Duration;

/// Identity and features of the switch.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Identifier of the switch; it should be unique in the network.
    pub datapath_id: u64,
    /// Answer to description requests.
    pub description: Description,
    /// Versions that sessions may agree on; at least one.
    pub versions: Vec<Version>,
    /// Silence of a peer after which it is probed, except at the management socket; zero for no probes.
    pub probe_interval: Duration,
}

impl Identity {
    /// An identity with all versions and probes after 5 s.
    pub fn new(datapath_id: u64, description: Description) -> Self {
        let (versions, probe_interval) = (Version::ALL.to_vec(), Duration::from_secs(5));
        Self { datapath_id, description, versions, probe_interval }
    }
}

/// State that all sessions share.
pub(crate) struct Switch {
    pub(crate) identity: Identity,
    /// Number of the last election; `None` before the first.
    pub(crate) generation: Option<u64>,
    /// Handling of fragments (`OFPC_FRAG_*`).
    pub(crate) fragments: u16,
    /// Names that controllers gave to tables.
    pub(crate) table_names: BTreeMap<u8, String>,
    /// Tables whose vacancy is watched.
    pub(crate) vacancies: Vacancies,
}

/// The OpenFlow agent of one bridge.
pub struct Agent {
    sessions: BTreeMap<SessionId, Session>,
    switch: Switch,
}

impl Agent {
    /// An agent without sessions.
    pub fn new(identity: Identity) -> Self {
        let (table_names, vacancies) = (BTreeMap::new(), Vacancies::default());
        let switch = Switch { identity, generation: None, fragments: 0, table_names, vacancies };
        Self { sessions: BTreeMap::new(), switch }
    }

    /// Adds a session for an open connection. Its first output is a HELLO. A session with the same identity is
    /// replaced.
    pub fn open(&mut self, id: SessionId, kind: Kind, now: Now) {
        let mut session = Session::new(id, kind, now);
        handshake::greet(&mut session, &self.switch.identity.versions);
        self.sessions.insert(id, session);
    }

    /// Adds a session for an auxiliary connection. It offers the version of its main connection only, which must have
    /// agreed on one: otherwise, the next call of [`Agent::tick`] ends it.
    pub fn open_auxiliary(&mut self, id: SessionId, place: Auxiliary, now: Now) {
        let mut session = Session::new(id, Kind::Auxiliary, now);
        session.auxiliary = Some(place);
        match self.sessions.get(&place.main).and_then(|main| Some((main.role, main.version()?))) {
            Some((role, version)) => {
                session.role = role;
                handshake::greet(&mut session, &[version]);
            }
            None => session.ended = Some(SessionError::Main),
        }
        self.sessions.insert(id, session);
    }

    /// Processes received bytes. If [`Agent::waits`] is true then, messages wait: call this again with no bytes, after
    /// other sessions had their turn and [`Agent::is_full`] is false.
    ///
    /// # Errors
    /// If the session must end: the caller sends the rest of its output, closes the connection and calls
    /// [`Agent::close`].
    pub fn receive(
        &mut self,
        id: SessionId,
        bytes: &[u8],
        datapath: &mut dyn Datapath,
        now: Now,
    ) -> Result<(), SessionError> {
        // Without the session in the map, a request can change it and all others.
        let Some(mut session) = self.sessions.remove(&id) else { return Ok(()) };
        session.input.push(bytes);
        session.output.begin_turn();
        let result = self.process(&mut session, datapath, now);
        self.sessions.insert(id, session);
        result
    }

    fn process(
        &mut self,
        session: &mut Session,
        datapath: &mut dyn Datapath,
        now: Now,
    ) -> Result<(), SessionError> {
        let mut batch = Batch::default();
        let result = self.process_messages(session, &mut batch, datapath, now);
        self.flush(session, &mut batch, datapath, now);
        result
    }

    fn process_messages(
        &mut self,
        session: &mut Session,
        batch: &mut Batch,
        datapath: &mut dyn Datapath,
        now: Now,
    ) -> Result<(), SessionError> {
        while !session.output.is_turn_over() {
            let Some(message) = session.input.next_message()? else { return Ok(()) };
            session.counters.received += 1;
            // Bytes that are no message yet do not count, so that a peer cannot stay in the handshake by sending few.
            session.liveness = Liveness::new(now);
            let Some(dialect) = session.dialect else {
                handshake::agree(session, &message, &self.offered(session))?;
                continue;
            };
            match decode(&message, dialect) {
                Ok(Message::FlowMod(change)) if batch.takes(session, &change, datapath) => {
                    batch.push(*change, message);
                }
                decoded => {
                    self.flush(session, batch, datapath, now);
                    self.answer(session, &message, decoded, datapath, now);
                }
            }
            session.ended.map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// Versions that a session may agree on.
    fn offered(&self, session: &Session) -> Vec<Version> {
        let Some(auxiliary) = session.auxiliary else { return self.switch.identity.versions.clone() };
        self.sessions.get(&auxiliary.main).and_then(Session::version).into_iter().collect()
    }

    fn flush(&mut self, session: &mut Session, batch: &mut Batch, datapath: &mut dyn Datapath, now: Now) {
        let batch = std::mem::take(batch);
        if let Some(dialect) = session.dialect.filter(|_| !batch.is_empty()) {
            let (others, switch) = (&mut self.sessions, &mut self.switch);
            Request { session, others, switch, datapath, now, xid: 0, bytes: &[], dialect }
                .execute_batch(&batch);
        }
    }

    fn answer(
        &mut self,
        session: &mut Session,
        message: &[u8],
        decoded: Result<Message, DecodeError>,
        datapath: &mut dyn Datapath,
        now: Now,
    ) {
        let (Some(dialect), Some(header)) = (session.dialect, Header::read(message)) else { return };
        let (others, switch, xid) = (&mut self.sessions, &mut self.switch, header.xid);
        let result = match decoded {
            Ok(decoded) => Request { session, others, switch, datapath, now, xid, bytes: message, dialect }
                .handle(decoded),
            // An error message is never answered with another one.
            Err(_) if header.kind == handshake::ERROR => Ok(()),
            Err(error) => Err(error.code),
        };
        if let Err(code) = result {
            session.refuse(code, message);
        }
    }

    /// Takes the bytes that wait to be sent. Call it again after they were sent: it continues long answers, and an
    /// empty result means that nothing waits.
    pub fn output(&mut self, id: SessionId) -> Vec<u8> {
        let Some(session) = self.sessions.get_mut(&id) else { return Vec::new() };
        session.resume_monitors();
        session.liveness.reads |= session.output.is_full();
        session.output.take()
    }

    /// The peer has read a part of much output that was taken, and more of it waits in the connection.
    pub fn progressed(&mut self, id: SessionId) {
        self.sessions.get_mut(&id).iter_mut().for_each(|session| session.liveness.reads = true);
    }

    /// Whether so much output waits that no message is processed until a part of it is taken.
    pub fn is_full(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_some_and(|session| session.output.is_full())
    }

    /// Whether received messages may wait, so that the session must not be read.
    pub fn waits(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_some_and(|session| session.output.is_turn_over())
    }

    /// Removes a session with its bundles and monitors. The next call of [`Agent::tick`] ends its auxiliary ones.
    pub fn close(&mut self, id: SessionId) {
        self.sessions.remove(&id);
        for other in self.sessions.values_mut().filter(|other| other.main() == id) {
            other.ended = Some(SessionError::Main);
        }
    }

    /// Probes silent peers and discards idle bundles. Returns the sessions to close, with the reason, and the
    /// time of the next call. Sessions that were opened since may need an earlier one.
    pub fn tick(&mut self, now: Now) -> (Vec<(SessionId, SessionError)>, Option<Now>) {
        let (mut ended, mut next) = (Vec::new(), None);
        for session in self.sessions.values_mut() {
            match liveness::tick(session, self.switch.identity.probe_interval, now) {
                Ok(deadline) => next = next.into_iter().chain(deadline).min(),
                Err(error) => ended.push((session.id, error)),
            }
        }
        (ended, next)
    }

    /// Reports changes that no session has made: expired and learned flows, and changes by others. `tables` are those
    /// after them.
    pub fn changed(&mut self, changes: &Changes, tables: &Tables, now: Now) {
        self.sessions.values_mut().for_each(|session| session.report_changes(changes, None, now));
        for status in self.switch.vacancies.crossed(tables) {
            self.sessions.values_mut().for_each(|session| session.table_status(status));
        }
    }

    /// Sends a packet that arrived on `in_port` to the controllers that its action selects.
    pub fn punted(&mut self, in_port: flow::PortNo, packet: &port::Punted) {
        let mains: Vec<_> = self
            .sessions
            .values()
            .filter(|session| session.auxiliary.is_none())
            .map(|main| main.id)
            .collect();
        for main in mains {
            let message = self.sessions.get(&main).and_then(|session| session.packet_in(in_port, packet));
            let Some(message) = message else { continue };
            if let Some(session) = self.sessions.get_mut(&self.packet_path(main)) {
                session.notify_within(limits::PACKETS, &Message::PacketIn(Box::new(message)));
            }
        }
    }

    /// The session through which a controller gets packets: the auxiliary one with the least output, or the main one.
    fn packet_path(&self, main: SessionId) -> SessionId {
        let is_open = |session: &&Session| session.dialect.is_some() && session.ended.is_none();
        let own =
            self.sessions.values().filter(|session| session.auxiliary.is_some() && session.main() == main);
        let best = own.filter(is_open).min_by_key(|session| session.output.len());
        best.map_or(main, |session| session.id)
    }

    /// Reports a changed port. Changes by port modifications are reported by the agent itself.
    pub fn port_changed(&mut self, reason: openflow::PortReason, port: &openflow::Port) {
        self.sessions.values_mut().for_each(|session| session.port_status(reason, port));
    }

    /// Whether a controller has completed the handshake.
    pub fn has_controller(&self) -> bool {
        self.sessions.values().any(|session| session.kind == Kind::Controller && session.dialect.is_some())
    }

    /// All sessions by identity.
    pub fn sessions(&self) -> impl Iterator<Item = SessionReport> {
        self.sessions.values().map(Session::report)
    }
}
