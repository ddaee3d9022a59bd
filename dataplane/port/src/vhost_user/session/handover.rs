//! A session that another process continues: described by the messages from which the other process builds it.
//!
//! The messages set features, memory, and size, position and descriptors of every ring, as a front end does, so a
//! process of another version validates them like those of a front end. Nothing of a session is in flight while its
//! rings are stopped.

use super::vring::{Kick, Vring};
use super::{RequestError, Session};
use crate::handover::duplicate;
use crate::vhost::message::{MAX_TABLE, ProtocolFeatures, Request, VringAddress, VringFile, VringState};
use crate::{Attach, PortFault};
use rustix::fd::OwnedFd;

/// A message and its descriptors.
pub(in crate::vhost_user) type Message = (Request, Vec<OwnedFd>);

impl Session {
    /// Lets no ring start before [`Session::resume`].
    pub(in crate::vhost_user) fn held(self) -> Self {
        Self { is_held: true, ..self }
    }

    /// Whether written pages are logged, because the guest migrates. Such a session has no description.
    pub(in crate::vhost_user) fn is_logged(&self) -> bool {
        self.active_log().is_some()
    }

    /// Stops every ring, and returns the messages that set their positions. The rings start again with
    /// [`Session::resume`].
    ///
    /// # Errors
    /// A worker may still use a ring.
    pub(in crate::vhost_user) fn hand_over(
        &mut self,
        engine: &mut dyn Attach,
    ) -> Result<Vec<Request>, PortFault> {
        (0..self.vrings.len() as u32).for_each(|index| self.stop(index, engine));
        if let Some(failure) = engine.failure() {
            return Err(failure);
        }
        let position = |(index, vring): (u32, &Vring)| {
            vring.base.map(|num| Request::SetVringBase(VringState { index, num }))
        };
        Ok((0..).zip(&self.vrings).filter_map(position).collect())
    }

    /// Starts the rings that [`Session::hand_over`] stopped here or in another process.
    pub(in crate::vhost_user) fn resume(&mut self, engine: &mut dyn Attach) -> Result<(), PortFault> {
        self.is_held = false;
        self.settle_all(engine).map_err(|error| match error {
            RequestError::Failed(what) => PortFault::Protocol(what),
            RequestError::Fault(fault) => fault,
        })
    }

    /// [`Session::end`] without an effect on the positions in the file, which another process keeps now.
    pub(in crate::vhost_user) fn release(&mut self, engine: &mut dyn Attach) {
        self.positions = None;
        self.end(engine);
    }

    /// The messages from which another process builds this session, without the positions of rings.
    ///
    /// # Errors
    /// No descriptors are available.
    pub(in crate::vhost_user) fn describe(&self) -> Result<Vec<Message>, PortFault> {
        let mut messages = vec![(Request::SetProtocolFeatures(self.protocol.0), Vec::new())];
        messages.extend(self.features.map(|features| (Request::SetFeatures(features.0), Vec::new())));
        messages.extend(self.memory_messages()?);
        for (index, vring) in self.vrings.iter().enumerate() {
            messages.extend(ring_messages(index as u8, vring)?);
        }
        // 0 would reset the device.
        if self.protocol.has(ProtocolFeatures::STATUS) && self.status != 0 {
            messages.push((Request::SetStatus(self.status.into()), Vec::new()));
        }
        Ok(messages)
    }

    /// One table, or single regions if the front end uses more than fit into a table.
    fn memory_messages(&self) -> Result<Vec<Message>, PortFault> {
        if self.files.len() > MAX_TABLE {
            let add = |(spec, fd): &(_, OwnedFd)| Ok((Request::AddMemReg(*spec), vec![duplicate(fd)?]));
            return self.files.iter().map(add).collect();
        }
        if self.files.is_empty() {
            return Ok(Vec::new());
        }
        let files = self.files.iter().map(|(_, fd)| duplicate(fd)).collect::<Result<Vec<_>, _>>()?;
        let specs = self.files.iter().map(|(spec, _)| *spec).collect();
        Ok(vec![(Request::SetMemTable(specs), files)])
    }
}

/// Messages of one ring. A ring in its grace period counts as stopped: it has no kick.
fn ring_messages(number: u8, vring: &Vring) -> Result<Vec<Message>, PortFault> {
    let index = u32::from(number);
    let state = |num| VringState { index, num };
    let settings = [
        vring.size.map(|size| Request::SetVringNum(state(size.into()))),
        vring.address.map(|address| Request::SetVringAddr(VringAddress { index, ..address })),
        vring.enabled.then(|| Request::SetVringEnable(state(1))),
    ];
    let mut messages: Vec<Message> = settings.into_iter().flatten().map(|set| (set, Vec::new())).collect();
    let mut file = |request: fn(VringFile) -> Request, fd: Option<&OwnedFd>| {
        let descriptors = fd.map(duplicate).transpose()?;
        let file = VringFile { index: number, has_descriptor: fd.is_some() };
        messages.push((request(file), descriptors.into_iter().collect()));
        Ok::<_, PortFault>(())
    };
    file(Request::SetVringCall, vring.call.as_deref())?;
    file(Request::SetVringErr, vring.err.as_ref())?;
    match vring.kick.as_ref().filter(|_| vring.grace.is_none()) {
        Some(Kick::Event(event)) => file(Request::SetVringKick, Some(event))?,
        Some(Kick::Polled) => file(Request::SetVringKick, None)?,
        None => {}
    }
    Ok(messages)
}

#[cfg(any(test, feature = "fuzz"))]
impl Session {
    /// Hands the session over to another one, which must be equal to it.
    ///
    /// # Panics
    /// If it is not.
    pub(in crate::vhost_user) fn check_hand_over(&mut self, engine: &mut dyn Attach) {
        let shape = |session: &Self| {
            // Without the protocol feature, the status has no meaning.
            let status = session.protocol.has(ProtocolFeatures::STATUS).then_some(session.status);
            (session.features, session.memory_use(), session.queue_status(), status, session.protocol)
        };
        // A front end may negotiate away what its own rings or regions need.
        let runs = self.vrings.iter().any(|vring| vring.running);
        let is_odd = runs && !self.is_driver_ready() || self.files.len() > MAX_TABLE;
        let before = shape(self);
        if self.is_logged() {
            return;
        }
        let Ok(mut messages) = self.describe() else { return };
        let Ok(positions) = self.hand_over(engine) else { return };
        if is_odd {
            return;
        }
        messages.extend(positions.into_iter().map(|request| (request, Vec::new())));
        let mut successor = Self::new(self.offer, self.queues).held();
        for (request, descriptors) in messages {
            let bytes = request.encode(false);
            let header = bytes.first_chunk().copied().map(crate::vhost::message::Header::decode);
            let (Some(Ok(header)), payload) = (header, &bytes[crate::vhost::message::Header::BYTES..]) else {
                panic!("{request:?} has no header");
            };
            let served = successor.receive(header, payload, descriptors, engine);
            assert!(served.is_ok(), "{request:?} is refused: {served:?}");
        }
        let resumed = successor.resume(engine);
        assert!(resumed.is_ok(), "{resumed:?}");
        assert_eq!(shape(&successor), before);
        successor.end(engine);
    }
}
