//! Translations against an interpreter of the specification, and single rules.

mod execute;
mod oracle;
mod packet;
mod random;
mod rules;

use super::{Operation, Record, Translation, enter, plain, translate, translate_recorded};
use crate::field::Field;
use crate::key::Key;
use crate::modify::{PortNo, TableId};
use crate::tables::Entry;
use execute::{Executor, Ports};
use oracle::Oracle;
use packet::Packet;
use proptest::prelude::*;
pub(crate) use random::matching;
use std::sync::Arc;

/// Cases of each property; `PROPTEST_CASES` sets another number.
fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = cases.unwrap_or(default);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// `first` in the bits of `mask`, `second` in the others.
fn mix(first: &Key, second: &Key, mask: &Key) -> Key {
    Key(std::array::from_fn(|i| first.0[i] & mask.0[i] | second.0[i] & !mask.0[i]))
}

/// Flows whose timeouts become lower.
fn reduced(translation: &Translation) -> Vec<*const Entry> {
    translation.reduced.iter().map(|reduction| Arc::as_ptr(&reduction.entry)).collect()
}

proptest! {
    #![proptest_config(cases(300))]

    /// The operations do what the interpreter does, also with other packets that agree in the bits of the mask.
    #[test]
    fn translations_agree_with_the_interpreter(
        tables in random::tables(),
        packets in prop::collection::vec(random::packet(), 1..12),
        flips in prop::collection::vec(any::<u32>(), 4),
    ) {
        for packet in &packets {
            let key = packet.key();
            let in_port = PortNo(key.get(Field::InPort) as u32);
            let translation = translate(&tables, &key, in_port, &Ports);
            prop_assert!(translation.error.is_none());
            let recorded = translate_recorded(&tables, &key, None, &Ports, &mut Record::new(&key));
            prop_assert_eq!(&recorded.operations, &translation.operations);
            prop_assert_eq!(recorded.mask, translation.mask);
            let others = packets.iter().map(Packet::key).chain(flips.iter().map(|flip| {
                let mut key = key;
                key.0[(flip >> 6) as usize % crate::WORDS] ^= 1 << (flip % 64);
                key
            }));
            for (i, other) in std::iter::once(key).chain(others).enumerate() {
                let other = Packet::new(&mix(&key, &other, &translation.mask), i % 2 == 0);
                let other = if i == 0 { packet.clone() } else { other };
                if other.key().and(&translation.mask) != key.and(&translation.mask) {
                    continue;
                }
                let expected = Oracle::run(&tables, &other);
                let found = Executor::run(&tables, &other, &translation);
                prop_assert_eq!(&found, &expected, "{:?} as {:?}: {:#?}", other.key(), key, translation);
                let again = translate(&tables, &other.key(), in_port, &Ports);
                prop_assert_eq!(reduced(&again), reduced(&translation));
            }
        }
    }

    /// A plain result is that of the translation.
    #[test]
    fn plain_results_agree_with_translations(
        tables in random::tables(),
        packets in prop::collection::vec(random::packet(), 1..12),
    ) {
        for mut key in packets.iter().map(Packet::key) {
            let in_port = PortNo(key.get(Field::InPort) as u32);
            let translation = translate(&tables, &key, in_port, &Ports);
            enter(&mut key, in_port);
            if let Some((entry, port)) = plain(&tables, &key, &Ports) {
                prop_assert_eq!(&translation.operations, &[Operation::Output(port)]);
                prop_assert!(matches!(&translation.flows[..], [flow] if Arc::ptr_eq(flow, entry)));
                prop_assert!(translation.groups.is_empty() && translation.learned.is_empty());
                prop_assert!(translation.reduced.is_empty());
            }
        }
    }

    /// A lookup finds the flow of a scan, and so does one of any packet that agrees in the bits of the mask.
    #[test]
    fn lookups_agree_with_a_scan(
        tables in random::tables(),
        packets in prop::collection::vec(random::packet(), 2..12),
    ) {
        for packet in &packets {
            let (key, mut mask) = (packet.key(), Key::ZERO);
            let found = tables.find(TableId(0), &key, &mut mask).map(|flow| flow.entry().matching());
            for other in &packets {
                let other = mix(&key, &other.key(), &mask);
                let expected = oracle::find(&tables, TableId(0), &other);
                prop_assert_eq!(found, expected.map(|flow| flow.entry().matching()));
            }
        }
    }
}
