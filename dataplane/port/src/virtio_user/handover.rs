//! Hand-over of the port to another process: its listening socket, its connection, the requests that have described the
//! device to the back end, and the private states of the queues.
//!
//! The other process builds the same device over the same memory. It makes the requests that describe it, and compares
//! them with those of this process, so that a version with other places for rings or buffers refuses the port. A
//! connection whose device does not run yet is not handed over: it is closed, and connected again.

use super::VirtioUser;
use super::device::Device;
use super::link::Link;
use super::script::Line;
use super::{Negotiated, ProtocolFeatures};
use crate::handover::{HandOver, Handover, Part, duplicate};
use crate::state::DriverQueue;
use crate::vhost::Features;
use crate::vhost::message::{Header, Request};
use crate::vhost::wire::Channel;
use crate::{Attach, PortFault, PortState, QueueState, RxQueue, TxQueue};
use rustix::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// The listening socket.
const LISTENER: u8 = 1;
/// The connection of a running device. Bytes and further descriptors: the received part of a message.
const CONNECTION: u8 = 2;
/// A request that describes the device, with its descriptor.
const REQUEST: u8 = 3;
/// State of the next queue: for each pair, that of the receive queue before that of the transmit queue.
const QUEUE: u8 = 4;

/// Error for parts that are not those of this kind of port, or in another order.
const INVALID: PortFault = PortFault::State("it is not that of a virtio-user port");

/// Parts of a running device.
#[derive(Default)]
struct Running {
    connection: Option<Part>,
    /// The requests, and their descriptors in order.
    requests: Vec<Vec<u8>>,
    descriptors: Vec<OwnedFd>,
    states: Vec<QueueState>,
}

impl HandOver for VirtioUser {
    fn hand_over(&mut self, engine: &mut dyn Attach) -> Result<Handover, PortFault> {
        // Set before anything can fail, so that the port continues with these states.
        self.stopped = (0..self.running).map(|pair| stop(pair, engine)).collect();
        self.running = 0;
        engine.failure().map_or(Ok(()), Err)?;
        let mut handover = Handover::default();
        self.connector.hand_over(LISTENER, &mut handover)?;
        let Some((channel, device, agreed)) = self.link.as_ref().and_then(Link::as_running) else {
            return Ok(handover);
        };
        channel.hand_over(CONNECTION, &mut handover)?;
        for Line { request, file } in requests(device, agreed) {
            let file = device.file(file).map(duplicate).transpose()?;
            handover.push(REQUEST, request.encode(false), file.into_iter().collect());
        }
        for state in self.stopped.iter().flatten() {
            let QueueState::Driver(state) = state else { return Err(PortFault::State("a queue has ended")) };
            handover.push(QUEUE, state.encode(), Vec::new());
        }
        Ok(handover)
    }

    fn resume(&mut self, now: Instant, engine: &mut dyn Attach) {
        if self.started.is_none() || self.running > 0 {
            return;
        }
        if let Err(fault) = self.start(now, engine) {
            self.disconnect(Some(fault), now, engine);
        }
    }

    fn release(&mut self, _: &mut dyn Attach) {
        if let Some(device) = self.link.as_ref().and_then(Link::device) {
            // A device that does not run was not handed over.
            if self.started.is_some() {
                device.memory().set_left(true);
            }
        }
        (self.link, self.started) = (None, None);
        self.connector.release();
        self.state = PortState::Closed;
    }

    fn take_over(
        &mut self,
        handover: Handover,
        now: Instant,
        engine: &mut dyn Attach,
    ) -> Result<(), PortFault> {
        let mut running = Running::default();
        for part in handover.parts {
            match part.tag {
                LISTENER => self.connector.take_over(part)?,
                _ => running.add(part)?,
            }
        }
        if let Some(connection) = running.connection.take() {
            return self.continue_device(connection, running, now, engine);
        }
        // A client without a connection connects.
        if self.connector.listener().is_none() {
            self.connector.connect_at(now);
        }
        Ok(())
    }
}

impl Running {
    fn add(&mut self, part: Part) -> Result<(), PortFault> {
        match part.tag {
            CONNECTION => self.connection = Some(part),
            REQUEST => {
                self.requests.push(part.bytes);
                self.descriptors.extend(part.descriptors);
            }
            QUEUE => {
                let state = DriverQueue::decode(&part.bytes).ok_or(INVALID)?;
                self.states.push(QueueState::Driver(Box::new(state)));
            }
            _ => return Err(INVALID),
        }
        Ok(())
    }

    /// The result of the negotiation. The numbers of queue pairs and memory slots are no longer needed.
    fn agreed(&self) -> Result<Negotiated, PortFault> {
        let mut agreed = Negotiated::EMPTY;
        for bytes in self.requests.iter().take(2) {
            let (header, payload) = bytes.split_first_chunk().ok_or(INVALID)?;
            let header = Header::decode(*header).map_err(|_| INVALID)?;
            match Request::decode(header, payload, 0).map_err(|_| INVALID)? {
                Request::SetProtocolFeatures(bits) => agreed.protocol = ProtocolFeatures(bits),
                Request::SetFeatures(bits) => agreed.features = Features(bits),
                _ => return Err(INVALID),
            }
        }
        Ok(agreed)
    }
}

impl VirtioUser {
    fn continue_device(
        &mut self,
        connection: Part,
        running: Running,
        now: Instant,
        engine: &mut dyn Attach,
    ) -> Result<(), PortFault> {
        let agreed = running.agreed()?;
        let mut descriptors = running.descriptors.into_iter();
        let memory = descriptors.next().ok_or(INVALID)?;
        let device = Device::adopt(self.options, agreed, memory, descriptors.collect())?;
        if !requests(&device, agreed).map(|line| line.request.encode(false)).eq(running.requests) {
            return Err(PortFault::State("its rings are at other places, or it has other options"));
        }
        let (states, []) = running.states.as_chunks() else { return Err(INVALID) };
        if states.len() != usize::from(self.options.queue_pairs) {
            return Err(PortFault::State("it has another number of queue pairs"));
        }
        self.stopped = states.to_vec();
        let channel = Channel::take_over(connection, Header::expect_reply).ok_or(INVALID)?;
        self.connector.continue_with(channel.as_fd())?;
        self.link = Some(Link::running(channel, self.options, agreed, device));
        (self.state, self.connects) = (PortState::Connected, self.connects + 1);
        self.start(now, engine)?;
        if let Some(device) = self.link.as_ref().and_then(Link::device) {
            device.memory().set_left(false);
        }
        Ok(())
    }
}

/// The requests that describe a device: the result of the negotiation, memory and rings.
fn requests(device: &Device, agreed: Negotiated) -> impl Iterator<Item = Line> {
    let set = |request| Line { request, file: super::script::Attached::Nothing };
    let protocol = set(Request::SetProtocolFeatures(agreed.protocol.0));
    let features = set(Request::SetFeatures(agreed.features.0));
    [protocol, features].into_iter().chain(device.lines(agreed))
}

/// Stops a queue pair. Returns the states of its queues.
fn stop(pair: u16, engine: &mut dyn Attach) -> [QueueState; 2] {
    let rx = engine.stop_rx(pair).map(RxQueue::freeze);
    let tx = engine.stop_tx(pair).map(TxQueue::freeze);
    [rx.unwrap_or_default(), tx.unwrap_or_default()]
}
