//! Clock for timing: the processor's time-stamp counter, calibrated against the system clock, or the system clock
//! itself if the counter does not run at a constant rate.

use std::time::{Duration, Instant};

use super::processor::Processor;

/// Calibration: length of one comparison, number of comparisons.
const COMPARED: (Duration, usize) = (Duration::from_millis(20), 5);

/// A source of ticks.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Counter rate in ticks per second; if `None`, ticks are nanoseconds since `began`.
    counter: Option<f64>,
    began: Instant,
}

impl Clock {
    /// Uses the time-stamp counter if it has a constant rate (`constant_tsc` and `nonstop_tsc`), else the system clock.
    pub fn calibrated(processor: &Processor) -> Clock {
        let steady = processor.has("constant_tsc") && processor.has("nonstop_tsc");
        Clock { counter: steady.then(rate), began: Instant::now() }
    }

    /// Current tick count.
    #[inline(always)]
    pub fn ticks(&self) -> u64 {
        match self.counter {
            Some(_) => mem::ticks(),
            None => self.began.elapsed().as_nanos() as u64,
        }
    }

    /// Seconds between two tick counts.
    pub fn seconds(&self, from: u64, to: u64) -> f64 {
        to.saturating_sub(from) as f64 / self.counter.unwrap_or(1e9)
    }

    /// Name of the clock source, for results.
    pub fn name(&self) -> String {
        match self.counter {
            Some(rate) => format!("time-stamp counter at {:.1} MHz", rate / 1e6),
            None => "the system's monotonic clock".to_owned(),
        }
    }
}

/// Ticks per second: the median of several comparisons, because a comparison may be interrupted.
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
