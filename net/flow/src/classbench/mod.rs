//! Rule sets and packets in the style of `ClassBench` (Taylor and Turner, IEEE/ACM Transactions on Networking 15(3),
//! 2007), for benchmarks and tests.
//!
//! Protocols, kinds of ports, prefix lengths, ports and the branching of prefixes follow the parameter files; see
//! `docs/decisions/0124`. A rule with a range of ports becomes a flow for each prefix of the range, as in `OpenFlow`.

mod seeds;
mod trace;

pub use trace::Trace;

use crate::lookup::fold;
use crate::{Field, Match, port_masks};
use fastrand::Rng;
use seeds::{Kind, Ports, Ranges, Seed};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::RangeInclusive;

/// Branching, in percent, from bit [`SCALED_FROM`] on where a parameter file has less: the files describe some hundred
/// rules, and their prefixes are too few for 10^5.
const SCALED_BRANCHING: u8 = 40;
/// See [`SCALED_BRANCHING`].
const SCALED_FROM: u8 = 12;
/// Rules that are made for each one that is wanted; most others are duplicates.
const ATTEMPTS: usize = 20;

/// Kinds of rule sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Access control list, `acl1_seed`: two long prefixes and a destination port.
    Acl,
    /// Firewall, `fw1_seed`: one prefix, and often ports.
    Firewall,
    /// Linux IP chains, `ipc1_seed`: many different pairs of prefix lengths.
    IpChain,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 3] = [Self::Acl, Self::Firewall, Self::IpChain];

    /// The family of a name of `ClassBench`: `acl`, `fw` or `ipc`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "acl" => Some(Self::Acl),
            "fw" => Some(Self::Firewall),
            "ipc" => Some(Self::IpChain),
            _ => None,
        }
    }

    fn seed(self) -> &'static Seed {
        match self {
            Self::Acl => &seeds::ACL,
            Self::Firewall => &seeds::FIREWALL,
            Self::IpChain => &seeds::IP_CHAIN,
        }
    }
}

/// About `flows` matches with their priorities. More specific rules have higher ones.
pub fn rules(family: Family, flows: usize, seed: u64) -> Vec<(Match, u16)> {
    let mut generator = Generator { seed: family.seed(), rng: Rng::with_seed(seed), salt: seed };
    let (mut found, mut rules, mut len) = (HashSet::new(), Vec::new(), 0);
    for _ in 0..ATTEMPTS * flows {
        let mut rule = generator.rule();
        rule.retain(|matching| found.insert(*matching));
        len += rule.len();
        if !rule.is_empty() {
            rules.push(rule);
        }
        if len >= flows {
            break;
        }
    }
    let bits = |rule: &[Match]| rule[0].mask().words().iter().map(|word| word.count_ones()).sum::<u32>();
    rules.sort_by_key(|rule| Reverse(bits(rule)));
    let count = rules.len().max(1);
    let ranked = rules.into_iter().enumerate().flat_map(|(rank, rule)| {
        let priority = u16::MAX - (rank * usize::from(u16::MAX) / count) as u16;
        rule.into_iter().map(move |matching| (matching, priority))
    });
    ranked.collect()
}

struct Generator {
    seed: &'static Seed,
    rng: Rng,
    salt: u64,
}

impl Generator {
    /// The flows of one rule.
    fn rule(&mut self) -> Vec<Match> {
        let seed = self.seed;
        let weight = |kind: &Kind| kind.protocols.iter().map(|(weight, _)| weight).sum::<u32>();
        let kind = self.choose(seed.kinds, weight);
        let (_, protocol) = *self.choose(kind.protocols, |(weight, _)| *weight);
        let (_, from, to) = *self.choose(kind.lengths, |(weight, ..)| *weight);
        let mut base = Match::any().with(Field::EthType, 0x0800);
        if protocol > 0 {
            base = base.with(Field::IpProto, protocol.into());
        }
        for (side, field, len) in [(0, Field::Ipv4Src, from), (1, Field::Ipv4Dst, to)] {
            if len > 0 {
                let mask = u32::MAX << (32 - len);
                base = base.with_masked(field, self.address(side, len).into(), mask.into());
            }
        }
        let [sources, destinations] = [0, 1].map(|side| port_masks(&self.range(side, kind.ports[side])));
        let pairs = sources.iter().flat_map(|source| destinations.iter().map(move |to| (*source, *to)));
        pairs
            .map(|(source, to)| with_port(&with_port(&base, Field::TcpSrc, source), Field::TcpDst, to))
            .collect()
    }

    /// The first `len` bits of an address. Each prefix has one or two longer ones, always the same.
    fn address(&mut self, side: usize, len: u8) -> u32 {
        let mut address = 0;
        for bit in 0..len {
            let place = (side as u64) << 40 | u64::from(bit) << 32 | u64::from(address);
            let node = fold(fold(self.salt, place), 1);
            let least = if bit < SCALED_FROM { 0 } else { SCALED_BRANCHING };
            let branches = node >> 8 & 0xffff_ffff;
            let two = branches % 100 < u64::from(self.seed.branching[side][usize::from(bit)].max(least));
            // The parameter files have a mean skew of a half: one child has twice the weight of the other.
            let lighter = two && self.rng.u8(0..3) == 0;
            let child = (node & 1 == 1) != lighter;
            address |= u32::from(child) << (31 - bit);
        }
        address
    }

    fn range(&mut self, side: usize, ports: Ports) -> RangeInclusive<u16> {
        let list: Ranges = match ports {
            Ports::Any => return 0..=u16::MAX,
            Ports::High => return 1024..=u16::MAX,
            Ports::Range => self.seed.ranges[side],
            Ports::Exact => self.seed.exact[side],
        };
        let (_, first, last) = *self.choose(list, |(weight, ..)| *weight);
        first..=last
    }

    /// One of `all`, by weight.
    fn choose<'a, T>(&mut self, all: &'a [T], weight: impl Fn(&T) -> u32) -> &'a T {
        let mut left = self.rng.u32(0..all.iter().map(&weight).sum::<u32>());
        let found = all.iter().find(|item| match left.checked_sub(weight(item)) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        found.unwrap_or(&all[0])
    }
}

fn with_port(matching: &Match, field: Field, (value, mask): (u16, u16)) -> Match {
    if mask == 0 { *matching } else { matching.with_masked(field, value.into(), mask.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_sets_are_repeatable_and_differ_by_seed() {
        for family in Family::ALL {
            let first = rules(family, 2000, 1);
            assert!((2000..2100).contains(&first.len()), "{family:?}: {}", first.len());
            assert_eq!(first, rules(family, 2000, 1));
            assert_ne!(first, rules(family, 2000, 2));
            assert!(first.is_sorted_by_key(|(_, priority)| Reverse(*priority)));
            let matches: HashSet<_> = first.iter().map(|(matching, _)| *matching).collect();
            assert_eq!(matches.len(), first.len());
        }
    }
}
