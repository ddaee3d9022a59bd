//! Due times of frames: constant, in bursts, or a Poisson process.
//!
//! The sender queries the number of frames due now and sends that many. Due times depend only on start and rate, so a
//! late query does not delay later frames. Frames more than [`Schedule::catch_up`] behind are dropped and counted as
//! missed, because sending them at once would be a different load from the requested one. A schedule reads no clock:
//! times are arguments in nanoseconds and must not decrease. A query takes bounded time at any rate: of the Poisson
//! arrivals since the last query, only the latest are drawn individually; the number of earlier ones is one draw.

use fastrand::Rng;
use std::collections::VecDeque;

/// Number of Poisson arrivals drawn per query, typical and maximum.
const DRAWN: f64 = 256.0;
const MAX_DRAWN: usize = 1024;
/// Number of pending frames whose arrival times are stored.
const DATED: usize = 16_384;

/// Distribution of frames over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// One at a time, at equal intervals.
    #[default]
    Constant,
    /// Bursts of this many frames, at equal intervals.
    Burst(u32),
    /// Exponentially distributed intervals, from this seed.
    Poisson(u64),
}

impl Pace {
    /// Pace and start offset in nanoseconds of stream `i` of `n` at `rate` frames per second; offsets keep streams of
    /// equal rate from sending at the same times.
    pub fn of(self, i: usize, n: usize, rate: Option<f64>) -> (Self, u64) {
        let frames = if let Pace::Burst(frames) = self { f64::from(frames.max(1)) } else { 1.0 };
        let period = rate.map_or(0.0, |rate| frames * 1e9 / rate);
        let later = (period * i as f64 / n.max(1) as f64) as u64;
        match self {
            Pace::Poisson(seed) if i > 0 => {
                (Pace::Poisson(Rng::with_seed(seed.wrapping_add(i as u64)).u64(..)), later)
            }
            pace => (pace, later),
        }
    }
}

/// Frames due now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Number of frames to send.
    pub frames: usize,
    /// Frames dropped since the last query.
    pub missed: u64,
}

/// Requested and achieved pacing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pacing {
    /// Frames due until the last query.
    pub asked: u64,
    /// Frames released for sending.
    pub done: u64,
    /// Frames dropped.
    pub missed: u64,
    /// Maximum delay from due time to release, in nanoseconds.
    pub latest: u64,
}

impl Pacing {
    /// Fraction of the due frames that were not released, 0 to 1.
    pub fn error(&self) -> f64 {
        if self.asked == 0 { 0.0 } else { 1.0 - self.done as f64 / self.asked as f64 }
    }
}

/// The schedule of one stream.
#[derive(Debug)]
pub struct Schedule {
    /// Frames per nanosecond; `None`: unlimited.
    rate: Option<f64>,
    pace: Pace,
    start: u64,
    /// Frames due so far, released or dropped.
    released: u64,
    missed: u64,
    latest: u64,
    catch_up: u64,
    /// Poisson: time of the next arrival in nanoseconds since the start, and the generator of later ones.
    next: f64,
    chance: Rng,
    /// Poisson: arrival times of pending frames, oldest first; at most `catch_up`.
    came: VecDeque<f64>,
    /// Poisson: number of pending frames that arrived before these, without stored times.
    undated: u64,
}

impl Schedule {
    /// A schedule of `frames` per second (`None`: unlimited) from `start` on that releases at most `catch_up` frames
    /// (at least one burst) at once.
    pub fn new(frames: Option<f64>, pace: Pace, start: u64, catch_up: u64) -> Self {
        let (seed, burst) = match pace {
            Pace::Poisson(seed) => (seed, 1),
            Pace::Burst(frames) => (0, u64::from(frames.max(1))),
            Pace::Constant => (0, 1),
        };
        let mut schedule = Self {
            rate: frames.map(|frames| frames / 1e9),
            pace,
            start,
            released: 0,
            missed: 0,
            latest: 0,
            catch_up: catch_up.max(burst),
            next: 0.0,
            chance: Rng::with_seed(seed),
            came: VecDeque::new(),
            undated: 0,
        };
        schedule.next = schedule.distance();
        schedule
    }

    /// Maximum number of frames released at once.
    pub fn catch_up(&self) -> u64 {
        self.catch_up
    }

    /// Number of frames to send now, at most `room`. Frames beyond `room` stay due.
    #[inline]
    pub fn due(&mut self, now: u64, room: usize) -> Due {
        let Some(rate) = self.rate else {
            self.released += room as u64;
            return Due { frames: room, missed: 0 };
        };
        let passed = now.saturating_sub(self.start) as f64;
        let behind = self.behind(passed, rate);
        if behind == 0 || room == 0 {
            return Due::default();
        }
        let missed = behind.saturating_sub(self.catch_up);
        if missed > 0 {
            self.advance(missed);
            self.missed += missed;
        }
        self.latest = self.latest.max((passed - self.first_due(rate)).max(0.0) as u64);
        let frames = (behind - missed).min(room as u64);
        self.advance(frames);
        Due { frames: frames as usize, missed }
    }

    /// Ends the schedule: drops frames due before `end`. Returns their number.
    pub fn finish(&mut self, end: u64) -> u64 {
        let passed = end.checked_sub(self.start + 1);
        let behind = self.rate.zip(passed).map_or(0, |(rate, passed)| self.behind(passed as f64, rate));
        self.advance(behind);
        self.missed += behind;
        behind
    }

    /// Frames due and not released.
    #[inline]
    fn behind(&mut self, passed: f64, rate: f64) -> u64 {
        match self.pace {
            // The first frame is due at the start.
            Pace::Constant => ((passed * rate + 1.0) as u64).saturating_sub(self.released),
            Pace::Burst(frames) => {
                let frames = u64::from(frames.max(1));
                (((passed * rate) as u64 / frames + 1) * frames).saturating_sub(self.released)
            }
            Pace::Poisson(_) => self.arrived(passed, rate),
        }
    }

    /// Poisson: number of pending frames at this time.
    fn arrived(&mut self, passed: f64, rate: f64) -> u64 {
        self.skip(passed, rate);
        let dated = DATED.min(self.catch_up as usize);
        for _ in 0..MAX_DRAWN {
            if self.next > passed {
                break;
            }
            if self.came.len() == dated {
                self.came.pop_front();
                self.undated += 1;
            }
            self.came.push_back(self.next);
            self.next += self.distance();
        }
        self.undated + self.came.len() as u64
    }

    /// Poisson: skips arrivals that are too many to draw individually. Their number in a given time is Poisson
    /// distributed, for large means approximately normal with variance equal to the mean; later arrivals are
    /// independent of it.
    fn skip(&mut self, passed: f64, rate: f64) {
        let mean = (passed - self.next) * rate - DRAWN;
        if mean < DRAWN {
            return;
        }
        let number = (mean + mean.sqrt() * self.normal()).round().max(0.0) as u64;
        // The arrival that was next has occurred as well, before all of these.
        self.undated += self.came.len() as u64 + 1 + number;
        self.came.clear();
        self.next += mean / rate + self.distance();
    }

    /// A standard normal random number (Box-Muller).
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (1.0 - self.chance.f64(), self.chance.f64() * std::f64::consts::TAU);
        (-2.0 * radius.ln()).sqrt() * angle.cos()
    }

    /// Due time of the first pending frame, in nanoseconds since the start.
    #[inline]
    fn first_due(&self, rate: f64) -> f64 {
        match self.pace {
            Pace::Constant => self.released as f64 / rate,
            Pace::Burst(frames) => {
                let frames = u64::from(frames.max(1));
                (self.released / frames * frames) as f64 / rate
            }
            Pace::Poisson(_) => self.came.front().copied().unwrap_or(self.next) - self.undated as f64 / rate,
        }
    }

    /// Marks frames as released or dropped.
    #[inline]
    fn advance(&mut self, frames: u64) {
        self.released += frames;
        if matches!(self.pace, Pace::Poisson(_)) {
            let forgotten = frames.min(self.undated);
            self.undated -= forgotten;
            self.came.drain(..(frames - forgotten) as usize);
        }
    }

    /// The next interval of the Poisson process, in nanoseconds.
    fn distance(&mut self) -> f64 {
        // In (0, 1], so that the logarithm is finite.
        let chance = 1.0 - self.chance.f64();
        self.rate.map_or(0.0, |rate| -chance.ln() / rate)
    }

    /// Requested and achieved pacing up to the last query.
    pub fn pacing(&self) -> Pacing {
        let done = self.released - self.missed;
        Pacing { asked: self.released, done, missed: self.missed, latest: self.latest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Releases all due frames at each of these times.
    fn sent(schedule: &mut Schedule, times: impl IntoIterator<Item = u64>) -> Vec<usize> {
        times.into_iter().map(|now| schedule.due(now, usize::MAX).frames).collect()
    }

    #[test]
    fn constant_rate_is_independent_of_query_interval() {
        // One frame per microsecond, from a start that is not zero.
        let mut schedule = Schedule::new(Some(1e6), Pace::Constant, 500, 64);
        assert_eq!(sent(&mut schedule, [0, 500, 1_499, 1_500, 4_600, 4_600]), [1, 0, 0, 1, 3, 0]);
        assert_eq!(schedule.pacing(), Pacing { asked: 5, done: 5, missed: 0, latest: 2_100 });
    }

    #[test]
    fn bursts_are_complete_at_the_mean_rate() {
        let mut schedule = Schedule::new(Some(1e6), Pace::Burst(10), 0, 1);
        assert_eq!(schedule.catch_up(), 10);
        assert_eq!(sent(&mut schedule, [0, 9_999, 10_000, 19_000, 20_001]), [10, 0, 10, 0, 10]);
        let short = Schedule::new(Some(1e6), Pace::Burst(10), 0, 1).due(0, 4);
        assert_eq!(short, Due { frames: 4, missed: 0 });
    }

    #[test]
    fn streams_of_equal_rate_are_staggered() {
        assert_eq!(Pace::Constant.of(1, 4, Some(1e6)), (Pace::Constant, 250));
        assert_eq!(Pace::Burst(10).of(1, 2, Some(1e6)), (Pace::Burst(10), 5_000));
        assert_eq!(Pace::Constant.of(3, 4, None), (Pace::Constant, 0));
        assert_eq!(Pace::Poisson(7).of(0, 2, Some(1e6)), (Pace::Poisson(7), 0));
        let (first, second) = (Pace::Poisson(7).of(1, 3, Some(1e6)), Pace::Poisson(7).of(2, 3, Some(1e6)));
        assert_eq!(first, Pace::Poisson(7).of(1, 3, Some(1e6)));
        assert!(first.0 != Pace::Poisson(7) && first.0 != second.0, "{first:?} {second:?}");
    }

    #[test]
    fn late_frames_are_skipped_and_counted() {
        let mut schedule = Schedule::new(Some(1e6), Pace::Constant, 0, 8);
        assert_eq!(schedule.due(99_000, usize::MAX), Due { frames: 8, missed: 92 });
        let pacing = schedule.pacing();
        assert_eq!((pacing.asked, pacing.done, pacing.missed), (100, 8, 92));
        assert!((pacing.error() - 0.92).abs() < 1e-12);
    }

    #[test]
    fn frames_due_at_the_end_count_as_missed() {
        for pace in [Pace::Constant, Pace::Burst(10)] {
            let mut schedule = Schedule::new(Some(1e6), pace, 500, 1_000);
            assert_eq!(schedule.due(90_500, 64).frames, 64);
            // 100 frames in 100 us; the next is due at their end.
            assert_eq!(schedule.finish(100_500), 36, "{pace:?}");
            let pacing = schedule.pacing();
            assert_eq!((pacing.asked, pacing.done, pacing.missed), (100, 64, 36), "{pace:?}");
        }
        assert_eq!(Schedule::new(None, Pace::Constant, 0, 64).finish(1_000), 0);
        assert_eq!(Schedule::new(Some(1e6), Pace::Constant, 500, 64).finish(500), 0);
    }

    #[test]
    fn unlimited_rate_fills_the_request() {
        let mut schedule = Schedule::new(None, Pace::Constant, 0, 8);
        assert_eq!(schedule.due(5, 64), Due { frames: 64, missed: 0 });
        assert!(schedule.pacing().error().abs() < 1e-12);
    }

    #[test]
    fn poisson_process_is_reproducible_with_its_mean_and_variance() {
        let made = |seed| {
            let mut schedule = Schedule::new(Some(1e6), Pace::Poisson(seed), 0, 10_000);
            sent(&mut schedule, (1..=20_000).map(|n| n * 1_000))
        };
        let first = made(1);
        assert_eq!(first, made(1));
        assert_ne!(first, made(2));
        // Frames per microsecond are Poisson with mean and variance 1; the mean of 20 000 deviates by 0.007.
        let mean = first.iter().sum::<usize>() as f64 / 20_000.0;
        let squares = first.iter().map(|&n| (n as f64 - mean).powi(2)).sum::<f64>();
        assert!((mean - 1.0).abs() < 0.04 && (squares / 20_000.0 - 1.0).abs() < 0.08, "{mean} {squares}");
    }

    #[test]
    fn overloaded_poisson_process_is_cheap_and_counts_all() {
        // 100 frames per nanosecond: drawn individually, one second would be 10^11 logarithms.
        let mut schedule = Schedule::new(Some(1e11), Pace::Poisson(1), 0, 100_000_000);
        let (mut done, mut missed) = (0, 0);
        for now in (0..=1_000_000_000).step_by(10_000_000) {
            let due = schedule.due(now, 64);
            (done, missed) = (done + due.frames as u64, missed + due.missed);
        }
        let pacing = schedule.pacing();
        assert_eq!((pacing.done, pacing.missed, pacing.asked), (done, missed, done + missed));
        assert!(schedule.came.len() <= DATED);
        // Pending frames are limited by `catch_up`; the number of 10^11 arrivals deviates by 10^6.
        let asked = (pacing.asked + schedule.undated + schedule.came.len() as u64) as f64;
        assert!((asked - 1e11).abs() < 1e7, "{asked}");
    }

    #[test]
    fn skipped_poisson_arrivals_keep_mean_and_variance() {
        let mut schedule = Schedule::new(Some(1e9), Pace::Poisson(3), 0, 1_000_000);
        let counts = sent(&mut schedule, (1..=4_000).map(|n| n * 2_000));
        let mean = counts.iter().sum::<usize>() as f64 / 4_000.0;
        let variance = counts.iter().map(|&n| (n as f64 - mean).powi(2)).sum::<f64>() / 4_000.0;
        // Mean and variance are 2000; over 4000 samples the mean deviates by 0.7 and the variance by 45.
        assert!((mean - 2_000.0).abs() < 4.0 && (variance - 2_000.0).abs() < 250.0, "{mean} {variance}");
    }

    proptest! {
        #[test]
        fn requested_equals_done_plus_missed(
            frames in 1e3..1e11f64, burst in 0..20u32, seed: u64, catch_up in 1..200u64, room in 1..100usize,
            steps in prop::collection::vec(0..20_000u64, 1..60),
        ) {
            for pace in [Pace::Constant, Pace::Burst(burst), Pace::Poisson(seed)] {
                let mut schedule = Schedule::new(Some(frames), pace, 0, catch_up);
                let (mut now, mut done, mut missed) = (0, 0, 0);
                for step in &steps {
                    now += step;
                    let due = schedule.due(now, room);
                    prop_assert!(due.frames <= room && due.frames as u64 <= schedule.catch_up());
                    done += due.frames as u64;
                    missed += due.missed;
                }
                let pacing = schedule.pacing();
                prop_assert_eq!((pacing.done, pacing.missed), (done, missed));
                prop_assert_eq!(pacing.asked, done + missed);
                if pace == Pace::Constant {
                    prop_assert!(pacing.asked as f64 <= now as f64 * frames / 1e9 + 1.0);
                }
            }
        }
    }
}
