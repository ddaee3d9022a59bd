//! Bundles: messages that are applied together (OpenFlow 1.4.1, 7.3.9; extension 230 of the ONF to 1.3).

use crate::bytes::{Put, Reader, numbered};
use crate::codec;
use crate::error::{EncodeError, ErrorCode};
use crate::message::{Header, Message};
use crate::version::Dialect;

/// All changes or none.
pub const ATOMIC: u16 = 1;
/// Changes in the order of the messages.
pub const ORDERED: u16 = 2;

numbered! {
    /// Step of a bundle.
    pub enum BundleStep: u16 {
        /// Opens it.
        Open = 0,
        /// Answer.
        OpenReply = 1,
        /// Ends additions.
        Close = 2,
        /// Answer.
        CloseReply = 3,
        /// Applies it.
        Commit = 4,
        /// Answer.
        CommitReply = 5,
        /// Drops it.
        Discard = 6,
        /// Answer.
        DiscardReply = 7,
    }
}

/// Control of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleControl {
    /// Number.
    pub id: u32,
    /// Step.
    pub step: BundleStep,
    /// [`ATOMIC`] and [`ORDERED`].
    pub flags: u16,
}

impl BundleControl {
    /// Properties are ignored.
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let id = from.u32()?;
        let step = BundleStep::from_number(from.u16()?).ok_or(ErrorCode::BundleBadType)?;
        let flags = read_flags(from)?;
        from.rest();
        Ok(Self { id, step, flags })
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.put_u32(self.id);
        out.put_u16(self.step.number());
        out.put_u16(self.flags);
    }
}

fn read_flags(from: &mut Reader<'_>) -> Result<u16, ErrorCode> {
    let flags = from.u16()?;
    if flags & !(ATOMIC | ORDERED) == 0 { Ok(flags) } else { Err(ErrorCode::BundleBadFlags) }
}

/// A message of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleAdd {
    /// Number of the bundle.
    pub id: u32,
    /// Flags of the bundle.
    pub flags: u16,
    /// Transaction identifier of the message.
    pub xid: u32,
    /// Message; one of those of [`BundleAdd::allows`].
    pub message: Box<Message>,
}

impl BundleAdd {
    /// Whether a bundle can contain a message.
    pub fn allows(message: &Message) -> bool {
        matches!(
            message,
            Message::FlowMod(_) | Message::GroupMod(_) | Message::PortMod(_) | Message::PacketOut(_)
        )
    }

    /// Reads a message and its contents. The type is checked before the contents, so that nothing is nested.
    pub(crate) fn read(from: &mut Reader<'_>, dialect: Dialect) -> Result<Self, ErrorCode> {
        let id = from.u32()?;
        from.skip(2)?;
        let flags = read_flags(from)?;
        let inner = from.drain().or(ErrorCode::BundleMessageBadLen);
        let header = Header::read(inner.peek()).ok_or(ErrorCode::BundleMessageBadLen)?;
        if header.version != dialect.version as u8 {
            return Err(ErrorCode::BundleBadVersion);
        }
        if !codec::is_allowed_in_bundle(header, dialect.version) {
            return Err(ErrorCode::BundleMessageUnsupported);
        }
        let bytes = inner.peek().get(..usize::from(header.length)).ok_or(ErrorCode::BundleMessageBadLen)?;
        let message = Box::new(codec::read(bytes, header, dialect)?);
        Ok(Self { id, flags, xid: header.xid, message })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, dialect: Dialect) -> Result<(), EncodeError> {
        out.put_u32(self.id);
        out.put_u16(0);
        out.put_u16(self.flags);
        codec::write(out, &self.message, dialect, self.xid)
    }
}
