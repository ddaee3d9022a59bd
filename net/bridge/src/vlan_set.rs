//! VLAN sets of trunk ports.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use wire::VlanId;

const WORDS: usize = 64;

/// A set of VLANs 1 to 4094. Text form: `1-10,20,100-199`.
#[derive(Clone, PartialEq, Eq)]
pub struct VlanSet(Box<[u64; WORDS]>);

impl VlanSet {
    /// The empty set.
    pub fn empty() -> Self {
        Self(Box::new([0; WORDS]))
    }

    /// All VLANs.
    pub fn all() -> Self {
        (1..4095).filter_map(VlanId::new).collect()
    }

    /// Adds a VLAN.
    pub fn insert(&mut self, vlan: VlanId) {
        self.0[vlan.get() as usize / 64] |= 1 << (vlan.get() % 64);
    }

    /// Whether the set contains `vlan`.
    #[inline(always)]
    pub fn contains(&self, vlan: VlanId) -> bool {
        self.has(vlan.get())
    }

    /// [`VlanSet::contains`] for any number.
    #[inline(always)]
    pub(crate) fn has(&self, vlan: u16) -> bool {
        self.0[vlan as usize / 64 % WORDS] >> (vlan % 64) & 1 != 0
    }

    /// The VLANs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = VlanId> + '_ {
        (1..4095).filter(|id| self.has(*id)).filter_map(VlanId::new)
    }

    fn runs(&self) -> Vec<RangeInclusive<u16>> {
        let mut runs: Vec<RangeInclusive<u16>> = Vec::new();
        for id in self.iter().map(VlanId::get) {
            match runs.last_mut() {
                Some(run) if *run.end() + 1 == id => *run = *run.start()..=id,
                _ => runs.push(id..=id),
            }
        }
        runs
    }
}

impl FromIterator<VlanId> for VlanSet {
    fn from_iter<I: IntoIterator<Item = VlanId>>(vlans: I) -> Self {
        let mut set = Self::empty();
        vlans.into_iter().for_each(|vlan| set.insert(vlan));
        set
    }
}

impl fmt::Display for VlanSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, run) in self.runs().iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match (run.start(), run.end()) {
                (start, end) if start == end => write!(f, "{comma}{start}")?,
                (start, end) => write!(f, "{comma}{start}-{end}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for VlanSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VlanSet({self})")
    }
}

/// Invalid VLAN set text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a list of VLANs: write numbers and ranges from 1 to 4094, like 1-10,20")]
pub struct ParseVlanSetError(String);

impl FromStr for VlanSet {
    type Err = ParseVlanSetError;

    fn from_str(text: &str) -> Result<Self, ParseVlanSetError> {
        let mut set = Self::empty();
        for part in text.split(',') {
            let run = parse_run(part.trim()).ok_or_else(|| ParseVlanSetError(text.to_owned()))?;
            run.filter_map(VlanId::new).for_each(|vlan| set.insert(vlan));
        }
        Ok(set)
    }
}

fn parse_run(text: &str) -> Option<RangeInclusive<u16>> {
    let (start, end) = text.split_once('-').unwrap_or((text, text));
    let (start, end): (VlanId, VlanId) = (start.trim().parse().ok()?, end.trim().parse().ok()?);
    (start <= end).then(|| start.get()..=end.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_parse_and_print_in_shortest_form() {
        let set: VlanSet = "20, 1-3,4,100".parse().unwrap();
        assert_eq!(set.to_string(), "1-4,20,100");
        assert_eq!(VlanSet::all().to_string(), "1-4094");
        assert_eq!(VlanSet::empty().to_string(), "");
    }

    #[test]
    fn invalid_vlan_list_is_rejected() {
        for text in ["", "0", "4095", "1-4095", "5-2", "1,,2", "a", "1-2-3", "+1-2,"] {
            assert!(text.parse::<VlanSet>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_and_set_round_trip(ids in prop::collection::btree_set(1u16..4095, 1..50)) {
            let set: VlanSet = ids.iter().filter_map(|id| VlanId::new(*id)).collect();
            prop_assert_eq!(set.iter().map(VlanId::get).collect::<Vec<_>>(), ids.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(set.to_string().parse::<VlanSet>().unwrap(), set);
        }
    }
}
