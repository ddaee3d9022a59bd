//! Clock for timing: the processor's time-stamp counter, calibrated against the system clock, or the system clock
//! itself if the counter does not run at a constant rate.

use std::sync::OnceLock;
use std::time::Instant;

use super::processor::Processor;

/// A source of ticks.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Counter rate in ticks per second; if `None`, ticks are nanoseconds since `began`.
    counter: Option<f64>,
    began: Instant,
}

impl Clock {
    /// Uses the time-stamp counter if it has a constant rate (`constant_tsc` and `nonstop_tsc`), else the system clock.
    /// The first call of a process reads that and compares the counter with the system clock.
    pub fn calibrated() -> Clock {
        static COUNTER: OnceLock<Option<f64>> = OnceLock::new();
        let rate = || {
            let processor = Processor::here();
            let steady = processor.has("constant_tsc") && processor.has("nonstop_tsc");
            steady.then(mem::ticks_per_second)
        };
        Clock { counter: *COUNTER.get_or_init(rate), began: Instant::now() }
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
