use super::*;
use proptest::prelude::*;

/// 8 Mbit/s is a byte per microsecond.
const BYTE_PER_US: u64 = 8_000_000;
const US: u64 = 1_000;

fn single(cbs: u64, ebs: u64) -> Meter {
    Meter::new(Rates::SingleRate { cir: BYTE_PER_US, cbs, ebs })
}

fn two(cbs: u64, pbs: u64) -> Meter {
    Meter::new(Rates::TwoRate { cir: BYTE_PER_US, cbs, pir: 2 * BYTE_PER_US, pbs })
}

fn colours(meter: &mut Meter, lens: &[usize], before: Colour) -> Vec<Colour> {
    lens.iter().map(|&len| meter.colour(len, before)).collect()
}

#[test]
fn single_rate_fills_the_committed_bucket_first() {
    use Colour::*;
    let mut meter = single(1000, 500);
    assert_eq!(colours(&mut meter, &[600, 400, 300, 201, 200], Green), [Green, Green, Yellow, Red, Yellow]);
    meter.advance(1200 * US);
    assert_eq!(colours(&mut meter, &[1000, 201, 200], Green), [Green, Red, Yellow], "200 bytes overflowed");
    meter.advance(1100 * US);
    assert_eq!(meter.colour(1, Green), Red, "an earlier time adds nothing");
}

#[test]
fn two_rates_fill_both_buckets() {
    use Colour::*;
    let mut meter = two(1000, 1500);
    assert_eq!(colours(&mut meter, &[1000, 400, 101, 100], Green), [Green, Yellow, Red, Yellow]);
    meter.advance(100 * US);
    assert_eq!(colours(&mut meter, &[100, 100, 1], Green), [Green, Yellow, Red]);
}

#[test]
fn aware_meters_never_improve_a_colour() {
    use Colour::*;
    for meter in [single(1000, 500), two(1000, 1000)] {
        for (before, expected) in [(Green, Green), (Yellow, Yellow), (Red, Red)] {
            assert_eq!(meter.clone().colour(100, before), expected);
        }
    }
    let mut meter = two(1000, 1000);
    assert_eq!(colours(&mut meter, &[500, 500], Yellow), [Yellow, Yellow]);
    assert_eq!(meter.colour(1, Green), Red, "yellow packets used the peak bucket");
    let mut meter = single(1000, 500);
    assert_eq!(colours(&mut meter, &[500, 1], Yellow), [Yellow, Red]);
    assert_eq!(meter.colour(1000, Green), Green, "yellow packets did not use the committed bucket");
}

fn kinds() -> impl Strategy<Value = Rates> {
    let (rate, burst) = (8u64..100_000_000_000, 1500u64..200_000);
    (any::<bool>(), rate.clone(), rate, burst.clone(), burst).prop_map(|(single, a, b, cbs, other)| {
        if single {
            Rates::SingleRate { cir: a, cbs, ebs: other }
        } else {
            Rates::TwoRate { cir: a.min(b), cbs, pir: a.max(b), pbs: other }
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In every interval from the first packet on, green bytes are at most CIR and CBS, and green and yellow bytes at
    /// most what both buckets allow; green packets are refused only if the committed bucket is exhausted.
    #[test]
    fn bytes_conform_to_rates_and_bursts(
        rates in kinds(), packets in prop::collection::vec((0u64..2_000_000, 1usize..1515), 1..400),
    ) {
        let mut meter = Meter::new(rates);
        let (mut now, mut green, mut passed) = (0u64, 0u128, 0u128);
        for (gap, len) in packets {
            now += gap;
            meter.advance(now);
            let colour = meter.colour(len, Colour::Green);
            green += if colour == Colour::Green { len as u128 * TOKEN } else { 0 };
            passed += if colour == Colour::Red { 0 } else { len as u128 * TOKEN };
            let earned = |rate: u64, burst: u64| u128::from(burst) * TOKEN + u128::from(now) * u128::from(rate);
            match rates {
                Rates::SingleRate { cir, cbs, ebs } => {
                    prop_assert!(green <= earned(cir, cbs));
                    prop_assert!(passed <= earned(cir, cbs + ebs));
                }
                Rates::TwoRate { cir, cbs, pir, pbs } => {
                    prop_assert!(green <= earned(cir, cbs));
                    prop_assert!(passed <= earned(pir, pbs));
                }
            }
        }
    }

    /// A saturating sender gets the committed rate up to two packets: the full bucket loses what is earned before the
    /// first one, and the last one may be refused.
    #[test]
    fn a_saturating_sender_gets_the_committed_rate(rate in 1_000_000u64..40_000_000_000, len in 60usize..1515) {
        let mut meter = Meter::new(Rates::SingleRate { cir: rate, cbs: 200_000, ebs: 0 });
        let (mut green, step) = (0u128, len as u64 * 8 * 1_000_000_000 / rate / 3 + 1);
        let mut now = 0;
        for _ in 0..20_000 {
            now += step;
            meter.advance(now);
            green += if meter.colour(len, Colour::Green) == Colour::Green { len as u128 * TOKEN } else { 0 };
        }
        let sent = 20_000 * len as u128 * TOKEN;
        let allowed = 200_000 * TOKEN + u128::from(now) * u128::from(rate);
        prop_assert!(green + 2 * len as u128 * TOKEN >= allowed.min(sent));
    }
}
