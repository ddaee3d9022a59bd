//! Playback: packets of a recording are received when due.
//!
//! Packets stay in the recording's memory: a burst pins its memory table, no buffers are returned, and the copy into
//! the destination is the only one. The queue returns nothing before a packet is due; a timer wakes a sleeping worker.
//! Never reads a clock: the burst provides the time.

use super::MIN_FRAME;
use super::options::{Pace, Playback, Repeat};
use super::recording::Packet;
use crate::{BufId, Burst, BurstStats, DropReason, PortFault, RxQueue};
use mem::VolatileSlice;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::timer::Timer;

/// Maximum frame length in bytes: 64 KiB, the largest segmentation-offload frame.
const MAX_FRAME: usize = 65_550;
/// Shorter waits, in nanoseconds, are not worth a sleep.
const MIN_SLEEP: u64 = 50_000;

/// Playback progress, read by the control thread.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Number of packets played.
    pub(super) packets: AtomicU64,
    /// Whether playback has ended.
    pub(super) ended: AtomicBool,
}

/// A recording in playback.
pub(super) struct Player {
    playing: Playback,
    /// Index of the next packet; the number of packets after the end.
    at: usize,
    /// Remaining repetitions; `None` for endless.
    passes_left: Option<u64>,
    /// Start time of this pass; set by the first burst.
    began: Option<u64>,
    /// Time of the last burst.
    now: u64,
    timer: Timer,
    progress: Arc<Progress>,
    played: u64,
    doorbell: Arc<OwnedFd>,
}

impl Player {
    /// Starts at the beginning. Rings `doorbell` when playback ends.
    pub(super) fn new(
        playing: Playback,
        progress: Arc<Progress>,
        doorbell: Arc<OwnedFd>,
    ) -> Result<Self, PortFault> {
        let passes_left = match playing.repeat {
            Repeat::Times(times) => Some(times.saturating_sub(1)),
            Repeat::Forever => None,
        };
        let at = if playing.repeat == Repeat::Times(0) { playing.recording.packets() } else { 0 };
        let timer = Timer::new()?;
        Ok(Self { playing, at, passes_left, began: None, now: 0, timer, progress, played: 0, doorbell })
    }

    fn next(&self) -> Option<Packet> {
        self.playing.recording.packets.get(self.at).copied()
    }

    /// Playback time of recording time `time`, in nanoseconds.
    fn scaled(&self, time: u64) -> u64 {
        match self.playing.pace {
            Pace::Fast => 0,
            Pace::Recorded(1.0) => time,
            Pace::Recorded(factor) => (time as f64 / factor) as u64,
        }
    }

    fn due(&self, packet: Packet) -> u64 {
        self.began.unwrap_or(self.now).saturating_add(self.scaled(packet.time))
    }

    /// Advances to the next packet or pass. The gap between passes is the average packet interval.
    fn advance(&mut self) {
        let recording = &self.playing.recording;
        let n = recording.packets();
        self.at += 1;
        if self.at < n || self.passes_left == Some(0) {
            return;
        }
        self.passes_left = self.passes_left.map(|left| left - 1);
        self.at = 0;
        let duration = recording.duration();
        let gap = duration / (n as u64 - 1).max(1);
        let pass = self.scaled(duration.saturating_add(gap));
        self.began = self.began.map(|began| began.saturating_add(pass));
    }

    fn play(&mut self, packet: Packet, burst: &mut Burst, stats: &mut BurstStats) {
        let len = packet.len as usize;
        stats.packets += 1;
        stats.bytes += len as u64;
        if (MIN_FRAME..=MAX_FRAME).contains(&len) {
            let frame = self.frame(packet);
            frame.prefetch_read(0);
            burst.push(BufId::default(), frame);
        } else {
            stats.drop(if len < MIN_FRAME { DropReason::TooShort } else { DropReason::TooLong }, 1);
            burst.give_back(BufId::default());
        }
    }

    fn frame(&self, packet: Packet) -> VolatileSlice {
        let region = self.playing.recording.map.regions().first();
        // Offsets were validated against the file when it was read.
        region.and_then(|region| region.seg(packet.offset, packet.len)).unwrap_or(VolatileSlice::EMPTY)
    }

    #[cold]
    fn end(&self) {
        self.progress.ended.store(true, Ordering::Relaxed);
        // If the counter is full, a wake-up is pending; the eventfd is private and non-blocking.
        let _ = rustix::io::write(&*self.doorbell, &1u64.to_ne_bytes());
    }
}

impl RxQueue for Player {
    /// Sequential reads are prefetched by hardware.
    fn prefetch(&self) {}

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        self.now = burst.now().0;
        if self.began.is_none() {
            self.began = Some(self.now.saturating_add(self.playing.after.as_nanos() as u64));
        }
        let before = stats.packets;
        while burst.room() > 0 {
            let Some(packet) = self.next().filter(|packet| self.due(*packet) <= self.now) else { break };
            if stats.packets == before {
                burst.pin(&self.playing.recording.map);
            }
            self.play(packet, burst, stats);
            self.advance();
        }
        if stats.packets > before {
            self.played += stats.packets - before;
            self.progress.packets.store(self.played, Ordering::Relaxed);
            if self.next().is_none() {
                self.end();
            }
        }
        Ok(())
    }

    /// No buffers to return.
    fn complete(&mut self, _: &[BufId]) {}

    /// The control thread needs no notification.
    fn notify(&mut self) {}

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        let Some(packet) = self.next() else { return Ok(false) };
        let wait = self.due(packet).saturating_sub(self.now);
        if wait > MIN_SLEEP {
            self.timer.set(wait);
        }
        Ok(wait <= MIN_SLEEP)
    }

    fn disable_notification(&mut self) {
        self.timer.clear();
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.timer.as_fd())
    }

    /// Private memory does not change.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}
