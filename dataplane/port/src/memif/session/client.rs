//! Client session: creates memory and rings within the server's limits, and describes them.

use super::handover::Described;
use super::{Attached, End, Step, disconnected, init, own_name, protocol_error, rejected, unexpected};
use crate::PortFault;
use crate::memif::device::{Device, Shape};
use crate::memif::message::{Hello, Message, VERSION};
use crate::memif::options::Options;
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
        let init = init(&self.options);
        let Stage::Describing(device, sent) = &mut self.stage else { return Step::Wait };
        let line = *sent;
        *sent += 1;
        let ring = line.checked_sub(2).filter(|number| *number < rings);
        match (line, ring.and_then(|number| Some((number, device.ring(number)?.0)))) {
            (0, _) => Step::Send(Message::Init(init), Attached::Nothing),
            (1, _) => Step::Send(Message::AddRegion(0, device.bytes()), Attached::Memory),
            (_, Some((number, ring))) => Step::Send(Message::AddRing(ring), Attached::Ring(number)),
            (_, None) => Step::Send(Message::Connect(own_name()), Attached::Nothing),
        }
    }

    fn run(&mut self) -> Step {
        let stage = std::mem::replace(&mut self.stage, Stage::Opening);
        let Stage::Describing(device, _) = stage else { return Step::Wait };
        let rings = rings(&device);
        self.stage = Stage::Running(device);
        Step::Run(rings, None)
    }

    /// The device, if its rings run.
    pub(super) fn running(&self) -> Option<&Device> {
        match &self.stage {
            Stage::Running(device) => Some(device),
            Stage::Opening | Stage::Describing(..) => None,
        }
    }

    /// Continues the session of another process, whose rings run, with the messages that describe its device.
    pub(super) fn adopt(options: Options, messages: Vec<Described>) -> Result<Self, PortFault> {
        let Self { mut shape, .. } = Self::new(options);
        (shape.to_server, shape.to_client) = (0, 0);
        let (messages, files): (Vec<_>, Vec<_>) = messages.into_iter().unzip();
        for message in &messages {
            if let Message::AddRing(ring) = message {
                shape.log2 = ring.log2_size.min(options.log2());
                let count = if ring.to_server { &mut shape.to_server } else { &mut shape.to_client };
                *count = count.saturating_add(1);
            }
        }
        if shape.to_server.max(shape.to_client) > options.queue_pairs {
            return Err(PortFault::State("it has more queues"));
        }
        let mut files = files.into_iter().flatten();
        let memory = files.next().ok_or(PortFault::State("it has no memory"))?;
        let device = Device::adopt(shape, memory, files)?;
        if !description(&device).map(|(message, _)| message).eq(messages) {
            return Err(PortFault::State("its rings are at other places, or it has other options"));
        }
        Ok(Self { options, stage: Stage::Running(device), shape })
    }
}

/// The rings of the client end.
pub(super) fn rings(device: &Device) -> Rings {
    Rings::Client(device.queues(false).collect(), device.queues(true).collect())
}

/// The messages that describe a device, with their descriptors.
pub(super) fn description(device: &Device) -> impl Iterator<Item = (Message, BorrowedFd<'_>)> {
    let memory = (Message::AddRegion(0, device.bytes()), device.file());
    let rings = (0..).map_while(|number| device.ring(number));
    std::iter::once(memory).chain(rings.map(|(ring, wake)| (Message::AddRing(ring), wake)))
}
