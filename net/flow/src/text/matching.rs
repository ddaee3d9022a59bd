//! Matches as text. Words may stand in any order; fields are added in the order of their prerequisites.

use super::PortNames;
use super::error::{Reason, TextError};
use super::names::{find, meant, names};
use super::piece::{Piece, Word};
use super::{error::nearest, part, set, value};
use crate::field::{Field, Prerequisite};
use crate::matching::BadMatch;
use crate::matching::Match;

/// Words that stand for an EtherType and possibly an IP protocol; the first of a pair is printed.
const PROTOCOLS: &[(&str, u128, Option<u128>)] = &[
    ("ip", 0x0800, None),
    ("icmp", 0x0800, Some(1)),
    ("tcp", 0x0800, Some(6)),
    ("udp", 0x0800, Some(17)),
    ("sctp", 0x0800, Some(132)),
    ("ipv6", 0x86dd, None),
    ("icmp6", 0x86dd, Some(58)),
    ("tcp6", 0x86dd, Some(6)),
    ("udp6", 0x86dd, Some(17)),
    ("sctp6", 0x86dd, Some(132)),
    ("arp", 0x0806, None),
    ("rarp", 0x8035, None),
    ("mpls", 0x8847, None),
    ("mplsm", 0x8848, None),
    ("ipv4", 0x0800, None),
    ("ip4", 0x0800, None),
    ("ip6", 0x86dd, None),
];

/// The word for the EtherType and IP protocol of `found`, and whether it covers the protocol.
pub(super) fn protocol(found: &Match) -> Option<(&'static str, bool)> {
    let ethertype = found.exact(Field::EthType)?;
    let number = found.exact(Field::IpProto).filter(|_| Prerequisite::Ip.holds(found));
    let find = |number| PROTOCOLS.iter().find(|row| (row.1, row.2) == (ethertype, number));
    let word = find(number).or_else(|| find(None))?;
    Some((word.0, word.2.is_some()))
}

/// `dl_vlan` of packets without a tag.
const NO_VLAN: u128 = 0xffff;
const VLAN_PRESENT: u128 = 0x1000;

/// A field that a word requires.
struct Entry<'a> {
    from: Piece<'a>,
    name: &'a str,
    field: Field,
    value: u128,
    mask: u128,
}

impl Entry<'_> {
    /// Replaces the field by the one that its name means in a match that contains `found`.
    fn resolve(&mut self, found: &Match) {
        let field = meant(self.name, self.field, found);
        if self.mask == self.field.full() {
            self.mask = field.full();
        }
        self.field = field;
    }
}

/// Collects words of a match.
pub(super) struct Collector<'a> {
    ports: &'a dyn PortNames,
    entries: Vec<Entry<'a>>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(ports: &'a dyn PortNames) -> Self {
        Self { ports, entries: Vec::new() }
    }

    /// Adds a word.
    ///
    /// # Errors
    /// If it names no field, or its value is invalid.
    pub(super) fn word(&mut self, word: Word<'a>) -> Result<(), TextError> {
        let (key, value) = (word.key, word.value);
        if let Some((_, ethertype, number)) = PROTOCOLS.iter().find(|row| row.0 == key.text) {
            self.add(key, Field::EthType, *ethertype, Field::EthType.full());
            if let Some(number) = number {
                self.add(key, Field::IpProto, *number, Field::IpProto.full());
            }
            return word.alone();
        }
        match key.text {
            "eth" => word.alone()?,
            "dl_vlan" => self.vlan(word)?,
            "dl_vlan_pcp" | "vlan_pcp" => {
                let priority = word.required()?.value.number(Field::VlanPcp.full())?;
                self.add(key, Field::VlanVid, VLAN_PRESENT, VLAN_PRESENT);
                self.add(key, Field::VlanPcp, priority, Field::VlanPcp.full());
            }
            name if name.contains('[') => {
                let part = part::parse(key)?;
                let bits = u128::MAX >> (128 - part.bits);
                let value = value.number(Field::Xxreg0.full())?;
                if value & !bits != 0 {
                    return Err(word.value.error(Reason::Fit(part.bits)));
                }
                self.add(key, part.field, value << part.offset, part.mask());
            }
            _ => self.field(word)?,
        }
        Ok(())
    }

    fn vlan(&mut self, word: Word<'a>) -> Result<(), TextError> {
        match word.required()?.value.number(NO_VLAN)? {
            NO_VLAN => self.add(word.key, Field::VlanVid, 0, Field::VlanVid.full()),
            vlan if vlan < VLAN_PRESENT => {
                self.add(word.key, Field::VlanVid, vlan | VLAN_PRESENT, Field::VlanVid.full());
            }
            _ => {
                return Err(word
                    .value
                    .error(Reason::Expected("a VLAN from 0 to 4095, or 0xffff for no tag")));
            }
        }
        Ok(())
    }

    fn field(&mut self, word: Word<'a>) -> Result<(), TextError> {
        let near = || nearest(word.key.text, names().chain(super::flow::keywords()).chain(words()));
        let (named, shift) = find(word.key).map_err(|_| word.key.error(Reason::UnknownWord(near())))?;
        if named.field.option().is_some() && word.value.text.is_empty() {
            self.add(word.key, named.field, 0, 0);
            return Ok(());
        }
        let text = word.required()?.value;
        let parse = || value::parse(text, named.field, named.form, self.ports);
        let (value, mask) = if shift > 0 { (set::dscp(text)?, named.field.full()) } else { parse()? };
        self.add(word.key, named.field, value, mask);
        Ok(())
    }

    /// Adds bits of a field, unless they are none. Of an option, none require its presence.
    fn add(&mut self, from: Piece<'a>, field: Field, value: u128, mask: u128) {
        if mask != 0 || field.option().is_some() {
            self.entries.push(Entry { from, name: from.text, field, value, mask });
        }
    }

    /// The match.
    ///
    /// # Errors
    /// If words contradict each other, or a prerequisite is not fulfilled.
    pub(super) fn finish(mut self) -> Result<Match, TextError> {
        self.entries.sort_by_key(|entry| entry.field.info().requires.order());
        let mut found = Match::any();
        for mut entry in self.entries {
            entry.resolve(&found);
            add(&mut found, &entry)?;
        }
        Ok(found)
    }
}

/// Adds an entry to what is there. Words of the same field may complement each other.
fn add(found: &mut Match, entry: &Entry) -> Result<(), TextError> {
    let Entry { from, field, value, mask, .. } = *entry;
    let (known, bits, info) = (found.key().get(field), found.mask().get(field), field.info());
    if !info.requires.holds(found) {
        return Err(from.error(BadMatch::Prerequisite(info.name, info.requires.describe())));
    }
    if (known ^ value) & mask & bits != 0 {
        return Err(from.error(Reason::Contradiction));
    }
    if !found.has(field) {
        return found.add(field, value, Some(mask)).map_err(|error| from.error(error));
    }
    if mask & !bits != 0 {
        *found = found.with_masked(field, value, mask);
    }
    Ok(())
}

/// Names of protocols, for suggestions.
fn words() -> impl Iterator<Item = &'static str> {
    PROTOCOLS.iter().map(|row| row.0).chain(["dl_vlan", "dl_vlan_pcp", "tp_src", "tp_dst"])
}
