//! The fields that a packet has, each once and under one name.

use crate::field::Field;
use crate::key::Key;
use crate::matching::Match;
use crate::translate::Step;

/// Value of `actset_output` without an output (OpenFlow 1.5, `OFPP_UNSET`).
const UNSET: u128 = 0xffff_fff7;

/// Some fields of a packet, for [`crate::text::show`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The whole packet, which decides under which names shared bits are shown.
    pub packet: Key,
    /// Bits to show.
    pub mask: Key,
}

impl Fields {
    /// All fields that a packet has.
    pub fn all(packet: &Key) -> Self {
        let found = exact(packet);
        Self { packet: *found.key(), mask: *found.mask() }
    }
}

/// A field that a step changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// Field.
    pub field: Field,
    /// Value before.
    pub before: u128,
    /// Value after.
    pub after: u128,
}

/// The match of exactly this packet: all fields of its headers, and those beside them that are not 0.
pub fn exact(packet: &Key) -> Match {
    let mut fields: Vec<_> = Field::ALL.iter().copied().filter(|field| !is_alias(*field)).collect();
    fields.sort_by_key(|field| field.info().requires.order());
    fields.into_iter().fold(Match::any(), |found, field| {
        let value = packet.get(field);
        let is_header = Key::PACKET.contains(&field.info().word.into()) && field != Field::Ipv6Exthdr;
        let is_option = field.option().is_some_and(|n| packet.get(Field::TunOptions) >> n & 1 != 0);
        let is_set = (value != 0 || is_option) && (field, value) != (Field::ActsetOutput, UNSET);
        let is_there = (is_header || is_set) && field.info().requires.holds(&found);
        if is_there { found.with(field, value) } else { found }
    })
}

/// Whether another field says the same for all packets.
fn is_alias(field: Field) -> bool {
    let xreg = (Field::Xreg0 as u8..=Field::Xxreg3 as u8).contains(&(field as u8));
    xreg || matches!(field, Field::VlanVid | Field::VlanPcp | Field::InPhyPort | Field::TunOptions)
}

impl Step {
    /// The fields that it changed, of those that the packet has before or after it.
    pub fn changes(&self) -> Vec<FieldChange> {
        let Some(change) = &self.change else { return Vec::new() };
        let (before, after) = (&change.0, &change.1);
        let (old, new) = (exact(before), exact(after));
        let is_there = |field: Field| old.exact(field).is_some() || new.exact(field).is_some();
        let fields = Field::ALL.iter().copied().filter(|field| !is_alias(*field) && is_there(*field));
        let changes = fields.map(|field| {
            let value =
                |found: &Match, key: &Key| if found.mask().get(field) == 0 { 0 } else { key.get(field) };
            FieldChange { field, before: value(&old, before), after: value(&new, after) }
        });
        // Fields that share bits with one that the packet has are those of another protocol.
        changes
            .filter(|change| {
                let requires = change.field.info().requires;
                change.before != change.after && (requires.holds(&old) || requires.holds(&new))
            })
            .collect()
    }
}
