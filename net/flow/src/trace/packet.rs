//! The packet of a trace: a key that was made up, or a frame.

use crate::field::Field;
use crate::key::Key;
use crate::matching::Match;
use crate::modify::PortNo;
use crate::packet::parse;

/// Time to live of a made-up IP packet that states none.
const TTL: u128 = 64;

/// A synthetic packet without an ingress port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`in_port` is missing")]
pub struct MissingPort;

/// A packet to trace.
#[derive(Clone, Debug)]
pub struct TracedPacket {
    pub(super) key: Key,
    /// The head and the length of the frame, if there is one.
    pub(super) frame: Option<(Vec<u8>, usize)>,
}

impl TracedPacket {
    /// A packet with the values of a match. Fields that it does not have are 0, except that the time to live of an IP
    /// packet is 64. Fields that removed headers uncover are 0 as well.
    ///
    /// # Errors
    /// If the match does not have the ingress port.
    pub fn from_match(found: &Match) -> Result<Self, MissingPort> {
        let in_port = found.exact(Field::InPort).ok_or(MissingPort)?;
        let mut key = *found.key();
        key.set(Field::InPhyPort, in_port);
        if crate::Prerequisite::Ip.holds(found) && found.mask().get(Field::IpTtl) == 0 {
            key.set(Field::IpTtl, TTL);
        }
        Ok(Self { key, frame: None })
    }

    /// A frame of `len` bytes that begins with `head`, received on `in_port`.
    pub fn from_frame(head: &[u8], len: usize, in_port: PortNo) -> Self {
        let mut key = Key::ZERO;
        key.set(Field::InPort, in_port.0.into());
        key.set(Field::InPhyPort, in_port.0.into());
        parse(head, len, &mut key);
        Self { key, frame: Some((head.to_vec(), len)) }
    }
}
