//! A session that another process continues: described by the messages of the client, which a server session receives
//! again, and from which a client session finds its rings.

use super::{ClientSession, End, ServerSession, Session, Step, client};
use crate::PortFault;
use crate::handover::duplicate;
use crate::memif::message::Message;
use crate::memif::options::Options;
use crate::memif::queue::Rings;
use rustix::fd::OwnedFd;

/// A message and its descriptor.
pub(in crate::memif) type Described = (Message, Option<OwnedFd>);

impl Session {
    /// The messages that describe the session; `None` for a client whose rings do not run, which connects again.
    pub(in crate::memif) fn hand_over(&self) -> Result<Option<Vec<Described>>, PortFault> {
        match self {
            Session::Server(server) => server.messages().map(Some),
            Session::Client(client) => client.running().map(described).transpose(),
        }
    }

    /// Continues a server session of another process. Returns its rings, if they run.
    pub(in crate::memif) fn adopt_server(
        options: Options,
        messages: Vec<Described>,
    ) -> Result<(Self, Option<Rings>), PortFault> {
        let (mut server, mut running) = (ServerSession::new(options), None);
        for (message, file) in messages {
            let step = server.receive(message, file.into_iter().collect()).map_err(|end| match end {
                End::Fault(fault) => fault,
                End::Closed => PortFault::State("its session has ended"),
            })?;
            if let Step::Run(rings, _) = step {
                running = Some(rings);
            }
        }
        Ok((Session::Server(server), running))
    }

    /// Continues a client session of another process, whose rings run.
    pub(in crate::memif) fn adopt_client(
        options: Options,
        messages: Vec<Described>,
    ) -> Result<(Self, Option<Rings>), PortFault> {
        let session = Session::Client(ClientSession::adopt(options, messages)?);
        let rings = session.rings();
        Ok((session, rings))
    }

    /// The rings, if they run.
    pub(in crate::memif) fn rings(&self) -> Option<Rings> {
        match self {
            Session::Server(server) => server.running(),
            Session::Client(client) => client.running().map(client::rings),
        }
    }

    /// Sets whether the memory of the rings, if it is that of this end, belongs to another process.
    pub(in crate::memif) fn set_left(&self, left: bool) {
        if let Session::Client(client) = self
            && let Some(device) = client.running()
        {
            device.memory().set_left(left);
        }
    }
}

fn described(device: &crate::memif::device::Device) -> Result<Vec<Described>, PortFault> {
    client::description(device).map(|(message, file)| Ok((message, Some(duplicate(file)?)))).collect()
}
