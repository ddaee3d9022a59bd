//! A packet with all its headers, on which the interpreter and operations work.

use crate::field::Field;
use crate::key::Key;
use crate::translate::Operation;

/// A label stack entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Label {
    kind: u16,
    number: u32,
    tc: u8,
    ttl: u8,
}

/// A packet. Absent fields are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Metadata, addresses of Ethernet, and the fields after the labels with their EtherType.
    fields: Key,
    /// Tags, the outer one last.
    tags: Vec<u16>,
    /// Labels, the outer one last.
    labels: Vec<Label>,
}

const MPLS: [Field; 4] = [Field::MplsLabel, Field::MplsTc, Field::MplsBos, Field::MplsTtl];

impl Packet {
    /// A packet with the fields of `key`, as far as such a packet exists, one label deep.
    pub(super) fn new(key: &Key, inner_tag: bool) -> Self {
        let mut fields = *key;
        let kind = key.get(Field::EthType) as u16;
        let tci = key.get(Field::VlanTci) as u16;
        fields.set(Field::VlanTci, 0);
        for field in MPLS {
            fields.set(field, 0);
        }
        let mut tags = if inner_tag { vec![0x1003] } else { Vec::new() };
        tags.truncate(usize::from(tci & 0x1000 != 0));
        tags.extend((tci & 0x1000 != 0).then_some(tci));
        let mut labels = Vec::new();
        if kind == 0x8847 || kind == 0x8848 {
            // The inner packet is IPv4 for every key.
            fields.set(Field::EthType, 0x800);
            let get = |field| key.get(field);
            if get(Field::MplsBos) == 0 {
                labels.push(Label { kind, number: 9, tc: 1, ttl: 9 });
            }
            let (label, tc) = (get(Field::MplsLabel) as u32, get(Field::MplsTc) as u8);
            labels.push(Label { kind, number: label, tc, ttl: get(Field::MplsTtl) as u8 });
        }
        let mut packet = Self { fields, tags, labels };
        packet.clean();
        packet
    }

    /// Clears the fields that the protocols do not have.
    fn clean(&mut self) {
        let kind = self.fields.get(Field::EthType);
        if ![0x800, 0x86dd].contains(&kind) {
            self.fields.0[31..42].fill(0);
        }
        if kind != 0x86dd {
            self.fields.0[32..36].fill(0);
            self.fields.set(Field::Ipv6Flabel, 0);
        }
        if kind == 0x86dd {
            self.fields.0[31] = 0;
        }
        if ![6, 17].contains(&self.fields.get(Field::IpProto)) {
            self.fields.0[41] = 0;
        }
    }

    pub(super) fn key(&self) -> Key {
        let mut key = self.fields;
        if let Some(tci) = self.tags.last() {
            key.set(Field::VlanTci, (*tci).into());
        }
        if let Some(label) = self.labels.last() {
            key.0[30..42].fill(0);
            key.set(Field::EthType, label.kind.into());
            key.set(Field::MplsLabel, label.number.into());
            key.set(Field::MplsTc, label.tc.into());
            key.set(Field::MplsTtl, label.ttl.into());
            key.set(Field::MplsBos, u128::from(self.labels.len() == 1));
        }
        key
    }

    pub(super) fn get(&self, field: Field) -> u128 {
        self.key().get(field)
    }

    pub(super) fn set(&mut self, field: Field, value: u128, mask: u128) {
        let mut key = self.key();
        key.set_masked(field, value, mask);
        match field {
            Field::VlanTci | Field::VlanVid | Field::VlanPcp => {
                *self.tags.last_mut().unwrap() = key.get(Field::VlanTci) as u16;
            }
            Field::MplsLabel => self.labels.last_mut().unwrap().number = key.get(field) as u32,
            Field::MplsTc => self.labels.last_mut().unwrap().tc = key.get(field) as u8,
            Field::MplsTtl => self.labels.last_mut().unwrap().ttl = key.get(field) as u8,
            _ => self.fields.set_masked(field, value, mask),
        }
    }

    /// Executes an operation on headers. Returns whether the packet is still valid.
    pub(super) fn change(&mut self, operation: &Operation) -> bool {
        match operation {
            Operation::Set { field, value, mask } => self.set(*field, *value, *mask),
            Operation::PushVlan(_) => self.tags.push(self.tags.last().copied().unwrap_or(0) | 0x1000),
            Operation::PopVlan => _ = self.tags.pop().unwrap(),
            Operation::PushMpls(kind) => self.push_mpls(*kind),
            Operation::PopMpls(kind) => self.pop_mpls(*kind),
            Operation::DecMplsTtl => {
                let label = self.labels.last_mut().unwrap();
                label.ttl = label.ttl.saturating_sub(1);
                return label.ttl > 0;
            }
            Operation::DecNwTtl(_) => {
                let ttl = self.get(Field::IpTtl);
                self.set(Field::IpTtl, ttl.saturating_sub(1), 0xff);
                return ttl > 1;
            }
            Operation::CopyTtlOut => {
                let inner = self.inner_ttl();
                self.labels.last_mut().unwrap().ttl = inner;
            }
            Operation::CopyTtlIn => self.copy_ttl_in(),
            other => panic!("{other:?} is not on headers"),
        }
        true
    }

    fn push_mpls(&mut self, kind: u16) {
        let ttl = if [0x800, 0x86dd].contains(&self.fields.get(Field::EthType)) {
            self.fields.get(Field::IpTtl) as u8
        } else {
            0
        };
        let label = self.labels.last().copied().unwrap_or(Label { kind, number: 0, tc: 0, ttl });
        self.labels.push(Label { kind, ..label });
    }

    /// An EtherType that is wrong for what follows changes what the bytes mean, in some fixed way.
    fn pop_mpls(&mut self, kind: u16) {
        self.labels.pop().unwrap();
        if ![0x8847, 0x8848].contains(&kind) {
            self.labels.clear();
            return self.fields.set(Field::EthType, kind.into());
        }
        match self.labels.last_mut() {
            Some(label) => label.kind = kind,
            None => self.labels.push(Label { kind, number: 0, tc: 0, ttl: 0 }),
        }
    }

    fn inner_ttl(&self) -> u8 {
        match self.labels.len().checked_sub(2) {
            Some(inner) => self.labels[inner].ttl,
            None => self.fields.get(Field::IpTtl) as u8,
        }
    }

    fn copy_ttl_in(&mut self) {
        let outer = self.labels.last().unwrap().ttl;
        match self.labels.len().checked_sub(2) {
            Some(inner) => self.labels[inner].ttl = outer,
            None if [0x800, 0x86dd].contains(&self.fields.get(Field::EthType)) => {
                self.fields.set(Field::IpTtl, outer.into());
            }
            None => {}
        }
    }

    /// The packet without what only tables see.
    pub(super) fn on_the_wire(&self) -> Self {
        let mut packet = self.clone();
        packet.fields.0[..28].fill(0);
        packet.fields.set(Field::PktMark, self.fields.get(Field::PktMark));
        packet
    }
}
