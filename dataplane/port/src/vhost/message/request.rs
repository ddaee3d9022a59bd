//! Decoded requests and replies.

use super::payload::{Reader, Writer};
use super::{
    Code, Header, LogArea, MAX_TABLE, MessageError, StateTransfer, VringAddress, VringFile, VringState,
};
use mem::RegionSpec;

/// A front-end request. Its descriptors are passed separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `GET_FEATURES`
    GetFeatures,
    /// `SET_FEATURES`
    SetFeatures(u64),
    /// `SET_OWNER`
    SetOwner,
    /// `RESET_OWNER`
    ResetOwner,
    /// `SET_MEM_TABLE`, with one descriptor per region
    SetMemTable(Vec<RegionSpec>),
    /// `SET_LOG_BASE`, with one descriptor
    SetLogBase(LogArea),
    /// `SET_VRING_NUM`
    SetVringNum(VringState),
    /// `SET_VRING_ADDR`
    SetVringAddr(VringAddress),
    /// `SET_VRING_BASE`
    SetVringBase(VringState),
    /// `GET_VRING_BASE` with the ring index
    GetVringBase(u32),
    /// `SET_VRING_KICK`
    SetVringKick(VringFile),
    /// `SET_VRING_CALL`
    SetVringCall(VringFile),
    /// `SET_VRING_ERR`
    SetVringErr(VringFile),
    /// `GET_PROTOCOL_FEATURES`
    GetProtocolFeatures,
    /// `SET_PROTOCOL_FEATURES`
    SetProtocolFeatures(u64),
    /// `GET_QUEUE_NUM`
    GetQueueNum,
    /// `SET_VRING_ENABLE`
    SetVringEnable(VringState),
    /// `SEND_RARP` with the MAC address
    SendRarp([u8; 6]),
    /// `NET_SET_MTU`
    NetSetMtu(u64),
    /// `RESET_DEVICE`
    ResetDevice,
    /// `GET_MAX_MEM_SLOTS`
    GetMaxMemSlots,
    /// `ADD_MEM_REG`, with one descriptor
    AddMemReg(RegionSpec),
    /// `REM_MEM_REG`; a descriptor sent with it is closed
    RemMemReg(RegionSpec),
    /// `SET_STATUS`
    SetStatus(u64),
    /// `GET_STATUS`
    GetStatus,
    /// `SET_DEVICE_STATE_FD`, with one descriptor
    SetDeviceStateFd(StateTransfer),
    /// `CHECK_DEVICE_STATE`
    CheckDeviceState,
}

/// A back-end reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A value: features, a count, or a status (0: success).
    U64(u64),
    /// Reply to `GET_VRING_BASE`.
    State(VringState),
}

const EMPTY: u32 = 0;
const U64: u32 = 8;
const STATE: u32 = 8;
const ADDRESS: u32 = 40;
const REGION: u32 = 40;
const LOG: u32 = 16;
const TRANSFER: u32 = 8;

impl Request {
    /// Rejects a payload size that is invalid for `code`, before the payload is read. Messages of unsupported features
    /// are always rejected.
    pub fn check_size(code: Code, size: u32) -> Result<(), MessageError> {
        let fits = match code {
            Code::SetMemTable => (0..=MAX_TABLE as u32).any(|n| size == 8 + 32 * n),
            _ => size == Self::fixed_size(code).ok_or(MessageError::NotOffered(code.name()))?,
        };
        fits.then_some(()).ok_or(MessageError::Size { name: code.name(), size })
    }

    fn fixed_size(code: Code) -> Option<u32> {
        Some(match code {
            Code::GetFeatures
            | Code::SetOwner
            | Code::ResetOwner
            | Code::GetProtocolFeatures
            | Code::GetQueueNum
            | Code::ResetDevice
            | Code::GetMaxMemSlots
            | Code::GetStatus
            | Code::CheckDeviceState => EMPTY,
            Code::SetFeatures
            | Code::SetVringKick
            | Code::SetVringCall
            | Code::SetVringErr
            | Code::SetProtocolFeatures
            | Code::SendRarp
            | Code::NetSetMtu
            | Code::SetStatus => U64,
            Code::SetVringNum | Code::SetVringBase | Code::GetVringBase | Code::SetVringEnable => STATE,
            Code::SetVringAddr => ADDRESS,
            Code::SetLogBase => LOG,
            Code::SetDeviceStateFd => TRANSFER,
            Code::AddMemReg | Code::RemMemReg => REGION,
            _ => return None,
        })
    }

    /// Decodes a request and checks its number of descriptors.
    pub fn decode(header: Header, payload: &[u8], descriptors: usize) -> Result<Self, MessageError> {
        Self::check_size(header.code, payload.len() as u32)?;
        let request = Self::read(header.code, payload)?;
        let want = request.descriptors();
        // The specification requires back ends to accept and close a superfluous descriptor here.
        let stray = matches!(request, Request::RemMemReg(_)) && descriptors == 1;
        if descriptors != want && !stray {
            return Err(MessageError::Descriptors { name: header.code.name(), got: descriptors, want });
        }
        Ok(request)
    }

    fn read(code: Code, payload: &[u8]) -> Result<Self, MessageError> {
        let mut p = Reader(payload);
        Ok(match code {
            Code::GetFeatures => Request::GetFeatures,
            Code::SetFeatures => Request::SetFeatures(p.u64()),
            Code::SetOwner => Request::SetOwner,
            Code::ResetOwner => Request::ResetOwner,
            Code::SetMemTable => Request::SetMemTable(table(payload)?),
            Code::SetLogBase => Request::SetLogBase(p.log()),
            Code::SetVringNum => Request::SetVringNum(p.state()),
            Code::SetVringAddr => Request::SetVringAddr(p.address()),
            Code::SetVringBase => Request::SetVringBase(p.state()),
            Code::GetVringBase => Request::GetVringBase(p.u32()),
            Code::SetVringKick => Request::SetVringKick(VringFile::from_u64(p.u64())),
            Code::SetVringCall => Request::SetVringCall(VringFile::from_u64(p.u64())),
            Code::SetVringErr => Request::SetVringErr(VringFile::from_u64(p.u64())),
            Code::GetProtocolFeatures => Request::GetProtocolFeatures,
            Code::SetProtocolFeatures => Request::SetProtocolFeatures(p.u64()),
            Code::GetQueueNum => Request::GetQueueNum,
            Code::SetVringEnable => Request::SetVringEnable(p.state()),
            Code::SendRarp => Request::SendRarp(ethernet_address(p.u64())),
            Code::NetSetMtu => Request::NetSetMtu(p.u64()),
            Code::ResetDevice => Request::ResetDevice,
            Code::GetMaxMemSlots => Request::GetMaxMemSlots,
            Code::AddMemReg => Request::AddMemReg(single_region(p)),
            Code::RemMemReg => Request::RemMemReg(single_region(p)),
            Code::SetStatus => Request::SetStatus(p.u64()),
            Code::GetStatus => Request::GetStatus,
            Code::SetDeviceStateFd => Request::SetDeviceStateFd(p.transfer()),
            Code::CheckDeviceState => Request::CheckDeviceState,
            other => return Err(MessageError::NotOffered(other.name())),
        })
    }

    /// Message type.
    pub fn code(&self) -> Code {
        match self {
            Request::GetFeatures => Code::GetFeatures,
            Request::SetFeatures(_) => Code::SetFeatures,
            Request::SetOwner => Code::SetOwner,
            Request::ResetOwner => Code::ResetOwner,
            Request::SetMemTable(_) => Code::SetMemTable,
            Request::SetLogBase(_) => Code::SetLogBase,
            Request::SetVringNum(_) => Code::SetVringNum,
            Request::SetVringAddr(_) => Code::SetVringAddr,
            Request::SetVringBase(_) => Code::SetVringBase,
            Request::GetVringBase(_) => Code::GetVringBase,
            Request::SetVringKick(_) => Code::SetVringKick,
            Request::SetVringCall(_) => Code::SetVringCall,
            Request::SetVringErr(_) => Code::SetVringErr,
            Request::GetProtocolFeatures => Code::GetProtocolFeatures,
            Request::SetProtocolFeatures(_) => Code::SetProtocolFeatures,
            Request::GetQueueNum => Code::GetQueueNum,
            Request::SetVringEnable(_) => Code::SetVringEnable,
            Request::SendRarp(_) => Code::SendRarp,
            Request::NetSetMtu(_) => Code::NetSetMtu,
            Request::ResetDevice => Code::ResetDevice,
            Request::GetMaxMemSlots => Code::GetMaxMemSlots,
            Request::AddMemReg(_) => Code::AddMemReg,
            Request::RemMemReg(_) => Code::RemMemReg,
            Request::SetStatus(_) => Code::SetStatus,
            Request::GetStatus => Code::GetStatus,
            Request::SetDeviceStateFd(_) => Code::SetDeviceStateFd,
            Request::CheckDeviceState => Code::CheckDeviceState,
        }
    }

    /// Number of descriptors of the message.
    pub fn descriptors(&self) -> usize {
        match self {
            Request::SetMemTable(regions) => regions.len(),
            Request::SetVringKick(f) | Request::SetVringCall(f) | Request::SetVringErr(f) => {
                usize::from(f.has_descriptor)
            }
            Request::AddMemReg(_) | Request::SetLogBase(_) | Request::SetDeviceStateFd(_) => 1,
            _ => 0,
        }
    }

    /// Whether the request always has a reply, independent of `REPLY_ACK`.
    pub fn has_reply(&self) -> bool {
        matches!(
            self,
            Request::GetFeatures
                | Request::GetProtocolFeatures
                | Request::GetVringBase(_)
                | Request::GetQueueNum
                | Request::GetMaxMemSlots
                | Request::GetStatus
                | Request::SetLogBase(_)
                | Request::SetDeviceStateFd(_)
                | Request::CheckDeviceState
        )
    }

    /// Encodes header and payload.
    pub fn encode(&self, need_reply: bool) -> Vec<u8> {
        let payload = self.write(Writer::default()).0;
        let mut bytes = Header::request(self.code(), need_reply, payload.len() as u32).encode().to_vec();
        bytes.extend_from_slice(&payload);
        bytes
    }

    fn write(&self, to: Writer) -> Writer {
        match self {
            Request::SetFeatures(n)
            | Request::SetProtocolFeatures(n)
            | Request::NetSetMtu(n)
            | Request::SetStatus(n) => to.u64(*n),
            Request::SetMemTable(regions) => {
                regions.iter().fold(to.u32(regions.len() as u32).u32(0), Writer::region)
            }
            Request::SetVringNum(s) | Request::SetVringBase(s) | Request::SetVringEnable(s) => to.state(*s),
            Request::GetVringBase(index) => to.state(VringState { index: *index, num: 0 }),
            Request::SetVringAddr(a) => to.address(a),
            Request::SetDeviceStateFd(transfer) => to.u32(transfer.direction).u32(transfer.phase),
            Request::SetLogBase(log) => to.u64(log.len).u64(log.offset),
            Request::SetVringKick(f) | Request::SetVringCall(f) | Request::SetVringErr(f) => {
                to.u64(f.to_u64())
            }
            Request::SendRarp(a) => to.u64(u64::from_ne_bytes([a[0], a[1], a[2], a[3], a[4], a[5], 0, 0])),
            Request::AddMemReg(r) | Request::RemMemReg(r) => to.u64(0).region(r),
            _ => to,
        }
    }
}

impl Reply {
    /// Payload size of all replies, in bytes.
    pub const BYTES: u32 = 8;

    /// Decodes the reply to `request`.
    pub fn decode(request: Code, payload: &[u8]) -> Result<Self, MessageError> {
        let mut p = Reader(payload);
        if payload.len() != Self::BYTES as usize {
            return Err(MessageError::Size { name: request.name(), size: payload.len() as u32 });
        }
        Ok(match request {
            Code::GetVringBase => Reply::State(p.state()),
            _ => Reply::U64(p.u64()),
        })
    }

    /// Encodes header and payload.
    pub fn encode(self, request: Code) -> Vec<u8> {
        let payload = match self {
            Reply::U64(n) => Writer::default().u64(n).0,
            Reply::State(s) => Writer::default().state(s).0,
        };
        let header = Header { code: request, reply: true, need_reply: false, size: payload.len() as u32 };
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(&payload);
        bytes
    }
}

fn table(payload: &[u8]) -> Result<Vec<RegionSpec>, MessageError> {
    let mut p = Reader(payload);
    let (count, _padding) = (p.u32(), p.u32());
    if count as usize > MAX_TABLE {
        return Err(MessageError::TooManyRegions(count));
    }
    if payload.len() != 8 + 32 * count as usize {
        return Err(MessageError::Size { name: Code::SetMemTable.name(), size: payload.len() as u32 });
    }
    Ok((0..count).map(|_| p.region()).collect())
}

fn single_region(mut p: Reader<'_>) -> RegionSpec {
    p.u64();
    p.region()
}

/// "The first 6 bytes of the payload contain the mac address."
fn ethernet_address(payload: u64) -> [u8; 6] {
    let bytes = payload.to_ne_bytes();
    [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]]
}
