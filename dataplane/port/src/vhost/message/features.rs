//! Protocol features, and the display names of all features.

use crate::vhost::Features;

/// Protocol feature bits (vhost-user specification, "Protocol features").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtocolFeatures(pub u64);

impl ProtocolFeatures {
    /// `VHOST_USER_PROTOCOL_F_MQ`: `GET_QUEUE_NUM` is supported.
    pub const MQ: u64 = 1 << 0;
    /// `VHOST_USER_PROTOCOL_F_LOG_SHMFD`
    pub const LOG_SHMFD: u64 = 1 << 1;
    /// `VHOST_USER_PROTOCOL_F_RARP`: `SEND_RARP` is supported.
    pub const RARP: u64 = 1 << 2;
    /// `VHOST_USER_PROTOCOL_F_REPLY_ACK`: any request may ask for a reply.
    pub const REPLY_ACK: u64 = 1 << 3;
    /// `VHOST_USER_PROTOCOL_F_MTU`: `NET_SET_MTU` is supported.
    pub const NET_MTU: u64 = 1 << 4;
    /// `VHOST_USER_PROTOCOL_F_BACKEND_REQ`: a channel for back-end requests is supported.
    pub const BACKEND_REQ: u64 = 1 << 5;
    /// `VHOST_USER_PROTOCOL_F_RESET_DEVICE`: `RESET_DEVICE` is supported.
    pub const RESET_DEVICE: u64 = 1 << 13;
    /// `VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS`: memory regions are added and removed individually.
    pub const CONFIGURE_MEM_SLOTS: u64 = 1 << 15;
    /// `VHOST_USER_PROTOCOL_F_STATUS`: `GET_STATUS` and `SET_STATUS` are supported.
    pub const STATUS: u64 = 1 << 16;
    /// `VHOST_USER_PROTOCOL_F_DEVICE_STATE`: the front end saves and restores the state of the back end.
    pub const DEVICE_STATE: u64 = 1 << 19;

    /// Whether all bits of `bits` are set.
    pub const fn has(self, bits: u64) -> bool {
        self.0 & bits == bits
    }
}

const NAMES: [(u64, &str); 24] = [
    (Features::CSUM, "csum"),
    (Features::GUEST_CSUM, "guest-csum"),
    (Features::NET_MTU, "mtu"),
    (Features::GUEST_TSO4, "guest-tso4"),
    (Features::GUEST_TSO6, "guest-tso6"),
    (Features::GUEST_ECN, "guest-ecn"),
    (Features::HOST_TSO4, "host-tso4"),
    (Features::HOST_TSO6, "host-tso6"),
    (Features::HOST_ECN, "host-ecn"),
    (Features::MRG_RXBUF, "mrg-rxbuf"),
    (Features::STATUS, "status"),
    (Features::GUEST_ANNOUNCE, "guest-announce"),
    (Features::MQ, "mq"),
    (Features::LOG_ALL, "log-all"),
    (Features::ANY_LAYOUT, "any-layout"),
    (Features::INDIRECT_DESC, "indirect-desc"),
    (Features::EVENT_IDX, "event-idx"),
    (Features::PROTOCOL, "protocol-features"),
    (Features::VERSION_1, "version-1"),
    (Features::RING_PACKED, "ring-packed"),
    (Features::IN_ORDER, "in-order"),
    (Features::GUEST_USO4, "guest-uso4"),
    (Features::GUEST_USO6, "guest-uso6"),
    (Features::HOST_USO, "host-uso"),
];

/// Names of the set features.
pub fn feature_names(features: Features) -> Vec<&'static str> {
    NAMES.iter().filter(|(bit, _)| features.has(*bit)).map(|(_, name)| *name).collect()
}
