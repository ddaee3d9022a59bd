//! How ticks become seconds: the processor's time-stamp counter, measured against the system's clock, or that clock
//! itself where the counter does not keep one rate.

use std::time::{Duration, Instant};

use super::processor::Processor;

/// How long the counter is compared with the clock, how often.
const COMPARED: (Duration, usize) = (Duration::from_millis(20), 5);

/// A source of ticks.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Ticks a second of the counter; without it ticks are nanoseconds since this moment.
    counter: Option<f64>,
    began: Instant,
}

impl Clock {
    /// The counter, if it keeps one rate whatever the core does.
    pub fn calibrated(processor: &Processor) -> Clock {
        let steady = processor.has("constant_tsc") && processor.has("nonstop_tsc");
        Clock { counter: steady.then(rate), began: Instant::now() }
    }

    /// Now.
    #[inline(always)]
    pub fn ticks(&self) -> u64 {
        match self.counter {
            Some(_) => mem::ticks(),
            None => self.began.elapsed().as_nanos() as u64,
        }
    }

    /// From one tick to a later one.
    pub fn seconds(&self, from: u64, to: u64) -> f64 {
        to.saturating_sub(from) as f64 / self.counter.unwrap_or(1e9)
    }

    /// What it is.
    pub fn name(&self) -> String {
        match self.counter {
            Some(rate) => format!("time-stamp counter at {:.1} MHz", rate / 1e6),
            None => "the system's monotonic clock".to_owned(),
        }
    }
}

/// Ticks a second: the median of a few comparisons, because any of them may be interrupted.
fn rate() -> f64 {
    let (length, times) = COMPARED;
    let mut rates: Vec<f64> = (0..times).map(|_| once(length)).collect();
    rates.sort_by(f64::total_cmp);
    rates[times / 2]
}

fn once(length: Duration) -> f64 {
    let (began, from) = (Instant::now(), mem::ticks());
    while began.elapsed() < length {
        std::hint::spin_loop();
    }
    let (took, to) = (began.elapsed(), mem::ticks());
    to.wrapping_sub(from) as f64 / took.as_secs_f64()
}
