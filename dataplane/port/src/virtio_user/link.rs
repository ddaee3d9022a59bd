//! One connection to a back end: the request sequence that starts a device, one request at a time, and the idle phase
//! after it.
//!
//! The front end sends requests and the back end replies, so at most one reply is pending at any time; any other
//! message is a protocol violation, except one: the back end of a grant sends an unasked reply to `RESET_OWNER` before
//! it disconnects, with the reason ([`GrantEnd`]). If the back end does not acknowledge requests, a request that needs
//! a reply follows the requests for each ring: messages are processed in order, so its reply implies that the others
//! were processed, and no requests accumulate in the socket. Never blocks; time is passed in.

use super::device::Device;
use super::negotiation::Negotiation;
use super::options::Options;
use super::script::{Attached, Line};
use super::{FrontEndError, Negotiated};
use crate::socket::rights::ReceiveError;
use crate::vhost::message::{Code, Header, ProtocolFeatures, Reply, Request};
use crate::vhost::wire::{Channel, Message, WireError};
use crate::{GrantEnd, PortFault};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Timeout of one reply. Back ends map and populate memory before they reply.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// Reason why a link ended.
#[derive(Debug)]
pub(super) enum End {
    /// The back end closed it.
    Closed,
    /// This side ended it.
    Fault(PortFault),
}

/// Stage of the connection.
#[derive(Debug)]
enum Stage {
    Negotiation(Negotiation),
    /// The device exists and is being described to the back end.
    Starting(Device, VecDeque<Line>),
    Running(Device),
}

/// Result of one [`Link::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing to do until the socket is readable.
    Waits,
    /// The back end has just taken over every ring.
    Started,
}

/// A connection to a back end.
#[derive(Debug)]
pub(super) struct Link {
    channel: Channel,
    options: Options,
    agreed: Negotiated,
    stage: Stage,
    /// Pending request and its deadline.
    asked: Option<(Request, Instant)>,
}

impl Link {
    /// Creates a link on a connected non-blocking socket.
    pub(super) fn new(socket: OwnedFd, options: Options) -> Self {
        Self {
            channel: Channel::new(socket, Header::expect_reply),
            options,
            agreed: Negotiated::EMPTY,
            stage: Stage::Negotiation(Negotiation::new(options.wanted())),
            asked: None,
        }
    }

    /// A link whose device runs already, with the received part of a message.
    pub(super) fn running(channel: Channel, options: Options, agreed: Negotiated, device: Device) -> Self {
        Self { channel, options, agreed, stage: Stage::Running(device), asked: None }
    }

    /// The connection of a running device, the device, and what was negotiated.
    pub(super) fn as_running(&self) -> Option<(&Channel, &Device, Negotiated)> {
        match &self.stage {
            Stage::Running(device) => Some((&self.channel, device, self.agreed)),
            Stage::Negotiation(_) | Stage::Starting(..) => None,
        }
    }

    /// Latest time of the next call of [`Link::advance`].
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.asked.as_ref().map(|asked| asked.1)
    }

    /// Negotiated features, once negotiation is complete.
    pub(super) fn agreed(&self) -> Option<Negotiated> {
        (!matches!(self.stage, Stage::Negotiation(_))).then_some(self.agreed)
    }

    /// The device, once it exists.
    pub(super) fn device(&self) -> Option<&Device> {
        match &self.stage {
            Stage::Negotiation(_) => None,
            Stage::Starting(device, _) | Stage::Running(device) => Some(device),
        }
    }

    /// Receives replies and sends further requests as far as possible now.
    pub(super) fn advance(&mut self, now: Instant) -> Result<Progress, End> {
        loop {
            if self.asked.is_some() && !self.receive_reply(now)? {
                return Ok(Progress::Waits);
            }
            if matches!(self.stage, Stage::Running(_)) {
                return self.check_unsolicited();
            }
            match self.next().map_err(End::Fault)? {
                Some((line, acknowledged)) => self.send_step(&line, acknowledged, now)?,
                None => return Ok(Progress::Started),
            }
        }
    }

    /// The next request, and whether it is acknowledged. `None`: the sequence is complete and the device runs.
    fn next(&mut self) -> Result<Option<(Line, bool)>, PortFault> {
        if let Stage::Negotiation(negotiation) = &self.stage {
            if let Some(request) = negotiation.next() {
                let line = Line { request, file: Attached::Nothing };
                return Ok(Some((line, negotiation.is_acknowledged())));
            }
            self.agreed = negotiation.negotiated();
            self.options.validate(self.agreed)?;
            let device = Device::new(self.options, self.agreed)?;
            let lines = device.lines(self.agreed);
            self.stage = Stage::Starting(device, lines);
        }
        if let Stage::Starting(_, lines) = &self.stage
            && let Some(line) = lines.front()
        {
            return Ok(Some((line.clone(), self.agreed.protocol.has(ProtocolFeatures::REPLY_ACK))));
        }
        let gone = Stage::Negotiation(Negotiation::new(self.options.wanted()));
        self.stage = match std::mem::replace(&mut self.stage, gone) {
            Stage::Starting(device, _) => Stage::Running(device),
            other => other,
        };
        Ok(None)
    }

    fn send_step(&mut self, line: &Line, acknowledged: bool, now: Instant) -> Result<(), End> {
        let Line { request, file } = line;
        let name = request.code().name();
        let file = self.device().and_then(|device| device.file(*file));
        match self.channel.send(&request.encode(acknowledged && !request.has_reply()), file.as_slice()) {
            Ok(()) => {}
            Err(Errno::AGAIN) => return Err(protocol_error(format!("it does not read {name}"))),
            Err(_) => return Err(self.closed()),
        }
        if acknowledged || request.has_reply() {
            self.asked = Some((request.clone(), now + TIMEOUT));
            return Ok(());
        }
        self.complete(0)
    }

    /// Completes the last request; `number` is the reply's value if the request has a reply of its own.
    fn complete(&mut self, number: u64) -> Result<(), End> {
        match &mut self.stage {
            Stage::Negotiation(negotiation) => {
                negotiation.complete_step(number).map_err(|error| match error {
                    error @ FrontEndError::Features(_) => End::Fault(PortFault::Unsuited(error.to_string())),
                    error => protocol_error(error.to_string()),
                })
            }
            Stage::Starting(_, lines) => {
                lines.pop_front();
                Ok(())
            }
            Stage::Running(_) => Ok(()),
        }
    }

    /// Receives the pending reply. Returns `false` if it has not arrived.
    fn receive_reply(&mut self, now: Instant) -> Result<bool, End> {
        let Some((request, until)) = &self.asked else { return Ok(true) };
        let name = request.code().name();
        let Some(message) = self.channel.receive().map_err(ended)? else {
            if now >= *until {
                return Err(protocol_error(format!(
                    "it did not answer {name} within {} s",
                    TIMEOUT.as_secs()
                )));
            }
            return Ok(false);
        };
        if let Some(end) = grant_end(&message) {
            return Err(end);
        }
        if message.header.code != request.code() {
            return Err(protocol_error(format!(
                "unexpected reply to {name}: {}",
                message.header.code.name()
            )));
        }
        let answer =
            Reply::decode(request.code(), message.payload).map_err(|e| protocol_error(e.to_string()))?;
        let (Reply::U64(number), asks) = (answer, request.has_reply()) else {
            return Err(protocol_error(format!("unexpected reply to {name}: a ring's state")));
        };
        if !asks && number != 0 {
            return Err(End::Fault(PortFault::Unsuited(format!("it refused {name}; see its log"))));
        }
        self.asked = None;
        self.complete(number).map(|()| true)
    }

    /// No request is pending, so a received message is a protocol violation.
    fn check_unsolicited(&mut self) -> Result<Progress, End> {
        match self.channel.receive().map_err(ended)? {
            None => Ok(Progress::Waits),
            Some(message) => Err(grant_end(&message).unwrap_or_else(|| {
                protocol_error(format!("it answers {} unasked", message.header.code.name()))
            })),
        }
    }

    /// Reason why a back end does not receive any more.
    fn closed(&mut self) -> End {
        let message = self.channel.receive().ok().flatten();
        message.and_then(|message| grant_end(&message)).unwrap_or(End::Closed)
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// The end of a grant, if the message reports one: no front end of this project sends `RESET_OWNER`.
fn grant_end(message: &Message<'_>) -> Option<End> {
    let answer = Reply::decode(Code::ResetOwner, message.payload);
    match answer {
        Ok(Reply::U64(number)) if message.header.code == Code::ResetOwner => {
            Some(End::Fault(GrantEnd::from_number(number).into()))
        }
        _ => None,
    }
}

fn protocol_error(how: String) -> End {
    End::Fault(PortFault::BackEnd(how))
}

fn ended(error: WireError) -> End {
    match error {
        WireError::Receive(ReceiveError::Closed | ReceiveError::Io(_)) => End::Closed,
        error => protocol_error(error.to_string()),
    }
}
