//! Meter: loss, order, duplicates and delay per stream, from the tags of frames alone.
//!
//! Every frame is counted exactly once: in its stream (received, duplicate, too late), as warm-up, or as unattributable
//! (no tag, unknown stream, time in the future). A switch under test may return arbitrary frames, so fields are trusted
//! only with a valid checksum, and memory use does not depend on input. Nothing is allocated after construction.

mod delay;
mod order;

pub use delay::Delay;
pub use measure::{Histogram, Summary};
pub use order::{Arrival, Order, WINDOW};

use super::tag::{MASK, TAG, Tag};

/// Results of one stream.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Order and loss.
    pub order: Order,
    /// Delays.
    pub delay: Delay,
    /// Bytes of received frames, without duplicates.
    pub bytes: u64,
    silence: Silence,
}

/// The longest time without a frame.
#[derive(Clone, Copy, Debug, Default)]
struct Silence {
    /// Time of the last frame or of the start of the measurement; `None` outside of it.
    last: Option<u64>,
    longest: u64,
}

impl Silence {
    #[inline]
    fn broken(&mut self, now: u64) {
        if let Some(last) = &mut self.last {
            self.longest = self.longest.max(now.saturating_sub(*last));
            *last = now;
        }
    }
}

impl Stream {
    /// The longest time without a frame between [`Meter::begin`] and [`Meter::end`], in nanoseconds.
    pub fn longest_silence(&self) -> u64 {
        self.silence.longest
    }
}

/// Frames that belong to no stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unidentified {
    /// Frames of the warm-up.
    pub warm_up: u64,
    /// Frames without a valid tag of this run.
    pub untagged: u64,
    /// Frames whose tag names a stream that does not exist.
    pub unknown: u64,
    /// Frames whose tag is later than their arrival.
    pub future: u64,
}

/// Meter of a run.
#[derive(Clone, Debug)]
pub struct Meter {
    key: u32,
    streams: Vec<Stream>,
    unidentified: Unidentified,
    taken: u64,
}

impl Meter {
    /// A meter for this many streams of the run with this key.
    pub fn new(streams: usize, key: u32) -> Self {
        let streams = (0..streams).map(|_| Stream::default()).collect();
        Self { key, streams, unidentified: Unidentified::default(), taken: 0 }
    }

    /// Records a frame of `len` bytes received at `now`; `tail` is its last bytes, `None` if it is shorter than a tag.
    #[inline]
    pub fn take(&mut self, tail: Option<&[u8; TAG]>, len: usize, now: u64) {
        self.taken += 1;
        let Some(tag) = tail.and_then(|tail| Tag::read(tail, self.key)) else {
            self.unidentified.untagged += 1;
            return;
        };
        if tag.warm_up {
            self.unidentified.warm_up += 1;
            return;
        }
        let Some(stream) = self.streams.get_mut(usize::from(tag.stream)) else {
            self.unidentified.unknown += 1;
            return;
        };
        let delay = now.wrapping_sub(tag.time) & MASK;
        if delay > MASK / 2 {
            self.unidentified.future += 1;
            return;
        }
        stream.silence.broken(now);
        if matches!(stream.order.take(tag.sequence), Arrival::InOrder | Arrival::Reordered) {
            stream.bytes += len as u64;
            stream.delay.take(tag.sequence, delay);
        }
    }

    /// Starts the measurement of silence.
    pub fn begin(&mut self, now: u64) {
        for stream in &mut self.streams {
            stream.silence = Silence { last: Some(now), longest: 0 };
        }
    }

    /// Ends the measurement of silence.
    pub fn end(&mut self, now: u64) {
        for stream in &mut self.streams {
            stream.silence.broken(now);
            stream.silence.last = None;
        }
    }

    /// The streams, by number.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Frames that belong to no stream.
    pub fn unidentified(&self) -> Unidentified {
        self.unidentified
    }

    /// All recorded frames.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Distinct frames received, over all streams.
    pub fn received(&self) -> u64 {
        self.streams.iter().map(|stream| stream.order.received()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: u32 = 9;

    fn tail(stream: u16, sequence: u64, time: u64) -> [u8; TAG] {
        Tag { stream, sequence, time, warm_up: false }.write(KEY)
    }

    #[test]
    fn unidentified_frames_are_counted_by_reason() {
        let mut meter = Meter::new(1, KEY);
        let warm = Tag { warm_up: true, ..Tag::default() }.write(KEY);
        let foreign = Tag::default().write(KEY + 1);
        meter.take(None, 10, 100);
        meter.take(Some(&foreign), 60, 100);
        meter.take(Some(&warm), 60, 100);
        meter.take(Some(&tail(1, 0, 0)), 60, 100);
        meter.take(Some(&tail(0, 0, 101)), 60, 100);
        meter.take(Some(&tail(0, 0, 100)), 60, 100);
        let expected = Unidentified { warm_up: 1, untagged: 2, unknown: 1, future: 1 };
        assert_eq!((meter.unidentified(), meter.received(), meter.taken()), (expected, 1, 6));
    }

    #[test]
    fn silence_is_measured_within_the_run_only() {
        let mut meter = Meter::new(1, KEY);
        meter.take(Some(&tail(0, 0, 0)), 60, 10);
        meter.begin(1_000);
        for (sequence, now) in [(1, 1_100), (2, 1_500), (3, 1_600)] {
            meter.take(Some(&tail(0, sequence, now)), 60, now);
        }
        assert_eq!(meter.streams()[0].longest_silence(), 400);
        meter.end(3_000);
        meter.take(Some(&tail(0, 4, 9_000)), 60, 9_000);
        assert_eq!(meter.streams()[0].longest_silence(), 1_400);
    }

    #[test]
    fn tag_clock_may_wrap() {
        let mut meter = Meter::new(1, KEY);
        meter.take(Some(&tail(0, 0, MASK - 9)), 60, MASK + 91);
        assert_eq!(meter.streams()[0].delay.latency().summary().max, 100);
    }

    /// Fault injection for a frame.
    #[derive(Clone, Copy, Debug)]
    enum Delivery {
        Delivered,
        Dropped,
        Duplicated,
        Corrupted,
    }

    fn fate() -> impl Strategy<Value = Delivery> {
        prop_oneof![4 => Just(Delivery::Delivered), 1 => Just(Delivery::Dropped), 1 => Just(Delivery::Duplicated), 1 => Just(Delivery::Corrupted)]
    }

    proptest! {
        #[test]
        fn sums_agree_for_drops_duplicates_corruption_and_reordering(
            fates in prop::collection::vec((0..3u16, fate()), 0..200), seed: u64,
        ) {
            let (mut sent, mut wire) = ([0u64; 3], Vec::new());
            let (mut dropped, mut doubled, mut spoiled) = (0, 0, 0);
            for (stream, fate) in fates {
                let mut bytes = tail(stream, sent[usize::from(stream)], 0);
                sent[usize::from(stream)] += 1;
                match fate {
                    Delivery::Delivered => wire.push(bytes),
                    Delivery::Dropped => dropped += 1,
                    Delivery::Duplicated => {
                        wire.extend([bytes, bytes]);
                        doubled += 1;
                    }
                    Delivery::Corrupted => {
                        bytes[3] ^= 1;
                        wire.push(bytes);
                        spoiled += 1;
                    }
                }
            }
            fastrand::Rng::with_seed(seed).shuffle(&mut wire);
            let mut meter = Meter::new(3, KEY);
            for bytes in &wire {
                meter.take(Some(bytes), 60, 50);
            }
            let of = |count: fn(&Order) -> u64| meter.streams().iter().map(|s| count(&s.order)).sum::<u64>();
            let lost = sent.iter().sum::<u64>() - meter.received();
            prop_assert_eq!((lost, of(Order::duplicates)), (dropped + spoiled, doubled));
            prop_assert_eq!((of(Order::too_late), meter.unidentified().untagged), (0, spoiled));
            prop_assert_eq!(meter.taken(), meter.received() + doubled + spoiled);
            prop_assert_eq!(meter.streams().iter().map(|s| s.bytes).sum::<u64>(), meter.received() * 60);
        }
    }
}
