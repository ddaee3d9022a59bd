//! Packets that rules of a set select.

use crate::{Field, Key, Match};
use fastrand::Rng;

/// Fields that a packet has also where its rule does not match them.
const FREE: [Field; 5] = [Field::IpProto, Field::Ipv4Src, Field::Ipv4Dst, Field::TcpSrc, Field::TcpDst];

/// A sequence of packets.
pub struct Trace {
    headers: Vec<Key>,
    /// Position in `headers` of each packet.
    order: Vec<u32>,
}

impl Trace {
    /// `packets` packets with `headers` different headers, which random rules select. The frequency of the header of
    /// rank `n` is proportional to `n` to the power of `-exponent`: 0 for uniform traffic, 1.1 for usual one.
    pub fn new(rules: &[(Match, u16)], headers: usize, packets: usize, exponent: f64, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let header = |rng: &mut Rng| match rng.choice(rules) {
            Some((matching, _)) => packet(rng, matching),
            None => Key::ZERO,
        };
        let headers: Vec<_> = (0..headers.max(1)).map(|_| header(&mut rng)).collect();
        let mut sum = 0.0;
        let sums = (1..=headers.len()).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        let sums: Vec<f64> = sums.collect();
        let rank = |value: f64| sums.partition_point(|sum| *sum <= value).min(sums.len() - 1);
        let total = sums.last().copied().unwrap_or_default();
        let order = (0..packets).map(|_| rank(rng.f64() * total) as u32).collect();
        Self { headers, order }
    }

    /// Keys of the packets.
    pub fn packets(&self) -> impl Iterator<Item = &Key> {
        self.order.iter().map(|header| &self.headers[*header as usize])
    }
}

/// A random packet that `matching` selects.
fn packet(rng: &mut Rng, matching: &Match) -> Key {
    let mut key = *matching.key();
    key.set(Field::InPort, 1);
    for field in FREE {
        let value = if field == Field::IpProto { 6 } else { u128::from(rng.u32(..)) };
        key.set_masked(field, value, field.full() & !matching.mask().get(field));
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classbench::{Family, rules};
    use std::collections::HashMap;

    #[test]
    fn packets_are_selected_by_rules_and_popular_headers_are_frequent() {
        let rules = rules(Family::Acl, 500, 3);
        for (exponent, most) in [(0.0, 24), (1.1, 2000)] {
            let trace = Trace::new(&rules, 1000, 10_000, exponent, 4);
            let mut counts = HashMap::new();
            trace.packets().for_each(|key| *counts.entry(*key).or_insert(0) += 1);
            let max = counts.values().copied().max().unwrap();
            assert!((most / 2..most * 2).contains(&max), "{exponent}: {max}");
            assert!(counts.keys().all(|key| rules.iter().any(|(matching, _)| matching.selects(key))));
        }
    }
}
