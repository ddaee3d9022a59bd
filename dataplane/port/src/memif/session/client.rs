//! Client session: creates memory and rings within the server's limits, and describes them.

use super::{Attached, End, Step, disconnected, own_name, protocol_error, rejected, unexpected};
use crate::memif::device::{Device, Shape};
use crate::memif::message::{Hello, Init, MAX_SECRET, Message, VERSION};
use crate::memif::options::{Options, Secret};
use crate::memif::queue::Rings;
use rustix::fd::{BorrowedFd, OwnedFd};

#[derive(Debug)]
enum Stage {
    /// The server's limits are not known yet.
    Opening,
    /// Number of messages sent; the last is not acknowledged yet.
    Describing(Device, usize),
    Running(Device),
}

/// A session with a server.
#[derive(Debug)]
pub(in crate::memif) struct ClientSession {
    options: Options,
    stage: Stage,
    shape: Shape,
}

impl ClientSession {
    pub(in crate::memif) fn new(options: Options) -> Self {
        let shape = Shape {
            to_server: options.queue_pairs,
            to_client: options.queue_pairs,
            log2: options.log2(),
            buffer_size: options.buffer_size,
        };
        Self { options, stage: Stage::Opening, shape }
    }

    pub(super) fn awaits(&self) -> Option<&'static str> {
        match &self.stage {
            Stage::Opening => Some("HELLO"),
            Stage::Describing(_, sent) if *sent > self.rings() + 2 => Some("CONNECTED"),
            Stage::Describing(..) => Some("ACK"),
            Stage::Running(_) => None,
        }
    }

    fn device(&self) -> Option<&Device> {
        match &self.stage {
            Stage::Opening => None,
            Stage::Describing(device, _) | Stage::Running(device) => Some(device),
        }
    }

    pub(super) fn memory(&self) -> (usize, u64) {
        self.device().map_or((0, 0), |device| (1, device.bytes()))
    }

    pub(super) fn ring_size(&self) -> u16 {
        1 << self.shape.log2
    }

    pub(super) fn file(&self, attached: Attached) -> Option<BorrowedFd<'_>> {
        let device = self.device()?;
        match attached {
            Attached::Nothing => None,
            Attached::Memory => Some(device.file()),
            Attached::Ring(number) => device.ring(number).map(|(_, wake)| wake),
        }
    }

    fn rings(&self) -> usize {
        usize::from(self.shape.to_server) + usize::from(self.shape.to_client)
    }

    pub(super) fn receive(&mut self, message: Message, files: &[OwnedFd]) -> Result<Step, End> {
        if !files.is_empty() {
            return Err(protocol_error(format!("{} came with a descriptor", message.name())));
        }
        if let Message::Disconnect(_, reason) = message {
            return Err(disconnected(&reason, matches!(self.stage, Stage::Running(_))));
        }
        let expected = self.awaits();
        match (message, expected) {
            (Message::Hello(hello), Some("HELLO")) => self.open(&hello),
            (Message::Ack, Some("ACK")) => Ok(self.next()),
            (Message::Connected(_), Some("CONNECTED")) => Ok(self.run()),
            (message, expected) => Err(unexpected(&message, expected.unwrap_or("DISCONNECT"))),
        }
    }

    fn open(&mut self, hello: &Hello) -> Result<Step, End> {
        if !(hello.min_version..=hello.max_version).contains(&VERSION) {
            return Err(rejected("it does not speak version 2.0 of memif"));
        }
        let Shape { to_server, to_client, log2, .. } = &mut self.shape;
        *to_server = (*to_server).min(hello.max_to_server.saturating_add(1));
        *to_client = (*to_client).min(hello.max_to_client.saturating_add(1));
        *log2 = (*log2).min(hello.max_log2_ring_size);
        self.stage = Stage::Describing(Device::new(self.shape).map_err(End::Fault)?, 0);
        Ok(self.next())
    }

    /// The next message of the description.
    fn next(&mut self) -> Step {
        let rings = self.rings();
        let (secret, id) = (self.options.secret.map_or([0; MAX_SECRET], Secret::bytes), self.options.id);
        let Stage::Describing(device, sent) = &mut self.stage else { return Step::Wait };
        let line = *sent;
        *sent += 1;
        let ring = line.checked_sub(2).filter(|number| *number < rings);
        match (line, ring.and_then(|number| Some((number, device.ring(number)?.0)))) {
            (0, _) => {
                let name = own_name();
                let init = Init { version: VERSION, id, mode: 0, secret, name };
                Step::Send(Message::Init(init), Attached::Nothing)
            }
            (1, _) => Step::Send(Message::AddRegion(0, device.bytes()), Attached::Memory),
            (_, Some((number, ring))) => Step::Send(Message::AddRing(ring), Attached::Ring(number)),
            (_, None) => Step::Send(Message::Connect(own_name()), Attached::Nothing),
        }
    }

    fn run(&mut self) -> Step {
        let stage = std::mem::replace(&mut self.stage, Stage::Opening);
        let Stage::Describing(device, _) = stage else { return Step::Wait };
        let rings = Rings::Client(device.queues(false).collect(), device.queues(true).collect());
        self.stage = Stage::Running(device);
        Step::Run(rings, None)
    }
}
