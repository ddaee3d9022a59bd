//! Events over time with bounded memory: when the intervals are used up, pairs of them become one.

use super::results::{Point, Series, pairs};
use stack::Time;

/// Most intervals.
const POINTS: usize = 512;
/// First length of an interval in nanoseconds.
const INTERVAL: u64 = 10_000_000;

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Reply,
    Connect,
    Failure,
}

/// Events by interval.
#[derive(Debug)]
pub(super) struct Recorder {
    start: Time,
    interval: u64,
    points: Vec<Point>,
}

impl Recorder {
    pub(super) fn new(start: Time) -> Self {
        Self { start, interval: INTERVAL, points: Vec::with_capacity(POINTS) }
    }

    pub(super) const fn start(&self) -> Time {
        self.start
    }

    #[inline]
    pub(super) fn record(&mut self, kind: Kind, now: Time) {
        let mut at = (now.0.saturating_sub(self.start.0) / self.interval) as usize;
        while at >= POINTS {
            self.merge();
            at /= 2;
        }
        if at >= self.points.len() {
            self.points.resize(at + 1, Point::default());
        }
        let Some(point) = self.points.get_mut(at) else { return };
        match kind {
            Kind::Reply => point.replies += 1,
            Kind::Connect => point.connects += 1,
            Kind::Failure => point.failures += 1,
        }
    }

    #[cold]
    fn merge(&mut self) {
        self.interval *= 2;
        self.points = pairs(&self.points);
    }

    /// The series, with the window of the rounds.
    pub(super) fn finish(&self, window: Option<(Time, Time)>) -> Series {
        let seconds = |time: Time| time.0.saturating_sub(self.start.0) as f64 / 1e9;
        Series {
            interval: self.interval as f64 / 1e9,
            points: self.points.clone(),
            begin: window.map(|(begin, _)| seconds(begin)),
            end: window.map(|(_, end)| seconds(end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_have_longer_intervals_and_the_same_sums() {
        let mut recorder = Recorder::new(Time(1_000));
        // Ten minutes, one event each millisecond.
        (0..600_000_u64).for_each(|n| recorder.record(Kind::Reply, Time(1_000 + n * 1_000_000)));
        recorder.record(Kind::Failure, Time(0));
        let series = recorder.finish(Some((Time(1_000_001_000), Time(2_000_001_000))));
        assert!(series.points.len() <= POINTS && series.points.len() > POINTS / 4);
        assert_eq!(series.points.iter().map(|point| point.replies).sum::<u64>(), 600_000);
        assert_eq!((series.points[0].failures, series.begin, series.end), (1, Some(1.0), Some(2.0)));
        // Each interval but the last has the rate of the events.
        let each = (series.interval * 1_000.0) as u64;
        assert!(series.points.iter().rev().skip(1).all(|point| point.replies == each));
    }
}
