//! Playing: packets of a recording enter when they are due.
//!
//! They lie in memory of the recording, and stay there: a burst pins the recording's map, nothing has to be given back,
//! and the copy into the destination is the only one. A queue that is early returns nothing; a worker that sleeps is woken
//! by a timer. Never reads a clock: when it is, the burst says.

use super::SHORTEST;
use super::options::{Pace, Playing, Repeat};
use super::recording::Packet;
use crate::{BufId, Burst, BurstStats, DropReason, PortFault, RxQueue};
use mem::VolatileSlice;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::timer::Timer;

/// Longest frame: 64 KiB, the largest that any offload makes.
const LONGEST: usize = 65_550;
/// Nanoseconds that are not worth a sleep.
const NEAR: u64 = 50_000;

/// How far the playing is, for control to read.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Packets played.
    pub(super) packets: AtomicU64,
    /// Whether nothing comes any more.
    pub(super) ended: AtomicBool,
}

/// A recording on its way in.
pub(super) struct Player {
    playing: Playing,
    /// The packet that comes next; the end of the recording once everything was played.
    at: usize,
    /// Passes after this one, `None` without end.
    passes_left: Option<u64>,
    /// When this pass began, once the first burst has said when it is.
    began: Option<u64>,
    /// When the last burst was.
    now: u64,
    timer: Timer,
    progress: Arc<Progress>,
    played: u64,
    doorbell: Arc<OwnedFd>,
}

impl Player {
    /// From the beginning. `doorbell` is rung when nothing comes any more.
    pub(super) fn new(
        playing: Playing,
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

    /// Nanoseconds that `time` of the recording takes here.
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

    /// Goes on to the packet behind, or to the next pass: as far behind the last packet as packets are from each other on
    /// average.
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
        if (SHORTEST..=LONGEST).contains(&len) {
            let frame = self.frame(packet);
            frame.prefetch_read(0);
            burst.push(BufId::default(), frame);
        } else {
            stats.drop(if len < SHORTEST { DropReason::TooShort } else { DropReason::TooLong }, 1);
            burst.give_back(BufId::default());
        }
    }

    fn frame(&self, packet: Packet) -> VolatileSlice {
        let region = self.playing.recording.map.regions().first();
        // The file that says where its packets are is the file that was read.
        region.and_then(|region| region.seg(packet.offset, packet.len)).unwrap_or(VolatileSlice::EMPTY)
    }

    #[cold]
    fn end(&self) {
        self.progress.ended.store(true, Ordering::Relaxed);
        // A full counter is a wake-up that is already pending; the descriptor is our own and never blocks.
        let _ = rustix::io::write(&*self.doorbell, &1u64.to_ne_bytes());
    }
}

impl RxQueue for Player {
    /// The next packets are read in a row, which processors see for themselves.
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

    /// Nothing is to be given back.
    fn complete(&mut self, _: &[BufId]) {}

    /// Control is not to be notified.
    fn notify(&mut self) {}

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        let Some(packet) = self.next() else { return Ok(false) };
        let wait = self.due(packet).saturating_sub(self.now);
        if wait > NEAR {
            self.timer.set(wait);
        }
        Ok(wait <= NEAR)
    }

    fn disable_notification(&mut self) {
        self.timer.clear();
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.timer.as_fd())
    }

    /// The memory is our own and stays as it is.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}
