//! Fields of a frame, read in one pass.
//!
//! The result is that of Open vSwitch's `flow_extract`: a header that is cut off or contradicts itself leaves its
//! fields and those of the headers after it 0. It is no error. Each byte is read at most once, and the work is bounded
//! by the length of the head.

mod ipv6;
mod transport;

use super::layout::{Layout, NO_ETHERTYPE};
use crate::field::{Field, frag};
use crate::key::Key;
use wire::{Arp, EtherType, Ethernet, Ipv4, LabelEntry, ServiceTag};

/// First value of the field after the addresses that is an EtherType and no length.
const MIN_ETHERTYPE: u16 = 0x0600;
/// LLC header for SNAP, with the organisation code of Ethernet (RFC 1042).
const SNAP: [u8; 6] = [0xaa, 0xaa, 3, 0, 0, 0];

/// Sets the fields of `key` that are read from the packet ([`Key::PACKET`]), and returns where they are. `head` holds
/// the first bytes of a frame of `len` bytes; at most [`port::HEAD_SLOT`] of them are read. Other fields of the key are
/// kept.
pub fn parse(head: &[u8], len: usize, key: &mut Key) -> Layout {
    let head = head.get(..port::HEAD_SLOT).unwrap_or(head);
    key.0[Key::PACKET].fill(0);
    let mut parser = Parser { head, len, key, layout: Layout::default() };
    if parser.frame().is_none() {
        parser.layout.is_truncated = head.len() < len;
    }
    parser.layout
}

struct Parser<'a> {
    head: &'a [u8],
    len: usize,
    key: &'a mut Key,
    layout: Layout,
}

impl Parser<'_> {
    /// Reads all headers. Returns `None` if the head ends within one.
    #[inline]
    fn frame(&mut self) -> Option<()> {
        let view = Ethernet::new(self.head).ok()?;
        self.key.put(Field::EthDst, view.destination().to_u64());
        self.key.put(Field::EthSrc, view.source().to_u64());
        let (ethertype, at) = self.ethertype(view.ethertype());
        self.key.put(Field::EthType, ethertype.into());
        match EtherType(ethertype) {
            EtherType::IPV4 => self.ipv4(at),
            EtherType::IPV6 => self.ipv6(at),
            EtherType::ARP | EtherType::RARP => self.arp(at),
            kind if kind.is_mpls() => self.mpls(at),
            EtherType::SERVICE_INSTANCE => self.pbb(at),
            _ => Some(()),
        }
    }

    /// `N` bytes at `at`.
    #[inline(always)]
    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.head.get(at..)?.first_chunk().copied()
    }

    /// Reads VLAN tags and an LLC header. Returns the EtherType of the payload, and where the payload starts.
    #[inline(always)]
    fn ethertype(&mut self, first: EtherType) -> (u16, usize) {
        let (mut kind, mut at) = (first, wire::HEADER_LEN);
        while kind.is_vlan() && self.layout.tags < Layout::MAX_TAGS {
            let Some([high, low, next @ ..]) = self.bytes::<4>(at) else { break };
            if self.layout.tags == 0 {
                self.key.put(Field::VlanTci, u64::from(u16::from_be_bytes([high, low]) | 0x1000));
            }
            (kind, at) = (EtherType(u16::from_be_bytes(next)), at + wire::TAG_LEN);
            self.layout.tags += 1;
        }
        self.layout.ethertype = at as u16 - 2;
        if kind.0 < MIN_ETHERTYPE { self.snap(at) } else { (kind.0, at) }
    }

    #[cold]
    fn snap(&mut self, at: usize) -> (u16, usize) {
        match self.bytes::<8>(at) {
            Some([llc @ .., high, low])
                if llc == SNAP && u16::from_be_bytes([high, low]) >= MIN_ETHERTYPE =>
            {
                self.layout.ethertype = at as u16 + 6;
                (u16::from_be_bytes([high, low]), at + 8)
            }
            _ => (NO_ETHERTYPE, at),
        }
    }

    fn mpls(&mut self, at: usize) -> Option<()> {
        let entry = LabelEntry::parse(self.head.get(at..)?)?;
        self.key.put(Field::MplsLabel, entry.label().into());
        self.key.put(Field::MplsTc, entry.traffic_class().into());
        self.key.put(Field::MplsBos, entry.is_bottom().into());
        self.key.put(Field::MplsTtl, entry.ttl().into());
        self.layout.mpls = at as u16;
        Some(())
    }

    fn pbb(&mut self, at: usize) -> Option<()> {
        let tag = ServiceTag::parse(self.head.get(at..)?)?;
        self.key.put(Field::PbbIsid, tag.service().into());
        self.key.put(Field::PbbUca, tag.uses_customer_addresses().into());
        self.layout.pbb = at as u16;
        Some(())
    }

    fn arp(&mut self, at: usize) -> Option<()> {
        let packet = self.head.get(at..)?;
        if packet.len() < wire::ARP_LEN {
            return None;
        }
        let Some(view) = Arp::new(packet) else { return Some(()) };
        self.key.put(Field::ArpOp, view.operation().into());
        self.key.put(Field::ArpSpa, u32::from(view.sender_ip()).into());
        self.key.put(Field::ArpTpa, u32::from(view.target_ip()).into());
        self.key.put(Field::ArpSha, view.sender_mac().to_u64());
        self.key.put(Field::ArpTha, view.target_mac().to_u64());
        self.layout.network = at as u16;
        Some(())
    }

    #[inline]
    fn ipv4(&mut self, at: usize) -> Option<()> {
        let packet = self.head.get(at..)?;
        let Some(view) = Ipv4::new(packet) else { return (packet.len() >= 60).then_some(()) };
        let (header, total) = (view.header_len(), usize::from(view.total_len()));
        if total < header || at + total > self.len {
            return Some(());
        }
        let (source, destination) = view.source_and_destination();
        self.key.put(Field::Ipv4Src, u32::from(source).into());
        self.key.put(Field::Ipv4Dst, u32::from(destination).into());
        self.key.put(Field::IpProto, view.protocol().into());
        self.traffic_class(view.traffic_class());
        self.key.put(Field::IpTtl, view.ttl().into());
        self.layout.network = at as u16;
        self.layout.end = (at + total) as u32;
        if view.is_fragment() {
            self.fragment(view.fragment_offset() != 0);
            if view.fragment_offset() != 0 {
                return Some(());
            }
        }
        self.transport::<4>(at + header, view.protocol())
    }

    #[inline(always)]
    fn traffic_class(&mut self, class: u8) {
        self.key.put(Field::IpDscp, u64::from(class >> 2));
        self.key.put(Field::IpEcn, u64::from(class & 3));
    }

    fn fragment(&mut self, is_later: bool) {
        self.layout.is_fragment = true;
        self.key.set(Field::IpFrag, (frag::ANY | if is_later { frag::LATER } else { 0 }).into());
    }
}
