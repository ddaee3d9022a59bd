//! The number of workers that receive new connections follows the load (TAS, `EuroSys` 2019).
//!
//! The workers from the first one on are active; the others receive no new connections. The first worker adds up the
//! time in which active workers had work, and activates or drains one at a time ([`Policy`]). A drained worker keeps
//! its connections, because a connection cannot move between stacks, and sleeps when it has nothing to do.
//!
//! Nothing here is on the path of a packet but loads of lines that change when the number of workers or a worker's
//! first or last connection does.

use mem::line::Padded;
use stack::Time;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

mod policy;

use crate::DistributorCounts;
use policy::Policy;

/// Which workers are active. Shared by all of them, and read by others.
#[derive(Debug)]
pub struct Activity {
    least: usize,
    interval: Option<Duration>,
    active: Padded<AtomicUsize>,
    workers: Box<[Padded<Own>]>,
}

/// Values that one worker writes.
#[derive(Debug, Default)]
struct Own {
    /// Nanoseconds in which it had work.
    busy: AtomicU64,
    /// Whether it has connections.
    holds: AtomicBool,
}

impl Activity {
    /// Default interval between two samples of the load: that of TAS.
    pub const INTERVAL: Duration = Duration::from_millis(10);

    /// Workers of which the first `range.start()` are always active, and the others by the load of each `interval`;
    /// with `None`, only [`Activity::set_active`] changes their number.
    pub fn new(range: RangeInclusive<usize>, interval: Option<Duration>) -> Self {
        let (least, most) = (*range.start().max(&1), *range.end());
        let workers = (0..most.max(least)).map(|_| Padded::default()).collect();
        Self { least, interval, active: Padded(AtomicUsize::new(least)), workers }
    }

    /// Number of active workers.
    #[inline]
    pub fn active(&self) -> usize {
        // Workers may see a change at different times: see `distributor::steer`.
        self.active.load(Ordering::Relaxed)
    }

    /// Sets the number of active workers, as far as the range permits. For callers without an interval.
    pub fn set_active(&self, count: usize) {
        self.active.store(count.clamp(self.least, self.workers.len()), Ordering::Relaxed);
    }

    /// The least and the greatest number of active workers.
    #[inline]
    pub(crate) fn range(&self) -> (usize, usize) {
        (self.least, self.workers.len())
    }

    /// Whether a worker has connections.
    #[inline]
    pub(crate) fn holds(&self, worker: usize) -> bool {
        // Stored before the first frame of a connection was sent, so it is visible when the answer arrives.
        self.workers.get(worker).is_some_and(|own| own.holds.load(Ordering::Relaxed))
    }
}

/// One worker's part.
#[derive(Debug)]
pub(crate) struct Meter {
    activity: Arc<Activity>,
    index: usize,
    busy: u64,
    /// Begin of the round with work that has not been counted.
    working: Option<Time>,
    holds: bool,
    /// Present on the first worker, if the load decides.
    sampler: Option<Sampler>,
}

/// Samples of all workers.
#[derive(Debug)]
struct Sampler {
    policy: Policy,
    interval: u64,
    sampled: Time,
    /// Busy time of each worker at the last sample.
    busy: Vec<u64>,
    added: u64,
    drained: u64,
}

impl Meter {
    pub(crate) fn new(activity: Arc<Activity>, index: usize, now: Time) -> Self {
        let interval = activity.interval.filter(|_| index == 0);
        let sampler = interval.map(|interval| Sampler {
            policy: Policy::new(activity.range()),
            interval: interval.as_nanos() as u64,
            sampled: now,
            busy: vec![0; activity.workers.len()],
            added: 0,
            drained: 0,
        });
        Self { activity, index, busy: 0, working: None, holds: false, sampler }
    }

    /// A round begins, which ends the one before.
    #[inline]
    pub(crate) fn begin(&mut self, now: Time) {
        if let Some(from) = self.working.take() {
            self.busy += now.0 - from.0;
        }
    }

    /// The round that began at `from` had work.
    #[inline]
    pub(crate) fn worked(&mut self, from: Time) {
        self.working = Some(from);
    }

    /// Reports whether the worker has connections. Must be called before the first frame of a new one is sent.
    #[inline]
    pub(crate) fn hold(&mut self, holds: bool) {
        if self.holds != holds {
            self.holds = holds;
            self.activity.workers[self.index].holds.store(holds, Ordering::Relaxed);
        }
    }

    /// Whether the worker is not active: it sleeps even if the workers are to poll.
    pub(crate) fn is_drained(&self) -> bool {
        self.index >= self.activity.active()
    }

    /// Publishes the busy time. On the first worker, changes the number of active ones if a sample is due.
    pub(crate) fn tick(&mut self, now: Time) {
        self.activity.workers[self.index].busy.store(self.busy, Ordering::Relaxed);
        if let Some(sampler) = &mut self.sampler
            && now.0 - sampler.sampled.0 >= sampler.interval
        {
            sampler.sample(&self.activity, now);
        }
    }

    pub(crate) fn counts(&self) -> DistributorCounts {
        let (added, drained) = self.sampler.as_ref().map_or((0, 0), |own| (own.added, own.drained));
        DistributorCounts {
            active: u64::from(!self.is_drained()),
            added,
            drained,
            ..DistributorCounts::default()
        }
    }
}

impl Sampler {
    fn sample(&mut self, activity: &Activity, now: Time) {
        let (active, elapsed) = (activity.active(), now.0 - self.sampled.0);
        self.sampled = now;
        let mut busy = 0;
        for (index, (last, own)) in self.busy.iter_mut().zip(&activity.workers).enumerate() {
            let total = own.busy.load(Ordering::Relaxed);
            if index < active {
                busy += (total - *last).min(elapsed);
            }
            *last = total;
        }
        let wanted = self.policy.sample(active, busy, elapsed);
        self.added += u64::from(wanted > active);
        self.drained += u64::from(wanted < active);
        activity.set_active(wanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The meters of workers that are busy for these shares of each millisecond, in percent, after `ms` of them.
    fn run(activity: &Arc<Activity>, shares: &[u64], ms: u64) -> Vec<Meter> {
        let meters = (0..shares.len()).map(|index| Meter::new(activity.clone(), index, Time(0)));
        let mut meters: Vec<_> = meters.collect();
        for at in (0..ms).map(|ms| ms * MS) {
            for (meter, share) in meters.iter_mut().zip(shares) {
                meter.begin(Time(at));
                meter.worked(Time(at));
                meter.begin(Time(at + share * MS / 100));
                meter.tick(Time(at + MS));
            }
        }
        meters
    }

    #[test]
    fn busy_workers_activate_others_and_idle_ones_are_drained() {
        let activity = Arc::new(Activity::new(1..=3, Some(Activity::INTERVAL)));
        let meters = run(&activity, &[100, 100, 100], 1000);
        assert_eq!(activity.active(), 3);
        let counts: Vec<_> = meters.iter().map(Meter::counts).collect();
        assert_eq!((counts[0].added, counts[0].drained, counts[0].active), (2, 0, 1));
        assert_eq!((counts[2].added, counts[2].active), (0, 1));
        let meters = run(&activity, &[1, 1, 1], 2000);
        assert_eq!((activity.active(), meters[0].counts().drained), (1, 2));
        assert!(!meters[0].is_drained() && meters[1].is_drained() && meters[2].is_drained());
    }

    #[test]
    fn workers_that_are_not_active_do_not_count() {
        let activity = Arc::new(Activity::new(1..=2, Some(Activity::INTERVAL)));
        run(&activity, &[50, 100], 1000);
        assert_eq!(activity.active(), 1, "the drained worker serves its old connections");
    }

    #[test]
    fn a_caller_may_decide_within_the_range() {
        let activity = Arc::new(Activity::new(2..=4, None));
        run(&activity, &[100; 4], 1000);
        assert_eq!(activity.active(), 2);
        for (wanted, active) in [(3, 3), (9, 4), (0, 2)] {
            activity.set_active(wanted);
            assert_eq!(activity.active(), active);
        }
    }
}
