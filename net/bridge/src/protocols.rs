//! Protocols between neighbours whose frames a port passes to control, and the limits on them.
//!
//! A flood of such frames costs its own port: control gets at most [`FRAMES`] frames a second of each protocol and
//! port, and [`MESSAGES`] of IGMP and MLD.

use super::config::{PortConfig, Rate};
use super::limit::Limiter;
use wire::{EtherType, Ethernet, MacAddress};

/// Destination of BPDUs (IEEE 802.1D-2004, table 7-10).
const BPDU: MacAddress = MacAddress::new([0x01, 0x80, 0xc2, 0, 0, 0]);
/// Destination of LLDP to the nearest bridge (IEEE 802.1AB-2016, table 7-1).
const LLDP: MacAddress = MacAddress::new([0x01, 0x80, 0xc2, 0, 0, 0x0e]);
/// Limit of each protocol: frames a second, and at once. RSTP sends up to six at once and one a second then.
pub(super) const PROTOCOL_RATE: Rate = Rate::new(FRAMES, FRAMES).expect("a number above 0");
const FRAMES: u32 = 50;
/// Limit of membership messages of a port: the reports of some hundred hosts, spread over ten seconds.
pub(super) const MEMBERSHIP_RATE: Rate = Rate::new(MESSAGES, MESSAGES).expect("a number above 0");
const MESSAGES: u32 = 200;

/// Protocols of a port.
pub(super) struct Protocols {
    bpdu: Option<Limiter>,
    lldp: Option<Limiter>,
}

impl Protocols {
    /// Protocols of a port; `None` if there are none.
    pub(super) fn of(config: &PortConfig) -> Option<Box<Self>> {
        let limiter = |is_on: bool| is_on.then(|| Limiter::new(PROTOCOL_RATE));
        let (bpdu, lldp) = (limiter(config.stp), limiter(config.lldp));
        (config.stp || config.lldp).then(|| Box::new(Self { bpdu, lldp }))
    }

    /// Whether frames to this group address may go to control.
    pub(super) fn use_group(&self, group: MacAddress) -> bool {
        self.bpdu.is_some() && group == BPDU || self.lldp.is_some() && group == LLDP
    }

    /// The limit of the protocol of an untagged frame; `None` if the frame is none of a protocol.
    pub(super) fn limit(&self, frame: &Ethernet<'_>) -> Option<&Limiter> {
        match frame.destination() {
            BPDU if frame.tag().is_none() => self.bpdu.as_ref(),
            LLDP if frame.ethertype() == EtherType::LLDP => self.lldp.as_ref(),
            _ => None,
        }
    }
}
