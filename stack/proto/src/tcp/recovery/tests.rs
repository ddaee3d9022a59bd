//! Properties of recovery over random networks.

use super::model::{Conditions, Transfer};
use super::*;
use crate::tcp::CongestionAlgorithm::{self, Bbr, Cubic, NewReno};
use proptest::prelude::*;
use std::prelude::v1::*;

mod steps;

fn algorithm() -> impl Strategy<Value = CongestionAlgorithm> {
    prop_oneof![Just(NewReno), Just(Cubic), Just(Bbr)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_over_any_network(
        algorithm in algorithm(),
        seed in any::<u64>(),
        mss in 88_u16..9_000,
        burst in 1_u32..45,
        delay in 1_u64..100_000,
        jitter in prop_oneof![Just(0), 1_u64..50_000],
        loss in prop_oneof![Just(0), 1_u64..300],
        duplication in prop_oneof![Just(0), 1_u64..300],
        sack: bool,
        timestamps: bool,
        segments in prop_oneof![Just(1_000), 1_u32..20],
        rate in prop_oneof![Just(0), 50_000_u64..100_000_000],
        marked: bool,
        outage in prop_oneof![Just((0, 0)), (1_000_000_u64..1_500_000, 1_500_000_u64..4_000_000)],
    ) {
        let (bytes, window) = (u32::from(mss) * 200 + 7, u32::from(mss) * segments);
        let queue = u64::from(mss) * 30;
        let mark = if marked { queue / 3 } else { 0 };
        let conditions = Conditions {
            algorithm, seed, bytes, mss, burst, delay, jitter, loss, duplication, rate, queue, mark, outage, sack,
            timestamps, window,
        };
        Transfer::new(conditions).run();
    }

    /// Without reordering and timeouts, only lost data and probes are sent again.
    #[test]
    fn nothing_is_retransmitted_in_vain(
        algorithm in algorithm(),
        seed in any::<u64>(),
        burst in 1_u32..45,
        delay in 1_000_u64..100_000,
        loss in 0_u64..100,
        rate in prop_oneof![Just(0), 1_000_000_u64..100_000_000],
        timestamps: bool,
    ) {
        let (bytes, queue) = (400_000, 50_000);
        let conditions = Conditions {
            algorithm, seed, bytes, burst, delay, loss, rate, queue, timestamps, ..Conditions::default()
        };
        let mut transfer = Transfer::new(conditions);
        transfer.run();
        if transfer.timeouts == 0 {
            let segments = transfer.retransmitted.div_ceil(1_000);
            let missing = u64::from(transfer.dropped + transfer.probes);
            // Lost acknowledgements can hide a range that no later one reports.
            prop_assert!(segments <= missing + 2, "{segments} {missing}");
        }
    }
}

#[test]
fn one_loss_is_repaired_without_timeout() {
    for sack in [true, false] {
        let mut transfer = Transfer::new(Conditions { sack, ..Conditions::default() });
        transfer.drops = Vec::from([30]);
        transfer.run();
        assert_eq!((transfer.timeouts, transfer.retransmitted), (0, 1_000), "SACK {sack}");
    }
}

#[test]
fn lost_tail_is_repaired_by_a_probe() {
    let mut transfer = Transfer::new(Conditions { bytes: 30_000, burst: 1, ..Conditions::default() });
    transfer.drops = Vec::from([29, 30]);
    transfer.run();
    assert_eq!((transfer.timeouts, transfer.probes), (0, 1));
    assert_eq!(transfer.retransmitted, 2_000);
}
