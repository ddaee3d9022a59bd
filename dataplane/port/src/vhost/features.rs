//! Features negotiated between front end and back end.

use crate::Capabilities;

/// Virtio and vhost-user feature bits, as negotiated (VIRTIO 1.2 sections 5.1.3 and 6; vhost-user specification).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u64);

impl Features {
    /// `VIRTIO_NET_F_CSUM`: the guest may send packets with partial checksums.
    pub const CSUM: u64 = 1 << 0;
    /// `VIRTIO_NET_F_GUEST_CSUM`: the guest accepts packets with partial checksums.
    pub const GUEST_CSUM: u64 = 1 << 1;
    /// `VIRTIO_NET_F_MTU`
    pub const NET_MTU: u64 = 1 << 3;
    /// `VIRTIO_NET_F_GUEST_TSO4`: the guest accepts TSOv4 packets.
    pub const GUEST_TSO4: u64 = 1 << 7;
    /// `VIRTIO_NET_F_GUEST_TSO6`
    pub const GUEST_TSO6: u64 = 1 << 8;
    /// `VIRTIO_NET_F_GUEST_ECN`
    pub const GUEST_ECN: u64 = 1 << 9;
    /// `VIRTIO_NET_F_HOST_TSO4`: the guest may send TSOv4 packets.
    pub const HOST_TSO4: u64 = 1 << 11;
    /// `VIRTIO_NET_F_HOST_TSO6`
    pub const HOST_TSO6: u64 = 1 << 12;
    /// `VIRTIO_NET_F_HOST_ECN`
    pub const HOST_ECN: u64 = 1 << 13;
    /// `VIRTIO_NET_F_MRG_RXBUF`
    pub const MRG_RXBUF: u64 = 1 << 15;
    /// `VIRTIO_NET_F_STATUS`
    pub const STATUS: u64 = 1 << 16;
    /// `VIRTIO_NET_F_GUEST_ANNOUNCE`
    pub const GUEST_ANNOUNCE: u64 = 1 << 21;
    /// `VIRTIO_NET_F_MQ`
    pub const MQ: u64 = 1 << 22;
    /// `VHOST_F_LOG_ALL`: written pages are logged. Set and cleared while rings run.
    pub const LOG_ALL: u64 = 1 << 26;
    /// `VIRTIO_F_ANY_LAYOUT` (legacy)
    pub const ANY_LAYOUT: u64 = 1 << 27;
    /// `VIRTIO_F_INDIRECT_DESC`
    pub const INDIRECT_DESC: u64 = 1 << 28;
    /// `VIRTIO_F_EVENT_IDX`
    pub const EVENT_IDX: u64 = 1 << 29;
    /// `VHOST_USER_F_PROTOCOL_FEATURES`
    pub const PROTOCOL: u64 = 1 << 30;
    /// `VIRTIO_F_VERSION_1`
    pub const VERSION_1: u64 = 1 << 32;
    /// `VIRTIO_F_RING_PACKED`
    pub const RING_PACKED: u64 = 1 << 34;
    /// `VIRTIO_F_IN_ORDER`
    pub const IN_ORDER: u64 = 1 << 35;

    /// `VIRTIO_NET_F_GUEST_USO4`: the guest accepts `USOv4` packets.
    pub const GUEST_USO4: u64 = 1 << 54;
    /// `VIRTIO_NET_F_GUEST_USO6`
    pub const GUEST_USO6: u64 = 1 << 55;
    /// `VIRTIO_NET_F_HOST_USO`: the guest may send USO packets.
    pub const HOST_USO: u64 = 1 << 56;

    /// Offloads that the guest may request for packets it sends (VIRTIO 1.2 section 5.1.3.1: segmentation requires
    /// `CSUM`).
    pub const fn from_guest(self) -> Capabilities {
        let both = Self::HOST_USO;
        self.capabilities([Self::CSUM, Self::HOST_TSO4, Self::HOST_TSO6, Self::HOST_ECN, both])
    }

    /// Offloads that the guest supports for packets it receives.
    pub const fn to_guest(self) -> Capabilities {
        let both = Self::GUEST_USO4 | Self::GUEST_USO6;
        self.capabilities([Self::GUEST_CSUM, Self::GUEST_TSO4, Self::GUEST_TSO6, Self::GUEST_ECN, both])
    }

    const fn capabilities(self, [checksum, tcp4, tcp6, ecn, udp]: [u64; 5]) -> Capabilities {
        if !self.has(checksum) {
            return Capabilities::NONE;
        }
        let mut can = Capabilities::CHECKSUM;
        can |= if self.has(tcp4) { Capabilities::TCP4 } else { 0 };
        can |= if self.has(tcp6) { Capabilities::TCP6 } else { 0 };
        can |= if self.has(ecn) { Capabilities::ECN } else { 0 };
        can |= if self.has(udp) { Capabilities::UDP } else { 0 };
        Capabilities(can)
    }

    /// Whether all bits of `bits` are set.
    pub const fn has(self, bits: u64) -> bool {
        self.0 & bits == bits
    }

    /// Size of the virtio-net header in bytes: 12 with `VERSION_1` or `MRG_RXBUF`, else 10 (VIRTIO 1.2 section 5.1.6).
    pub const fn header_len(self) -> usize {
        if self.0 & (Self::VERSION_1 | Self::MRG_RXBUF) == 0 { 10 } else { 12 }
    }
}
