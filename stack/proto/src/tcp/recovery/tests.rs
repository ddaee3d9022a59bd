//! Properties of recovery over random networks.

use super::model::{Conditions, Transfer};
use crate::tcp::CongestionAlgorithm::{self, Cubic, NewReno};
use proptest::prelude::*;
use std::prelude::v1::*;

fn algorithm() -> impl Strategy<Value = CongestionAlgorithm> {
    prop_oneof![Just(NewReno), Just(Cubic)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

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
    ) {
        let bytes = u32::from(mss) * 200 + 7;
        let conditions = Conditions {
            algorithm, seed, bytes, mss, burst, delay, jitter, loss, duplication, sack, timestamps,
            ..Conditions::default()
        };
        Transfer::new(conditions).run();
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
