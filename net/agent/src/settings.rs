//! Settings of a session: the choice of asynchronous messages, and the forms of messages.

use crate::session::Kind;
use openflow::{AsyncConfig, ErrorCode, PacketInFormat, Role, Version, reason};

/// Kinds of asynchronous messages, by their place in [`AsyncConfig::masks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    PacketIn = 0,
    PortStatus = 1,
    FlowRemoved = 2,
    RoleStatus = 3,
    TableStatus = 4,
    Forward = 5,
}

/// Reasons that each kind has in OpenFlow 1.4.
const REASONS: [u32; 6] = [0x3f, 0x7, 0x3f, 0x7, 0x18, 0x3];
/// Reasons of packet-ins that are `ACTION` before OpenFlow 1.4.
const ACTIONS: u32 = 1 << reason::ACTION_SET | 1 << reason::GROUP | 1 << reason::PACKET_OUT;
/// Bytes of a packet without a flow for a controller that has not set them (`OFP_DEFAULT_MISS_SEND_LEN`).
pub(crate) const MISS_SEND_LEN: u16 = 128;

/// Settings of a session.
pub(crate) struct Settings {
    /// Bits of reasons: first as primary or equal, then as secondary.
    masks: [[u32; 2]; 6],
    pub(crate) miss_send_len: u16,
    pub(crate) packet_in: PacketInFormat,
    pub(crate) controller: u16,
    /// Whether flow-removed messages have Nicira's form, in OpenFlow 1.0.
    pub(crate) nicira_flows: bool,
}

impl Settings {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            masks: [[0; 2]; 6],
            miss_send_len: if kind == Kind::Controller { MISS_SEND_LEN } else { 0 },
            packet_in: PacketInFormat::Standard,
            controller: 0,
            nicira_flows: false,
        }
    }

    /// Selects the default messages of a version (OpenFlow 1.3.5, 6.3.5 and A.3.10): as secondary, only port changes.
    pub(crate) fn set_defaults(&mut self, version: Version) {
        let packet_in = REASONS[0] & !(1 << reason::INVALID_TTL);
        let removed = match version {
            Version::V10 => 0x7,
            Version::V13 => 0xf,
            Version::V14 | Version::V15 => 0x3f,
        };
        self.masks = [[packet_in, 0], [0x7; 2], [removed, 0], [0x7; 2], [REASONS[4], 0], [0; 2]];
    }

    /// Whether a session of this kind and role gets a message.
    pub(crate) fn wants(&self, kind: Kind, role: Role, event: Event, reason: u8) -> bool {
        let asked = kind == Kind::Controller || self.miss_send_len > 0;
        let mask = self.masks[event as usize][usize::from(role == Role::Secondary)];
        asked && mask & 1_u32.checked_shl(reason.into()).unwrap_or(0) != 0
    }

    /// Whether packets with an invalid time to live are sent, in the configuration of OpenFlow 1.0.
    pub(crate) fn invalid_ttl(&self) -> bool {
        self.masks[0][0] & 1 << reason::INVALID_TTL != 0
    }

    pub(crate) fn set_invalid_ttl(&mut self, is_sent: bool) {
        let bit = 1 << reason::INVALID_TTL;
        for mask in &mut self.masks[0] {
            *mask = if is_sent { *mask | bit } else { *mask & !bit };
        }
    }

    /// The choice, as the version reports it.
    pub(crate) fn asynchronous(&self, version: Version) -> AsyncConfig {
        let known = if version >= Version::V14 { 6 } else { 3 };
        let mut config = AsyncConfig::default();
        for (reported, mask) in config.masks[..known].iter_mut().zip(&self.masks) {
            *reported = mask.map(Some);
        }
        if version < Version::V14 {
            config.masks[0] = self.masks[0].map(|mask| Some(mask & !ACTIONS));
        }
        config
    }

    /// Changes the choice.
    ///
    /// # Errors
    /// If a reason does not exist. Nothing is changed then.
    pub(crate) fn set_asynchronous(
        &mut self,
        config: &AsyncConfig,
        version: Version,
    ) -> Result<(), ErrorCode> {
        let pairs = || config.masks.iter().zip(REASONS);
        if version >= Version::V14
            && pairs().any(|(masks, known)| masks.iter().flatten().any(|mask| mask & !known != 0))
        {
            return Err(ErrorCode::AsyncInvalid);
        }
        for (own, (masks, known)) in self.masks.iter_mut().zip(pairs()) {
            for (own, mask) in own.iter_mut().zip(masks) {
                *own = mask.map_or(*own, |mask| mask & known);
            }
        }
        if version < Version::V14 {
            for (own, mask) in self.masks[0].iter_mut().zip(config.masks[0]) {
                let refined = mask.is_some_and(|mask| mask & 1 << reason::ACTION != 0);
                *own |= if refined { ACTIONS } else { 0 };
            }
        }
        Ok(())
    }
}
