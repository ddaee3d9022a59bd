//! Connection, feature negotiation and memory sharing.

use super::FrontEndError;
use super::negotiation::Negotiation;
use crate::socket::rights;
use crate::socket::sys as socket;
use crate::vhost::Features;
use crate::vhost::message::{Code, Header, MAX_TABLE, ProtocolFeatures, Reply, Request};
use crate::vhost::wire::Channel;
use mem::RegionSpec;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::path::Path;
use std::time::Duration;

/// Result of feature negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Device features.
    pub features: Features,
    /// Protocol features.
    pub protocol: ProtocolFeatures,
    /// Queue pairs of the back end.
    pub queue_pairs: u16,
    /// Maximum number of memory regions of the back end.
    pub memory_slots: usize,
}

/// Memory to share.
#[derive(Clone, Copy, Debug)]
pub struct SharedRegion<'a> {
    /// The file to map.
    pub file: BorrowedFd<'a>,
    /// Its addresses.
    pub spec: RegionSpec,
}

/// A connection to a back end.
#[derive(Debug)]
pub struct FrontEnd {
    channel: Channel,
    pub(super) negotiated: Negotiated,
    /// Bit mask of started rings, by index.
    pub(super) rings: u32,
}

impl FrontEnd {
    /// Connects to the back end that listens at `path`. `timeout` bounds the wait for each reply.
    pub fn connect(path: impl AsRef<Path>, timeout: Duration) -> Result<Self, FrontEndError> {
        let path = path.as_ref();
        let socket = socket::connect(path).map_err(|errno| FrontEndError::NoBackEnd(path.into(), errno))?;
        Self::over(socket, timeout)
    }

    /// Creates a front end on a connected socket.
    pub fn over(socket: OwnedFd, timeout: Duration) -> Result<Self, FrontEndError> {
        rights::block_for(&socket, timeout)
            .map_err(|errno| FrontEndError::Kernel("setting the timeout", errno))?;
        let channel = Channel::new(socket, Header::expect_reply);
        Ok(Self { channel, negotiated: Negotiated::EMPTY, rings: 0 })
    }

    /// Negotiates features: the intersection of `wanted` and the back end's features. The caller checks whether the
    /// result is sufficient.
    pub fn negotiate(&mut self, wanted: Features) -> Result<Negotiated, FrontEndError> {
        let mut negotiation = Negotiation::new(wanted);
        while let Some(request) = negotiation.next() {
            let number = self.send_step(&request, negotiation.is_acknowledged())?;
            negotiation.complete_step(number)?;
            self.negotiated = negotiation.negotiated();
        }
        Ok(self.negotiated)
    }

    /// Executes one step of the negotiation. Returns the reply's value, or 0 if the request has no reply.
    fn send_step(&mut self, request: &Request, acknowledged: bool) -> Result<u64, FrontEndError> {
        if request.has_reply() {
            return self.request_u64(request);
        }
        self.send_request_with(request, acknowledged, &[]).map(|()| 0)
    }

    /// Sends the device status (0 for reset), if `STATUS` was negotiated.
    pub(super) fn set_status(&mut self, status: u32) -> Result<(), FrontEndError> {
        if !self.has(ProtocolFeatures::STATUS) {
            return Ok(());
        }
        self.send_request(&Request::SetStatus(u64::from(status)), &[])
    }

    /// Result of feature negotiation.
    pub fn negotiated(&self) -> Negotiated {
        self.negotiated
    }

    pub(super) fn has(&self, bit: u64) -> bool {
        self.negotiated.protocol.has(bit)
    }

    /// Shares all guest memory, and replaces the memory shared before, if any, as one table.
    pub fn share(&mut self, regions: &[SharedRegion<'_>]) -> Result<(), FrontEndError> {
        if self.has(ProtocolFeatures::CONFIGURE_MEM_SLOTS) {
            return regions.iter().try_for_each(|region| self.add_region(*region));
        }
        self.share_table(regions)
    }

    /// Like [`FrontEnd::share`], always as one table that replaces all previous regions.
    pub fn share_table(&mut self, regions: &[SharedRegion<'_>]) -> Result<(), FrontEndError> {
        if regions.len() > MAX_TABLE {
            return Err(FrontEndError::TooManyRegions(regions.len(), MAX_TABLE));
        }
        let specs = regions.iter().map(|r| r.spec).collect();
        let files: Vec<_> = regions.iter().map(|r| r.file).collect();
        self.send_request(&Request::SetMemTable(specs), &files)
    }

    /// Shares one additional region.
    pub fn add_region(&mut self, region: SharedRegion<'_>) -> Result<(), FrontEndError> {
        self.need(ProtocolFeatures::CONFIGURE_MEM_SLOTS, Code::AddMemReg, "CONFIGURE_MEM_SLOTS")?;
        self.send_request(&Request::AddMemReg(region.spec), &[region.file])
    }

    /// Removes one region. If the back end acknowledges requests, it no longer uses the region when this returns.
    pub fn remove_region(&mut self, spec: RegionSpec) -> Result<(), FrontEndError> {
        self.need(ProtocolFeatures::CONFIGURE_MEM_SLOTS, Code::RemMemReg, "CONFIGURE_MEM_SLOTS")?;
        self.send_request(&Request::RemMemReg(spec), &[])
    }

    /// Requests that the switch announces this guest's Ethernet address (`SEND_RARP`).
    pub fn announce(&mut self, address: [u8; 6]) -> Result<(), FrontEndError> {
        self.need(ProtocolFeatures::RARP, Code::SendRarp, "RARP")?;
        self.send_request(&Request::SendRarp(address), &[])
    }

    /// Checks whether the switch supports packets of `mtu` bytes.
    pub fn set_mtu(&mut self, mtu: u16) -> Result<(), FrontEndError> {
        self.need(ProtocolFeatures::NET_MTU, Code::NetSetMtu, "MTU")?;
        self.send_request(&Request::NetSetMtu(u64::from(mtu)), &[])
    }

    /// Stops every ring and resets the device.
    pub fn reset(&mut self) -> Result<(), FrontEndError> {
        self.need(ProtocolFeatures::RESET_DEVICE, Code::ResetDevice, "RESET_DEVICE")?;
        self.rings = 0;
        self.send_request(&Request::ResetDevice, &[])
    }

    fn need(&self, bit: u64, code: Code, name: &'static str) -> Result<(), FrontEndError> {
        if self.has(bit) { Ok(()) } else { Err(FrontEndError::NotNegotiated(code.name(), name)) }
    }

    /// Whether the back end has closed the connection.
    pub fn is_closed(&self) -> bool {
        rights::is_closed(self.channel.as_fd())
    }

    /// Sends a request without a reply of its own, and waits for the acknowledgement if negotiated.
    pub(super) fn send_request(
        &mut self,
        request: &Request,
        files: &[BorrowedFd<'_>],
    ) -> Result<(), FrontEndError> {
        self.send_request_with(request, self.has(ProtocolFeatures::REPLY_ACK), files)
    }

    fn send_request_with(
        &mut self,
        request: &Request,
        acknowledged: bool,
        files: &[BorrowedFd<'_>],
    ) -> Result<(), FrontEndError> {
        self.send(request, acknowledged, files)?;
        if acknowledged && self.number(request)? != 0 {
            return Err(FrontEndError::Refused(request.code().name()));
        }
        Ok(())
    }

    /// Sends a request and returns its reply.
    pub(super) fn request(&mut self, request: &Request) -> Result<Reply, FrontEndError> {
        self.send(request, false, &[])?;
        self.reply(request)
    }

    fn request_u64(&mut self, request: &Request) -> Result<u64, FrontEndError> {
        self.send(request, false, &[])?;
        self.number(request)
    }

    fn number(&mut self, request: &Request) -> Result<u64, FrontEndError> {
        match self.reply(request)? {
            Reply::U64(number) => Ok(number),
            Reply::State(_) => Err(wrong(request, "a ring's state")),
        }
    }

    fn send(&self, request: &Request, ack: bool, files: &[BorrowedFd<'_>]) -> Result<(), FrontEndError> {
        let name = request.code().name();
        self.channel.send(&request.encode(ack), files).map_err(|errno| match errno {
            Errno::PIPE | Errno::CONNRESET => FrontEndError::Closed(name),
            Errno::AGAIN => FrontEndError::Timeout(name),
            errno => FrontEndError::Kernel(name, errno),
        })
    }

    fn reply(&mut self, request: &Request) -> Result<Reply, FrontEndError> {
        let name = request.code().name();
        let message = self.channel.receive().map_err(|error| FrontEndError::at(name, error))?;
        let message = message.ok_or(FrontEndError::Timeout(name))?;
        if message.header.code != request.code() {
            return Err(wrong(request, message.header.code.name()));
        }
        Ok(Reply::decode(request.code(), message.payload)?)
    }
}

pub(super) fn wrong(request: &Request, got: &'static str) -> FrontEndError {
    FrontEndError::WrongAnswer { asked: request.code().name(), got }
}

impl AsFd for FrontEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}
