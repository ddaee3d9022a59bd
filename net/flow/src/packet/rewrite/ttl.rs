//! Times to live.

use super::fields::Place;
use super::{Refusal, Rewriter};
use crate::field::Field;
use wire::{Ipv4, Ipv6, LabelEntry, MPLS_ENTRY};

/// IP in IP (RFC 2003) and IPv6 in IP (RFC 4213).
const IP_IN_IP: [u128; 2] = [4, 41];

impl Rewriter {
    /// Decrements a time to live.
    ///
    /// # Errors
    /// [`Refusal::Expired`] if it is 0 or 1.
    pub fn decrement(&mut self, field: Field) -> Result<(), Refusal> {
        self.place(field)?;
        match self.key.get(field) {
            0 | 1 => Err(Refusal::Expired),
            ttl => self.set(field, ttl - 1, 0xff),
        }
    }

    /// Copies the time to live from the next to outer header to the outer one. Both are MPLS or IP headers.
    ///
    /// # Errors
    /// If there is no such header.
    pub fn copy_ttl_out(&mut self) -> Result<(), Refusal> {
        let (outer, inner) = self.ttls()?;
        let ttl = self.load(&inner) & 0xff;
        self.set(outer, ttl, 0xff)
    }

    /// Copies the time to live from the outer header to the next to outer one. Both are MPLS or IP headers.
    ///
    /// # Errors
    /// If there is no such header.
    pub fn copy_ttl_in(&mut self) -> Result<(), Refusal> {
        let (outer, inner) = self.ttls()?;
        let ttl = self.key.get(outer);
        self.store(&inner, ttl, 0xff)
    }

    /// The field of the outer header, and where the inner one is.
    fn ttls(&mut self) -> Result<(Field, Place), Refusal> {
        self.refresh();
        let (mpls, transport) = (usize::from(self.layout.mpls), usize::from(self.layout.transport));
        let found = match self.bytes_at::<MPLS_ENTRY>(mpls).filter(|_| mpls != 0) {
            Some(entry) if LabelEntry(u32::from_be_bytes(entry)).is_bottom() => {
                self.ip_ttl(mpls + MPLS_ENTRY).map(|place| (Field::MplsTtl, place))
            }
            Some(_) => {
                let next = mpls + MPLS_ENTRY;
                self.bytes_at::<MPLS_ENTRY>(next).map(|_| (Field::MplsTtl, Place::plain(next, 4, 0)))
            }
            None if transport != 0 && IP_IN_IP.contains(&self.key.get(Field::IpProto)) => {
                self.ip_ttl(transport).map(|place| (Field::IpTtl, place))
            }
            None => None,
        };
        found.ok_or(Refusal::NoHeader("two headers with a time to live"))
    }

    /// Time to live of the IP header at `at`.
    fn ip_ttl(&self, at: usize) -> Option<Place> {
        let packet = self.head().get(at..)?;
        if Ipv4::new(packet).is_some() {
            return Some(Place { header: at, ..Place::plain(at + 8, 2, 8) });
        }
        Ipv6::new(packet).map(|_| Place::plain(at + 6, 2, 0))
    }
}
