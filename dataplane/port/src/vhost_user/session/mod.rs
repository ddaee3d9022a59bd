//! State of one connection: negotiated features, shared memory, and rings.
//!
//! Sans-IO: complete messages with their descriptors come in, replies go out as bytes, and the engine is called to
//! start and stop queues. A front end may send any message at any time. A protocol violation ends the session with a
//! named fault. A request that fails (memory that cannot be mapped, a packet size) is answered with a failure if the
//! front end requested a reply; otherwise it ends the session, because the front end would assume success. Every
//! index, size and address is validated before use.

mod device_state;
mod grace;
mod handover;
mod log;
mod memory;
mod rings;
mod vring;

#[cfg(test)]
pub(crate) use grace::{GRACE, GRACE_INTERVAL};

use super::positions::Positions;
use super::setup::QueueSetup;
use crate::vhost::Features;
use crate::vhost::message::{Header, ProtocolFeatures, Reply, Request};
use crate::{Attach, PortFault, QueueStatus, RxQueue, TxQueue};
use mem::{DirtyLog, MemTable, RegionSpec};
pub use memory::MAX_BYTES;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use virtio_bindings::virtio_config::VIRTIO_CONFIG_S_DRIVER_OK;
use vring::Vring;

/// Features and limits offered by a back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Device features.
    pub features: Features,
    /// Protocol features.
    pub protocol: ProtocolFeatures,
    /// Queue pairs, 1 to [`crate::vhost_user::MAX_QUEUE_PAIRS`].
    pub queue_pairs: u16,
    /// Maximum packet length (without Ethernet header) reported to the guest, if any.
    pub mtu: Option<u16>,
    /// Maximum memory of the front end in bytes, at most [`MAX_BYTES`].
    pub memory: u64,
}

/// Constructors of queues from a ring's setup: those of the fast path, or of a test.
#[derive(Clone, Copy, Debug)]
pub struct Queues {
    /// Receives packets from the guest.
    pub rx: fn(&QueueSetup) -> Result<Box<dyn RxQueue>, PortFault>,
    /// Sends packets to the guest.
    pub tx: fn(&QueueSetup) -> Result<Box<dyn TxQueue>, PortFault>,
}

/// Reason why a request was not executed.
#[derive(Debug)]
enum RequestError {
    /// Nothing changed, and the failure can be reported to the front end.
    Failed(String),
    /// The session ends.
    Fault(PortFault),
}

impl From<PortFault> for RequestError {
    fn from(fault: PortFault) -> Self {
        RequestError::Fault(fault)
    }
}

fn broken<T>(what: impl Into<String>) -> Result<T, RequestError> {
    Err(RequestError::Fault(PortFault::Protocol(what.into())))
}

type Served = Result<Option<Reply>, RequestError>;

/// State of one connection.
#[derive(Debug)]
pub struct Session {
    offer: Offer,
    queues: Queues,
    features: Option<Features>,
    protocol: ProtocolFeatures,
    status: u8,
    memory: Arc<MemTable>,
    /// Files of the mapped regions, for another process that takes the session over.
    files: Vec<(RegionSpec, OwnedFd)>,
    /// Log of written pages, used while `LOG_ALL` is negotiated.
    log: Option<Arc<DirtyLog>>,
    vrings: Vec<Vring>,
    /// Positions of packed rings, if the port keeps them.
    positions: Option<Arc<Positions>>,
    /// Whether no ring starts, because another process still has the rings.
    is_held: bool,
}

impl Session {
    /// Creates a new session.
    pub fn new(offer: Offer, queues: Queues) -> Self {
        let vrings = (0..2 * usize::from(offer.queue_pairs)).map(|_| Vring::default()).collect();
        Self {
            offer,
            queues,
            features: None,
            protocol: ProtocolFeatures(0),
            status: 0,
            memory: Arc::new(MemTable::default()),
            files: Vec::new(),
            log: None,
            vrings,
            positions: None,
            is_held: false,
        }
    }

    /// Keeps the positions of packed rings, and continues those of the process before.
    pub(super) fn keep_positions(self, positions: Option<Arc<Positions>>) -> Self {
        Self { positions, ..self }
    }

    /// The front end knows the position of a ring, or will set it.
    fn forget_position(&self, ring: usize) {
        self.positions.iter().for_each(|positions| positions.end(ring));
    }

    /// Processes one message. Returns the bytes of the reply, if the message has one.
    ///
    /// # Errors
    /// The fault that ends the session; the caller then calls [`Session::end`].
    pub fn receive(
        &mut self,
        header: Header,
        payload: &[u8],
        descriptors: Vec<OwnedFd>,
        engine: &mut dyn Attach,
    ) -> Result<Option<Vec<u8>>, PortFault> {
        let request = Request::decode(header, payload, descriptors.len())
            .map_err(|error| PortFault::Protocol(error.to_string()))?;
        let acknowledge =
            header.need_reply && self.protocol.has(ProtocolFeatures::REPLY_ACK) && !request.has_reply();
        let served = self.serve(request, descriptors, engine);
        // Reported before any reply: the front end would take a reply as confirmation.
        if let Some(failure) = engine.failure() {
            return Err(failure);
        }
        let answer = match served {
            Ok(Some(reply)) => Some(reply),
            Ok(None) => acknowledge.then_some(Reply::U64(0)),
            Err(RequestError::Failed(_)) if acknowledge => Some(Reply::U64(1)),
            Err(RequestError::Failed(what)) => return Err(PortFault::Protocol(what)),
            Err(RequestError::Fault(fault)) => return Err(fault),
        };
        Ok(answer.map(|reply| reply.encode(header.code)))
    }

    fn serve(&mut self, request: Request, descriptors: Vec<OwnedFd>, engine: &mut dyn Attach) -> Served {
        self.check_negotiated(&request)?;
        let descriptor = descriptors.into_iter();
        match request {
            Request::GetFeatures => return Ok(Some(Reply::U64(self.offer.features.0))),
            Request::GetProtocolFeatures => return Ok(Some(Reply::U64(self.offer.protocol.0))),
            Request::GetQueueNum => return Ok(Some(Reply::U64(u64::from(self.offer.queue_pairs)))),
            Request::GetMaxMemSlots => return Ok(Some(Reply::U64(mem::MAX_REGIONS as u64))),
            Request::GetStatus => return Ok(Some(Reply::U64(u64::from(self.status)))),
            Request::GetVringBase(index) => return self.get_vring_base(index, engine),
            Request::SetLogBase(area) => return self.set_log_base(area, descriptor, engine),
            Request::SetDeviceStateFd(transfer) => return Ok(Some(self.set_device_state(transfer))),
            // The transfer of an empty state succeeds.
            Request::CheckDeviceState => return Ok(Some(Reply::U64(0))),
            Request::SetOwner => {}
            Request::SetFeatures(bits) => self.set_features(Features(bits), engine)?,
            Request::SetProtocolFeatures(bits) => self.set_protocol_features(ProtocolFeatures(bits))?,
            Request::ResetOwner => self.stop_all(engine),
            Request::ResetDevice => self.reset(engine),
            Request::SetStatus(status) => self.set_status(status, engine)?,
            Request::SetMemTable(regions) => self.set_mem_table(&regions, descriptor, engine)?,
            Request::AddMemReg(region) => self.add_mem_reg(region, descriptor, engine)?,
            Request::RemMemReg(region) => self.rem_mem_reg(region, engine)?,
            Request::SetVringNum(state) => self.set_vring_num(state, engine)?,
            Request::SetVringAddr(address) => self.set_vring_addr(address, engine)?,
            Request::SetVringBase(state) => self.set_vring_base(state)?,
            Request::SetVringKick(file) => self.set_vring_kick(file, descriptor, engine)?,
            Request::SetVringCall(file) => self.set_vring_call(file, descriptor, engine)?,
            Request::SetVringErr(file) => self.set_vring_err(file, descriptor)?,
            Request::SetVringEnable(state) => self.set_vring_enable(state, engine)?,
            Request::SendRarp(address) => send_rarp(address, engine)?,
            Request::NetSetMtu(mtu) => self.net_set_mtu(mtu)?,
        }
        Ok(None)
    }

    /// Rejects messages whose protocol feature was not negotiated.
    fn check_negotiated(&self, request: &Request) -> Result<(), RequestError> {
        let (bit, name) = match request {
            Request::SendRarp(_) => (ProtocolFeatures::RARP, "RARP"),
            Request::NetSetMtu(_) => (ProtocolFeatures::NET_MTU, "MTU"),
            Request::SetLogBase(_) => (ProtocolFeatures::LOG_SHMFD, "LOG_SHMFD"),
            Request::ResetDevice => (ProtocolFeatures::RESET_DEVICE, "RESET_DEVICE"),
            Request::GetMaxMemSlots | Request::AddMemReg(_) | Request::RemMemReg(_) => {
                (ProtocolFeatures::CONFIGURE_MEM_SLOTS, "CONFIGURE_MEM_SLOTS")
            }
            Request::SetStatus(_) | Request::GetStatus => (ProtocolFeatures::STATUS, "STATUS"),
            Request::SetDeviceStateFd(_) | Request::CheckDeviceState => {
                (ProtocolFeatures::DEVICE_STATE, "DEVICE_STATE")
            }
            _ => return Ok(()),
        };
        if self.protocol.has(bit) {
            return Ok(());
        }
        broken(format!(
            "{} needs the protocol feature {name}, which was not negotiated",
            request.code().name()
        ))
    }

    fn set_features(&mut self, features: Features, engine: &mut dyn Attach) -> Result<(), RequestError> {
        let beyond = features.0 & !self.offer.features.0;
        if beyond != 0 {
            return broken(format!("SET_FEATURES accepts the bits {beyond:#x}, which were not offered"));
        }
        // With several queue pairs, a front end repeats its features for each pair while others already run.
        let changed = self.features.map_or(features.0, |before| before.0 ^ features.0);
        if changed & !Features::LOG_ALL != 0 && self.vrings.iter().any(|v| v.running) {
            return broken("SET_FEATURES changes the features while a ring is running");
        }
        self.features = Some(features);
        if changed == Features::LOG_ALL {
            return self.restart_all(engine);
        }
        self.settle_all(engine)
    }

    fn set_protocol_features(&mut self, protocol: ProtocolFeatures) -> Result<(), RequestError> {
        let beyond = protocol.0 & !self.offer.protocol.0;
        if beyond != 0 {
            return broken(format!(
                "SET_PROTOCOL_FEATURES accepts the bits {beyond:#x}, which were not offered"
            ));
        }
        self.protocol = protocol;
        Ok(())
    }

    /// VIRTIO 1.2 section 2.1: writing 0 resets the device, and a reset device uses no ring. `DRIVER_OK` starts the
    /// rings that are complete.
    fn set_status(&mut self, status: u64, engine: &mut dyn Attach) -> Result<(), RequestError> {
        let Ok(status) = u8::try_from(status) else {
            return broken(format!("SET_STATUS sets {status:#x}, but the device status has eight bits"));
        };
        if status == 0 {
            self.stop_all(engine);
        }
        self.status = status;
        self.settle_all(engine)
    }

    /// Whether rings may start: "the device must not consume buffers or send any used buffer notifications to the
    /// driver before `DRIVER_OK`" (VIRTIO 1.2 section 2.1.2). `SET_STATUS` with this bit ends the
    /// set-up, so no reply of the set-up is pending while rings run.
    fn is_driver_ready(&self) -> bool {
        !self.protocol.has(ProtocolFeatures::STATUS)
            || u32::from(self.status) & VIRTIO_CONFIG_S_DRIVER_OK != 0
    }

    fn net_set_mtu(&self, mtu: u64) -> Result<(), RequestError> {
        const SMALLEST: u64 = 68; // RFC 791: every link carries a datagram of 68 bytes.
        let largest = self.offer.mtu.map_or(0, u64::from);
        if (SMALLEST..=largest).contains(&mtu) {
            return Ok(());
        }
        Err(RequestError::Failed(format!(
            "NET_SET_MTU asks for {mtu} bytes; the port carries {SMALLEST} to {largest}"
        )))
    }

    /// Returns to the initial state, except for memory and protocol features: front ends that share memory region by
    /// region do not send it again.
    fn reset(&mut self, engine: &mut dyn Attach) {
        self.stop_all(engine);
        (0..self.vrings.len()).for_each(|ring| self.forget_position(ring));
        for vring in &mut self.vrings {
            *vring = Vring { last_grace: vring.last_grace, ..Vring::default() };
        }
        self.features = None;
        self.log = None;
        self.status = 0;
    }

    /// Stops every ring and releases the memory. Nothing of the front end is in use afterwards.
    pub fn end(&mut self, engine: &mut dyn Attach) {
        self.reset(engine);
        self.memory.replace(mem::GuestMemory::default());
        self.files.clear();
        engine.refresh();
    }

    /// Negotiated features, if any.
    pub fn features(&self) -> Option<Features> {
        self.features
    }

    /// Setup of ring `index`. Returns `None` if the ring does not run.
    pub fn running(&self, index: usize) -> Option<QueueSetup> {
        let vring = self.vrings.get(index).filter(|vring| vring.running)?;
        vring.setup(&self.memory, self.features?, self.active_log()).ok()
    }

    /// Number of regions and their total bytes.
    pub fn memory_use(&self) -> (usize, u64) {
        let map = self.memory.load();
        (map.regions().len(), map.regions().iter().map(|r| r.spec().len).sum())
    }

    /// Status of the queue pairs, for display.
    pub fn queue_status(&self) -> Vec<QueueStatus> {
        let pair = |rings: &[Vring]| QueueStatus {
            size: rings.iter().filter_map(|v| v.size).max().unwrap_or(0),
            rx_running: rings[1].running,
            tx_running: rings[0].running,
        };
        self.vrings.chunks_exact(2).map(pair).collect()
    }
}

/// Injects a reverse ARP request of the guest for its own address (RFC 903), so that switches learn its location.
fn send_rarp(address: [u8; 6], engine: &mut dyn Attach) -> Result<(), RequestError> {
    if address[0] & 1 != 0 || address == [0; 6] {
        return Err(RequestError::Failed("SEND_RARP names an address that no guest can have".into()));
    }
    engine.inject(&rarp_frame(address));
    Ok(())
}

/// 60 bytes: the minimum Ethernet frame without frame check sequence.
pub(crate) fn rarp_frame(address: [u8; 6]) -> [u8; 60] {
    const TYPE: [u8; 2] = [0x80, 0x35];
    const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
    const REQUEST_REVERSE: [u8; 2] = [0, 3];
    const ANY: [u8; 4] = [0; 4];
    let mut frame = [0; 60];
    let fields: [&[u8]; 9] =
        [&[0xff; 6], &address, &TYPE, &ETHERNET_IPV4, &REQUEST_REVERSE, &address, &ANY, &address, &ANY];
    let mut at = 0;
    for field in fields {
        frame[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    }
    frame
}

#[cfg(test)]
mod tests;
