//! Source of bursts from all streams of a run.
//!
//! A filled burst is kept until each of its frames is accepted or dropped: if the port has no space, the rest is
//! offered again with tags of the new time, so that waiting for the port does not count as latency. Sequence numbers
//! are assigned at generation, in order, so frames that were never accepted are at the end of each stream.

use super::description::Plan;
use super::memory::{Memory, MemoryError};
use super::schedule::{Pace, Pacing, Schedule};
use super::tag::{TAG, Tag};
use super::template::Template;
use super::vary::Values;
use mem::VolatileSlice;
use mem::copy::Kernel;
use port::{BURST, GeneratedBurst, HEAD};

/// The shortest Ethernet frame, without checksum (IEEE 802.3).
const MIN_FRAME: usize = 60;

/// Counters of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sent {
    /// Frames accepted by the port.
    pub frames: u64,
    /// Bytes of these frames, without checksums.
    pub bytes: u64,
    /// Requested and achieved pacing.
    pub pacing: Pacing,
}

/// State of one stream.
#[derive(Debug)]
struct StreamState {
    templates: Vec<Template>,
    /// Offset of the body in `memory`, per template.
    bodies: Vec<usize>,
    round: Vec<u32>,
    at: usize,
    values: Vec<Values>,
    schedule: Schedule,
    next: u64,
    sent: Sent,
}

/// The frame at one place of the burst.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    lane: u16,
    template: u32,
    sequence: u64,
    time: u64,
}

/// Streams served in rotation.
#[derive(Debug)]
pub struct Source {
    key: u32,
    warm_up: bool,
    lanes: Vec<StreamState>,
    memory: Memory,
    slots: [Slot; BURST],
    /// The stream served first.
    first: usize,
}

impl Source {
    /// The streams of a run with this key, each at its rate in frames per second (`None`: unlimited), from `start` on:
    /// stream i of n starts i/n of its period later and has its own random seed.
    pub fn new(
        plans: Vec<(Plan, Option<f64>)>,
        pace: Pace,
        start: u64,
        catch_up: u64,
        key: u32,
    ) -> Result<Self, MemoryError> {
        let (mut memory, all) = (Vec::new(), plans.len());
        let lanes = plans.into_iter().enumerate().map(|(i, (plan, rate))| {
            let bodies = plan.templates.iter().map(|template| {
                let at = memory.len();
                memory.extend(template.body());
                at
            });
            let bodies = bodies.collect();
            let (pace, later) = pace.of(i, all, rate);
            let schedule = Schedule::new(rate, pace, start + later, catch_up);
            let Plan { templates, round, values, .. } = plan;
            StreamState { templates, bodies, round, at: 0, values, schedule, next: 0, sent: Sent::default() }
        });
        let lanes = lanes.collect();
        let memory = Memory::new(memory)?;
        Ok(Self { key, warm_up: false, lanes, memory, slots: [Slot::default(); BURST], first: 0 })
    }

    /// Starts a phase: sets whether frames are marked as warm-up, and resets counters, sequence numbers and schedules.
    pub fn begin(&mut self, warm_up: bool, rates: impl Fn(usize) -> (Option<f64>, Pace), start: u64) {
        let all = self.lanes.len();
        self.warm_up = warm_up;
        for (i, lane) in self.lanes.iter_mut().enumerate() {
            let (rate, pace) = rates(i);
            let (pace, later) = pace.of(i, all, rate);
            lane.schedule = Schedule::new(rate, pace, start + later, lane.schedule.catch_up());
            (lane.next, lane.sent) = (0, Sent::default());
        }
    }

    /// Fills an empty burst with due frames. Returns the number of frames dropped.
    #[inline]
    pub fn fill<K: Kernel>(&mut self, burst: &mut GeneratedBurst, now: u64) -> u64 {
        burst.begin(0);
        let (mut missed, lanes) = (0, self.lanes.len());
        self.first = if self.first + 1 >= lanes { 0 } else { self.first + 1 };
        for turn in 0..lanes {
            let lane = if self.first + turn < lanes { self.first + turn } else { self.first + turn - lanes };
            // Limits the share of unlimited streams, so that others have space.
            let room = (BURST - burst.len()).min(BURST.div_ceil(lanes));
            let due = self.lanes[lane].schedule.due(now, room);
            missed += due.missed;
            if due.frames > 0 && burst.is_empty() {
                burst.pin(self.memory.map());
            }
            for _ in 0..due.frames {
                self.make::<K>(burst, lane, now);
            }
        }
        missed
    }

    /// Ends the schedules: drops frames due before `end`. Returns their number.
    pub fn finish(&mut self, end: u64) -> u64 {
        self.lanes.iter_mut().map(|lane| lane.schedule.finish(end)).sum()
    }

    /// Generates one frame of a stream.
    #[inline]
    fn make<K: Kernel>(&mut self, burst: &mut GeneratedBurst, lane: usize, now: u64) {
        let Self { key, warm_up, lanes, memory, slots, .. } = self;
        let own = &mut lanes[lane];
        let at = own.round[own.at] as usize;
        own.at = if own.at + 1 == own.round.len() { 0 } else { own.at + 1 };
        let template = &own.templates[at];
        let tag = Tag { stream: lane as u16, warm_up: *warm_up, sequence: own.next, time: now };
        let bytes = tag.write(*key);
        let place = if template.is_long() {
            let body = memory.seg(own.bodies[at], template.body().len());
            let tail = memory.tag(burst.len());
            let place = burst.push_derived(template.head(), [body, tail].into_iter());
            memory.write_tag::<K>(burst.len() - 1, &bytes);
            place
        } else {
            burst.push_derived(template.head(), std::iter::empty::<VolatileSlice>())
        };
        let Some(i) = place else { return };
        template.write(burst.head_mut(i), &mut own.values, &bytes);
        slots[i] = Slot { lane: lane as u16, template: at as u32, sequence: own.next, time: now };
        own.next += 1;
    }

    /// Marks the frames at places `from` to `to` of the burst as accepted.
    #[inline]
    pub fn accepted(&mut self, from: usize, to: usize) {
        for slot in &self.slots[from..to] {
            let lane = &mut self.lanes[usize::from(slot.lane)];
            lane.sent.frames += 1;
            lane.sent.bytes += lane.templates[slot.template as usize].len as u64;
        }
    }

    /// Restamps the frames of the burst from place `from` on with time `now`, before they are offered again.
    pub fn restamp<K: Kernel>(&mut self, burst: &mut GeneratedBurst, from: usize, now: u64) {
        for i in from..burst.len() {
            let slot = &mut self.slots[i];
            let tag =
                Tag { stream: slot.lane, warm_up: self.warm_up, sequence: slot.sequence, time: slot.time };
            let (old, new) = (tag.write(self.key), Tag { time: now, ..tag }.write(self.key));
            slot.time = now;
            let template = &self.lanes[usize::from(slot.lane)].templates[slot.template as usize];
            template.rewrite_tag(burst.head_mut(i), &old, &new);
            if template.is_long() {
                self.memory.write_tag::<K>(i, &new);
            }
        }
    }

    /// Counters per stream.
    pub fn sent(&self) -> impl Iterator<Item = Sent> {
        self.lanes.iter().map(|lane| Sent { pacing: lane.schedule.pacing(), ..lane.sent })
    }

    /// One frame of each stream with its Ethernet addresses exchanged, sent by the receiver so that switches learn its
    /// location. It is tagged as warm-up, so that a meter recognizes it and does not count it.
    pub fn announcements(&self) -> impl Iterator<Item = Vec<u8>> {
        let first = self.lanes.iter().map(|lane| lane.templates.first()).enumerate();
        first.filter_map(|(i, template)| {
            let head = template?.head();
            let tag = Tag { stream: i as u16, warm_up: true, ..Tag::default() }.write(self.key);
            // A short frame has space for its tag; of a long one only the headers are used, followed by a tag.
            let front = if template?.is_long() { head } else { &head[..head.len() - TAG] };
            let front = &front[..front.len().min(HEAD - TAG)];
            let mut bytes = [&front[6..12], &front[..6], &front[12..]].concat();
            bytes.resize(bytes.len().max(MIN_FRAME - TAG), 0);
            bytes.extend(tag);
            Some(bytes)
        })
    }
}

#[cfg(test)]
mod tests;
