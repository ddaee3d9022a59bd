//! Flows of the frames that a guest returns: pairs of UDP ports, in a fixed order.

use fastrand::Rng;
use rand::SeedableRng;
use rand::distr::Distribution;
use rand::rngs::SmallRng;
use rand_distr::Zipf;
use std::sync::Arc;

/// Frames until the order of flows repeats, if they are not uniform.
const SAMPLES: usize = 1 << 20;
const SEED: u64 = 1;

/// Flows in the order of their frames. Flow `n` has UDP source port `n % 65536` and destination port `n / 65536 + 1`.
#[derive(Clone, Debug)]
pub struct Flows {
    /// Source and destination port as they are in the frame, as the bytes of a little-endian number.
    ports: Arc<[u32]>,
}

impl Flows {
    /// `count` flows, of which each has a frame before one has a second.
    pub fn uniform(count: u32) -> Self {
        let mut flows: Vec<_> = (0..count.max(1)).collect();
        Rng::with_seed(SEED).shuffle(&mut flows);
        Self { ports: flows.into_iter().map(ports).collect() }
    }

    /// `count` flows whose shares of the frames are those of Zipf's law with this exponent. Returns `None` if the
    /// exponent is not a positive number.
    pub fn zipf(count: u32, exponent: f64) -> Option<Self> {
        let zipf = Zipf::new(f64::from(count.max(1)), exponent).ok().filter(|_| exponent > 0.0)?;
        let mut rng = SmallRng::seed_from_u64(SEED);
        let next = |_| ports((zipf.sample(&mut rng) as u32).clamp(1, count.max(1)) - 1);
        Some(Self { ports: (0..SAMPLES).map(next).collect() })
    }

    /// The ports of frame number `n`.
    #[inline]
    pub(super) fn nth(&self, n: usize) -> u32 {
        self.ports[n]
    }

    /// The number of the frame after number `n`.
    #[inline]
    pub(super) fn after(&self, n: usize) -> usize {
        if n + 1 < self.ports.len() { n + 1 } else { 0 }
    }
}

fn ports(flow: u32) -> u32 {
    let (source, destination) = (flow as u16, (flow >> 16) as u16 + 1);
    u32::from(source.to_be()) | u32::from(destination.to_be()) << 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn counts(flows: &Flows) -> BTreeMap<u32, usize> {
        flows.ports.iter().fold(BTreeMap::new(), |mut all, ports| {
            *all.entry(*ports).or_default() += 1;
            all
        })
    }

    #[test]
    fn uniform_flows_have_one_frame_each_until_the_order_repeats() {
        let flows = Flows::uniform(70_000);
        assert_eq!(counts(&flows).len(), 70_000);
        assert!(flows.ports.contains(&u32::from_le_bytes([0, 5, 0, 2])), "flow 65541");
        assert_eq!((flows.after(0), flows.after(69_999)), (1, 0));
    }

    #[test]
    fn shares_of_flows_follow_zipfs_law() {
        let flows = Flows::zipf(100, 1.1).unwrap();
        let counts = counts(&flows);
        let share = |n| counts[&ports(n)] as f64 / SAMPLES as f64;
        let whole: f64 = (1..=100).map(|n| f64::from(n).powf(-1.1)).sum();
        assert!((share(0) - 1.0 / whole).abs() < 0.01, "{}", share(0));
        assert!((share(9) - 10_f64.powf(-1.1) / whole).abs() < 0.01, "{}", share(9));
        assert!(Flows::zipf(100, -1.0).is_none());
    }
}
