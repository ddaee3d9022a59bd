//! Recirculation: packets that pass through the pipeline again, with the cause and the port.

use super::directory::Member;
use super::track::States;
use crate::translate::Resume;
use crate::{Field, Key};
use port::{Now, PuntNote, PuntReason};
use std::net::IpAddr;
use std::sync::Arc;
use tunnel::Opened;

/// A later pass of packets through the pipeline.
pub(super) struct Recirculation {
    /// Bridge and ingress port.
    pub(super) member: Member,
    /// State of the packets beside their bytes.
    pub(super) carried: Carried,
    pub(super) cause: Cause,
}

/// Cause of a later pass, which determines its processing.
pub(super) enum Cause {
    /// They are looked up from the first table on, as received packets.
    Enter,
    /// A translation continues with the packet as it is now.
    Resume(Arc<Resume>),
    /// They go to controllers as they are now.
    Punt(PuntReason, PuntNote),
}

/// State of packets beside their bytes.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Carried {
    /// Connection states, if they continue with them.
    pub(super) states: Option<States>,
    /// Tunnel through which they were received.
    pub(super) tunnel: Option<Arc<Received>>,
}

/// Outer headers of received packets.
#[derive(PartialEq, Eq)]
pub(super) struct Received {
    pub(super) info: TunnelInfo,
    /// Options of Geneve as received.
    pub(super) options: Box<[u8]>,
}

/// Fields of the outer headers of received packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TunnelInfo {
    key: u32,
    source: IpAddr,
    destination: IpAddr,
    tos: u8,
    ttl: u8,
    is_oam: bool,
}

impl TunnelInfo {
    pub(super) fn new(opened: &Opened) -> Self {
        let Opened { key, source, destination, tos, ttl, is_oam, .. } = *opened;
        Self { key: key.unwrap_or(0), source, destination, tos, ttl, is_oam }
    }

    /// Sets the fields of the tunnel.
    pub(super) fn set(&self, key: &mut Key) {
        key.set(Field::TunnelId, self.key.into());
        let ends = [
            (self.source, Field::TunSrc, Field::TunIpv6Src),
            (self.destination, Field::TunDst, Field::TunIpv6Dst),
        ];
        for (address, v4, v6) in ends {
            match address {
                IpAddr::V4(address) => key.set(v4, address.to_bits().into()),
                IpAddr::V6(address) => key.set(v6, address.to_bits()),
            }
        }
        key.set(Field::TunFlags, self.is_oam.into());
        key.set(Field::TunTos, self.tos.into());
        key.set(Field::TunTtl, self.ttl.into());
    }
}

/// Packets and bytes of a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelCounts {
    /// Received packets.
    pub rx_packets: u64,
    /// Received bytes, without outer headers.
    pub rx_bytes: u64,
    /// Sent packets.
    pub tx_packets: u64,
    /// Sent bytes, without outer headers.
    pub tx_bytes: u64,
}

/// Later passes of a burst, and the counters of a worker since the last sweep.
#[derive(Default)]
pub(super) struct Recirculations {
    /// `None` while a pass is executed.
    list: Vec<Option<Recirculation>>,
    /// By the number of the tunnel's port in the engine, since the last sweep.
    pub(super) counts: Vec<TunnelCounts>,
    /// Of the next IPv4 packet with outer headers.
    pub(super) identification: u16,
    /// Numbers of the next packets of tunnels with sequence numbers, by the number of the port in the engine.
    sequences: Vec<u32>,
    /// When control was asked last to resolve a next hop.
    pub(super) asked: Now,
}

impl Recirculations {
    /// Forgets the passes of the last burst.
    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    /// Adds a pass. Returns its stage.
    pub(super) fn push(&mut self, recirculation: Recirculation) -> u32 {
        self.list.push(Some(recirculation));
        self.list.len() as u32
    }

    /// Adds a pass of packets that enter the tables of `member`. Successive packets that carry the same share one.
    pub(super) fn enter(&mut self, member: Member, carried: Carried) -> u32 {
        let is_same = |last: &Recirculation| {
            matches!(last.cause, Cause::Enter) && last.member == member && last.carried == carried
        };
        if !self.list.last().is_some_and(|last| last.as_ref().is_some_and(is_same)) {
            self.list.push(Some(Recirculation { member, carried, cause: Cause::Enter }));
        }
        self.list.len() as u32
    }

    /// Takes the pass of a stage, which must be put back, because further packets may follow.
    pub(super) fn take(&mut self, stage: u32) -> Option<Recirculation> {
        self.list.get_mut(stage.checked_sub(1)? as usize)?.take()
    }

    /// Puts the pass of a stage back.
    pub(super) fn put_back(&mut self, stage: u32, recirculation: Recirculation) {
        if let Some(place) = stage.checked_sub(1).and_then(|at| self.list.get_mut(at as usize)) {
            *place = Some(recirculation);
        }
    }

    /// Number of the next packet of a tunnel.
    pub(super) fn sequence(&mut self, port: port::PortId) -> u32 {
        let at = usize::from(port.0);
        self.sequences.resize(self.sequences.len().max(at + 1), 0);
        let next = self.sequences[at];
        self.sequences[at] = next.wrapping_add(1);
        next
    }

    /// The counters of a tunnel.
    pub(super) fn counts(&mut self, port: port::PortId) -> &mut TunnelCounts {
        let at = usize::from(port.0);
        self.counts.resize(self.counts.len().max(at + 1), TunnelCounts::default());
        &mut self.counts[at]
    }
}
