//! State of a packet during its translation.

use crate::field::Field;
use crate::key::{Key, WORDS};

/// Fields that actions change to a function of their own value.
const COMPUTED: [Field; 2] = [Field::IpTtl, Field::MplsTtl];

/// Kind of a header that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    Vlan,
    Mpls,
    Pbb,
}

/// Fields that a pushed header hides.
#[derive(Clone)]
struct Hidden {
    header: Header,
    bits: Key,
    key: Key,
    written: Key,
    opaque: Key,
}

/// The packet as later actions see it, and as it is.
#[derive(Clone)]
pub(super) struct State {
    /// Fields after all actions so far. Bits outside of `written` and `opaque` are those of the packet's key, or a
    /// function of the same bits of it.
    pub(super) key: Key,
    /// Bits that are the same for all packets of the translation.
    pub(super) written: Key,
    /// Bits that are not known.
    pub(super) opaque: Key,
    /// Bits that are or were a function of their own values.
    pub(super) computed: Key,
    /// Fields after all operations so far.
    base: Key,
    /// Bits of `base` that are the same for all packets.
    known: Key,
    /// Bits of `base` that are not known.
    unknown: Key,
    /// Bits of fields that actions have set, but operations have not.
    dirty: Vec<(Field, u128)>,
    hidden: Vec<Hidden>,
}

impl State {
    pub(super) fn new(key: &Key) -> Self {
        Self {
            key: *key,
            written: Key::ZERO,
            opaque: Key::ZERO,
            computed: Key::ZERO,
            base: *key,
            known: Key::ZERO,
            unknown: Key::ZERO,
            dirty: Vec::new(),
            hidden: Vec::new(),
        }
    }

    /// Sets bits of a field to a value that is the same for all packets.
    pub(super) fn set(&mut self, field: Field, value: u128, mask: u128) {
        self.key.set_masked(field, value, mask);
        self.written.set(field, self.written.get(field) | mask);
        self.opaque.set(field, self.opaque.get(field) & !mask);
        if !is_in_packet(field) {
            return;
        }
        match self.dirty.iter_mut().find(|(other, _)| *other == field) {
            Some((_, dirty)) => *dirty |= mask,
            None => self.dirty.push((field, mask)),
        }
    }

    /// The sets that give the packet its fields: field, value, bits. `mask` has the bits that all packets agree in.
    pub(super) fn commit(&mut self, mask: &Key) -> Vec<(Field, u128, u128)> {
        let mut sets = Vec::new();
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable_by_key(|(field, _)| *field);
        for (field, bits) in dirty {
            let (have, want) = (self.base.get(field), self.key.get(field));
            let comparable = mask.get(field) & !self.unknown.get(field) | self.known.get(field);
            if bits & !(comparable & !(have ^ want)) != 0 {
                sets.push((field, want & bits, bits));
            }
            self.base.set_masked(field, want, bits);
            self.known.set(field, self.known.get(field) | bits);
            self.unknown.set(field, self.unknown.get(field) & !bits);
        }
        sets
    }

    /// The bits of the packet's key that some bits of the present one depend on.
    pub(super) fn fresh(&self, bits: &Key) -> Key {
        let mut fresh = bits.and(&not(&self.written));
        for field in COMPUTED {
            // Each bit may depend on all bits of the field.
            if fresh.get(field) & self.computed.get(field) != 0 {
                fresh.set(field, field.full());
            }
        }
        fresh
    }

    /// Changes bits without an operation of their own: an operation has the same effect. The value must be the same for
    /// all packets.
    pub(super) fn become_constant(&mut self, field: Field, value: u128, mask: u128) {
        for key in [&mut self.key, &mut self.base] {
            key.set_masked(field, value, mask);
        }
        for (key, set) in [
            (&mut self.written, true),
            (&mut self.known, true),
            (&mut self.opaque, false),
            (&mut self.unknown, false),
        ] {
            let old = key.get(field);
            key.set(field, if set { old | mask } else { old & !mask });
        }
    }

    /// As above, with a function of the own value of a field of [`COMPUTED`].
    pub(super) fn become_function(&mut self, field: Field, value: u128) {
        self.key.set(field, value);
        self.base.set(field, value);
        self.computed.set(field, field.full());
    }

    /// Forgets bits.
    pub(super) fn become_opaque(&mut self, bits: &Key) {
        for i in 0..WORDS {
            self.opaque.0[i] |= bits.0[i];
            self.unknown.0[i] |= bits.0[i];
            self.written.0[i] &= !bits.0[i];
            self.known.0[i] &= !bits.0[i];
        }
    }

    /// Makes the bits 0.
    pub(super) fn become_absent(&mut self, bits: &Key) {
        for i in 0..WORDS {
            self.key.0[i] &= !bits.0[i];
            self.base.0[i] &= !bits.0[i];
            self.opaque.0[i] &= !bits.0[i];
            self.unknown.0[i] &= !bits.0[i];
            self.written.0[i] |= bits.0[i];
            self.known.0[i] |= bits.0[i];
        }
    }

    /// Remembers what a pushed header hides. All sets must be committed.
    pub(super) fn hide(&mut self, header: Header) {
        let (key, written, opaque) = (self.key, self.written, self.opaque);
        self.hidden.push(Hidden { header, bits: hidden_by(header), key, written, opaque });
    }

    /// Uncovers what is below a removed header. All sets must be committed.
    pub(super) fn uncover(&mut self, header: Header) {
        let outer = |hidden: &Hidden| hidden.header == header || hidden.header == Header::Pbb;
        let found = self.hidden.iter().rposition(outer);
        let found = found.filter(|i| self.hidden[*i].header == header);
        let Some(found) = found else {
            if header == Header::Pbb {
                self.hidden.clear();
            }
            return self.become_opaque(&hidden_by(header));
        };
        let hidden = self.hidden.remove(found);
        if header == Header::Pbb {
            self.hidden.truncate(found);
        }
        let bits = hidden.bits;
        let merge = |to: &mut Key, from: &Key| *to = to.and(&not(&bits)).or(&from.and(&bits));
        merge(&mut self.key, &hidden.key);
        merge(&mut self.base, &hidden.key);
        merge(&mut self.written, &hidden.written);
        merge(&mut self.known, &hidden.written);
        merge(&mut self.opaque, &hidden.opaque);
        merge(&mut self.unknown, &hidden.opaque);
    }

    /// Forgets the time to live that is below the outermost label stack entry, if it is remembered.
    pub(super) fn forget_inner_ttl(&mut self) {
        let labels = self.hidden.iter_mut().rfind(|hidden| hidden.header == Header::Mpls);
        let Some(hidden) = labels else { return };
        for field in [Field::IpTtl, Field::MplsTtl] {
            hidden.opaque.set(field, field.full());
            hidden.written.set(field, 0);
        }
    }

    /// Metadata, registers and the like that are the same for all packets: value and mask.
    pub(super) fn pipeline(&self) -> (Key, Key) {
        let mut mask = self.written;
        mask.0[Key::PACKET.start..].fill(0);
        (self.key, mask)
    }
}

/// Whether operations set the field.
fn is_in_packet(field: Field) -> bool {
    let word = usize::from(field.info().word);
    Key::PACKET.contains(&word) || Key::TUNNEL.contains(&word) || field == Field::PktMark
}

/// Bits of the fields that a header hides when it is pushed.
fn hidden_by(header: Header) -> Key {
    let mut bits = Key::ZERO;
    match header {
        Header::Vlan => bits.set(Field::VlanTci, Field::VlanTci.full()),
        Header::Mpls => {
            bits.0[Key::BELOW_ETHERNET].fill(u64::MAX);
            bits.set(Field::EthType, Field::EthType.full());
        }
        Header::Pbb => bits.0[Key::PACKET].fill(u64::MAX),
    }
    bits
}

fn not(key: &Key) -> Key {
    Key(std::array::from_fn(|i| !key.0[i]))
}
