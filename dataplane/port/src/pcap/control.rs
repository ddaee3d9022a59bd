//! Control side: the queues run until the port is closed or its file fails.

use super::CreateError;
use super::options::{Options, Playback};
use super::rx::{Player, Progress};
use super::tx;
use crate::eventfd;
use crate::spool::{Format, Spool};
use crate::{Attach, PortControl, PortDetail, PortDetails, PortFault, PortState, PortStatus, QueueStatus};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Refresh interval of the playback status.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// A port that plays and writes capture files.
#[derive(Debug)]
pub struct Pcap {
    playing: Option<Playback>,
    progress: Arc<Progress>,
    spool: Option<Spool>,
    written_to: Option<PathBuf>,
    doorbell: Arc<OwnedFd>,
    state: PortState,
    /// Time of the next playback status update.
    news: Option<Instant>,
}

impl Pcap {
    /// A port that plays and writes as configured by `options`. Creates the output file.
    pub fn new(options: Options) -> Result<Self, CreateError> {
        let failed = |reason: rustix::io::Errno| CreateError::Kernel {
            path: options.write.as_ref().map(|output| output.path.clone()).unwrap_or_default(),
            reason: reason.into(),
        };
        let doorbell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(failed)?;
        let doorbell = Arc::new(doorbell);
        let create = |output| Spool::create(output, Format::Pcapng, &options.name, None, doorbell.clone());
        let spool = options.write.as_ref().map(create).transpose()?;
        Ok(Self {
            playing: options.read,
            progress: Arc::default(),
            spool,
            written_to: options.write.map(|output| output.path),
            doorbell,
            state: PortState::Waiting(None),
            news: None,
        })
    }

    /// Passes the queues to the engine.
    fn start(&mut self, now: Instant, engine: &mut dyn Attach) -> Result<(), PortFault> {
        if let Some(spool) = &self.spool {
            engine.start_tx(0, tx::start(spool.feed()));
        }
        if let Some(playing) = self.playing.clone() {
            engine.start_rx(0, Box::new(Player::new(playing, self.progress.clone(), self.doorbell.clone())?));
            self.news = Some(now + STATUS_INTERVAL);
        }
        engine.failure().map_or(Ok(()), Err)
    }

    fn stop(&mut self, engine: &mut dyn Attach) {
        drop(engine.stop_rx(0));
        drop(engine.stop_tx(0));
        if let Some(spool) = &mut self.spool {
            spool.close(engine.epoch());
        }
        self.news = None;
    }

    fn end(&mut self, fault: PortFault, engine: &mut dyn Attach) {
        self.stop(engine);
        self.state = PortState::Faulted(fault);
    }

    #[cfg(test)]
    pub(super) fn has_ended_for_tests(&self) -> bool {
        self.has_ended()
    }

    fn has_ended(&self) -> bool {
        self.progress.ended.load(Ordering::Relaxed)
    }

    fn read_details(&self, playing: &Playback, details: &mut PortDetails) {
        let (of, played) = (playing.recording.packets(), self.progress.packets.load(Ordering::Relaxed));
        details.push((PortDetail::Read, playing.recording.path().display().to_string()));
        details.push((PortDetail::ReadPackets, of.to_string()));
        details.push((PortDetail::Played, played.to_string()));
        let playback = if self.has_ended() { "ended" } else { "on" };
        details.push((PortDetail::Playing, playback.to_owned()));
        let notes = playing.recording.notes();
        if !notes.is_empty() {
            details.push((PortDetail::ReadNote, notes.join("; ")));
        }
    }
}

impl PortControl for Pcap {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        (self.state != PortState::Closed).then(|| self.doorbell.as_fd())
    }

    fn deadline(&self) -> Option<Instant> {
        self.spool.as_ref().and_then(Spool::deadline).into_iter().chain(self.news).min()
    }

    fn handle(&mut self, now: Instant, engine: &mut dyn Attach) {
        eventfd::clear(&self.doorbell);
        match self.state {
            PortState::Waiting(_) => {
                self.state = PortState::Connected;
                if let Err(fault) = self.start(now, engine) {
                    return self.end(fault, engine);
                }
            }
            PortState::Connected => {}
            PortState::Faulted(_) | PortState::Ended(_) | PortState::Closed => return,
        }
        if let Some(spool) = &mut self.spool {
            spool.handle(now, engine.epoch());
            if let Some(reason) = spool.failure() {
                let fault = PortFault::File(reason.to_owned());
                return self.end(fault, engine);
            }
        }
        self.news = self
            .news
            .filter(|_| !self.has_ended())
            .map(|at| if at <= now { now + STATUS_INTERVAL } else { at });
    }

    fn fault(&mut self, _: Instant, fault: PortFault, engine: &mut dyn Attach) {
        self.end(fault, engine);
    }

    fn close(&mut self, engine: &mut dyn Attach) {
        self.stop(engine);
        self.state = PortState::Closed;
    }

    fn status(&self) -> PortStatus {
        let runs = self.state == PortState::Connected;
        let (read, write) = (self.playing.is_some(), self.spool.is_some());
        let read_from = self.playing.as_ref().map(|playing| playing.recording.path().to_owned());
        let place: Vec<_> =
            read_from.iter().chain(&self.written_to).map(|p| p.display().to_string()).collect();
        PortStatus {
            state: self.state.clone(),
            kind: "pcap",
            place: place.join(" > "),
            features: Vec::new(),
            queues: vec![QueueStatus { size: 0, rx_running: runs && read, tx_running: runs && write }],
            connects: u64::from(!matches!(self.state, PortState::Waiting(_))),
            memory: self.playing.as_ref().map_or((0, 0), |playing| (1, playing.recording.bytes())),
        }
    }

    fn details(&self) -> PortDetails {
        let mut details = PortDetails::new();
        if let Some(playing) = &self.playing {
            self.read_details(playing, &mut details);
        }
        if let (Some(spool), Some(path)) = (&self.spool, &self.written_to) {
            details.push((PortDetail::Write, path.display().to_string()));
            details.push((PortDetail::Written, spool.written().to_string()));
            if spool.missed() > 0 {
                details.push((PortDetail::Unwritten, spool.missed().to_string()));
            }
        }
        details
    }
}
