//! Distribution of buckets to members, by number and by load.

use super::shared::BUCKETS;
use port::PortId;

/// Load in bytes below which buckets do not move: 80 kbit/s over ten seconds.
const MIN_OVERLOAD: u64 = 100_000;
/// Buckets do not move if the difference is below this part of the smaller load.
const MIN_SHARE: u32 = 5;

/// A bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) member: Option<PortId>,
    /// Bytes sent, those of earlier intervals halved each time.
    pub(super) load: u64,
}

/// The buckets of a bond.
pub(super) type Buckets = [Bucket; BUCKETS];

/// Gives the buckets of members that are not `enabled` to others, and then idle buckets to members with fewer. Buckets
/// with load stay, so that flows keep their order.
pub(super) fn assign(buckets: &mut Buckets, enabled: &[PortId]) {
    for bucket in buckets.iter_mut() {
        bucket.member = bucket.member.filter(|member| enabled.contains(member));
    }
    while let Some(orphan) = buckets.iter().position(|bucket| bucket.member.is_none()) {
        let Some((fewest, _)) = extremes(buckets, enabled) else { return };
        buckets[orphan].member = Some(fewest);
    }
    while let Some((fewest, most)) = extremes(buckets, enabled)
        && count(buckets, most) > count(buckets, fewest) + 1
        && let Some(idle) = buckets.iter_mut().find(|b| b.member == Some(most) && b.load == 0)
    {
        idle.member = Some(fewest);
    }
}

/// The members with the fewest and the most buckets.
fn extremes(buckets: &Buckets, enabled: &[PortId]) -> Option<(PortId, PortId)> {
    let number = |member: &&PortId| count(buckets, **member);
    Some((*enabled.iter().min_by_key(number)?, *enabled.iter().rev().max_by_key(number)?))
}

pub(super) fn count(buckets: &Buckets, member: PortId) -> usize {
    buckets.iter().filter(|bucket| bucket.member == Some(member)).count()
}

pub(super) fn load(buckets: &Buckets, member: PortId) -> u64 {
    let own = buckets.iter().filter(|bucket| bucket.member == Some(member));
    own.map(|bucket| bucket.load).sum()
}

/// Moves buckets from the members with the most load to that with the least, each at most once, as long as this brings
/// both notably nearer to their mean. Then halves all loads, so that the past counts less. Returns the number of
/// buckets that were moved.
pub(super) fn rebalance(buckets: &mut Buckets, enabled: &[PortId]) -> usize {
    let mut members: Vec<(u64, PortId)> =
        enabled.iter().map(|member| (load(buckets, *member), *member)).collect();
    let mut is_moved = [false; BUCKETS];
    while members.len() > 1 {
        members.sort_unstable();
        let (least, most) = (members[0], members[members.len() - 1]);
        let overload = most.0 - least.0;
        if overload < least.0 >> MIN_SHARE || overload < MIN_OVERLOAD {
            break;
        }
        let candidates = (0..BUCKETS).filter(|i| !is_moved[*i] && buckets[*i].member == Some(most.1));
        let Some(bucket) = to_move(buckets, candidates, most.0, least.0) else {
            members.pop();
            continue;
        };
        is_moved[bucket] = true;
        buckets[bucket].member = Some(least.1);
        members[0].0 += buckets[bucket].load;
        if let Some(last) = members.last_mut() {
            last.0 -= buckets[bucket].load;
        }
    }
    for bucket in buckets.iter_mut() {
        bucket.load /= 2;
    }
    is_moved.iter().filter(|moved| **moved).count()
}

/// A bucket whose move from a member with load `most` to one with load `least` raises the lower of both loads by at
/// least a tenth of its distance to their mean.
fn to_move(
    buckets: &Buckets,
    candidates: impl Iterator<Item = usize>,
    most: u64,
    least: u64,
) -> Option<usize> {
    let loaded: Vec<usize> = candidates.filter(|i| buckets[*i].load > 0).collect();
    let helps = |i: &usize| {
        let load = buckets[*i].load;
        let lower = (most - load).min(least + load);
        lower > least && lower - least >= (most.midpoint(least) - least) / 10
    };
    // A single bucket would only exchange the two members.
    if loaded.len() > 1 { loaded.into_iter().find(helps) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MEMBERS: [PortId; 3] = [PortId(4), PortId(5), PortId(6)];

    fn counts(buckets: &Buckets) -> [usize; 3] {
        MEMBERS.map(|member| count(buckets, member))
    }

    #[test]
    fn buckets_of_failed_members_move_and_return_only_if_idle() {
        let mut buckets = [Bucket::default(); BUCKETS];
        assign(&mut buckets, &MEMBERS[..2]);
        assert_eq!(counts(&buckets), [128, 128, 0]);
        assign(&mut buckets, &MEMBERS[1..2]);
        assert_eq!(counts(&buckets), [0, 256, 0]);
        buckets.iter_mut().take(200).for_each(|bucket| bucket.load = 1);
        assign(&mut buckets, &MEMBERS);
        assert_eq!(counts(&buckets), [28, 200, 28]);
        assign(&mut buckets, &[]);
        assert_eq!(counts(&buckets), [0, 0, 0]);
    }

    #[test]
    fn load_moves_to_the_member_with_less() {
        let mut buckets = [Bucket::default(); BUCKETS];
        assign(&mut buckets, &MEMBERS[..2]);
        // All load is on one of both.
        let own: Vec<usize> = (0..BUCKETS).filter(|i| buckets[*i].member == Some(MEMBERS[0])).collect();
        own.iter().take(10).for_each(|i| buckets[*i].load = 1_000_000);
        assert_eq!(rebalance(&mut buckets, &MEMBERS[..2]), 5);
        assert_eq!([0, 1].map(|i| load(&buckets, MEMBERS[i])), [2_500_000; 2], "loads are halved");
        assert_eq!(rebalance(&mut buckets, &MEMBERS[..2]), 0);
        let mut one = [Bucket::default(); BUCKETS];
        assign(&mut one, &MEMBERS[..2]);
        one[0].load = 1_000_000;
        assert_eq!(rebalance(&mut one, &MEMBERS[..2]), 0, "one bucket would only change its place");
    }

    proptest! {
        #[test]
        fn rebalancing_never_raises_the_highest_load(
            loads in prop::collection::vec(0u64..10_000_000, BUCKETS),
            places in prop::collection::vec(0usize..3, BUCKETS),
        ) {
            let mut buckets = [Bucket::default(); BUCKETS];
            for (i, bucket) in buckets.iter_mut().enumerate() {
                *bucket = Bucket { member: Some(MEMBERS[places[i]]), load: loads[i] };
            }
            let most = |buckets: &Buckets| MEMBERS.map(|member| load(buckets, member)).into_iter().max();
            let before = most(&buckets);
            rebalance(&mut buckets, &MEMBERS);
            buckets.iter_mut().zip(loads).for_each(|(bucket, load)| bucket.load = load);
            prop_assert!(most(&buckets) <= before);
        }
    }
}
