//! Questions of other threads to a running host, and its bounded answers.
//!
//! An [`Inspector`] posts one question at a time. The host looks for one each time it runs the control of its ports:
//! every millisecond while it polls, and at once while it sleeps. An answer is a copy of at most [`PAGE`] entries, so a
//! question delays packets at most for the time that the copy takes. No other thread touches the stack, and packets pay
//! nothing.

mod capture;
mod recording;

pub(crate) use capture::Capture;
pub use capture::CaptureFilter;
pub use recording::{CaptureError, CaptureOptions, CaptureStatus, Recording};

use crate::Report;
use port::pcap::CaptureFeed;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use stack::tcp::ConnectionInfo;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum number of entries of an answer.
pub const PAGE: usize = 64;
/// Maximum number of slots, in use or free, that are looked at for an answer.
const SLOTS: u32 = 1024;
/// Maximum time from a question to its answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Reason why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    /// The host was closed.
    #[error("the stack has ended")]
    Ended,
    /// The loop of the host does not run, or an application holds it.
    #[error("the loop of the stack did not answer within {} seconds", TIMEOUT.as_secs())]
    NoAnswer,
}

/// Some entries of a table.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// At most [`PAGE`] entries.
    pub entries: Vec<T>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<u32>,
}

impl<T> Page<T> {
    /// The page of a table of `slots` that begins at slot `from`. `entries` are those of a range, with their slots.
    pub(crate) fn of<I: Iterator<Item = (u32, T)>>(
        from: u32,
        slots: u32,
        entries: impl FnOnce(Range<u32>) -> I,
    ) -> Self {
        let end = from.saturating_add(SLOTS).min(slots);
        let (at, entries): (Vec<u32>, Vec<T>) = entries(from..end).take(PAGE).unzip();
        let next = if entries.len() == PAGE { at.last().map_or(end, |last| last + 1) } else { end };
        Self { entries, next: (next < slots).then_some(next) }
    }
}

/// Counters of a host, and numbers of its connections.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Counters, as [`crate::Host::close`] returns them.
    pub report: Report,
    /// Connections in TIME-WAIT.
    pub time_waits: usize,
}

/// A question, with the place for its answer.
pub(crate) enum Question {
    Connections(u32, SyncSender<Page<ConnectionInfo>>),
    Totals(SyncSender<Box<Totals>>),
    StartCapture(CaptureFilter, CaptureFeed, Arc<AtomicU64>, SyncSender<()>),
    StopCapture(SyncSender<()>),
}

/// The asking side. Clones ask the same host.
#[derive(Clone, Debug)]
pub struct Inspector(Arc<Asker>);

#[derive(Debug)]
struct Asker {
    /// Locked from a question to its answer.
    questions: Mutex<SyncSender<Question>>,
    doorbell: Arc<OwnedFd>,
}

impl Inspector {
    /// The page of connections that begins at slot `from`, first 0. Connections that open or close between two pages
    /// may be missing; none is returned twice.
    ///
    /// # Errors
    /// If the host does not answer.
    pub fn connections(&self, from: u32) -> Result<Page<ConnectionInfo>, InspectError> {
        self.ask(|answer| Question::Connections(from, answer))
    }

    /// Counters.
    ///
    /// # Errors
    /// If the host does not answer.
    pub fn totals(&self) -> Result<Totals, InspectError> {
        self.ask(Question::Totals).map(|totals| *totals)
    }

    /// Adds packets that match to a capture, as long as `left` is not 0, in place of an earlier capture.
    fn start_capture(
        &self,
        filter: CaptureFilter,
        feed: CaptureFeed,
        left: Arc<AtomicU64>,
    ) -> Result<(), InspectError> {
        self.ask(|answer| Question::StartCapture(filter, feed, left, answer))
    }

    fn stop_capture(&self) -> Result<(), InspectError> {
        self.ask(Question::StopCapture)
    }

    fn ask<T>(&self, question: impl FnOnce(SyncSender<T>) -> Question) -> Result<T, InspectError> {
        let questions = self.0.questions.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, answered) = sync_channel(1);
        // Before the question, because the host clears the doorbell when it takes one.
        port::eventfd::signal(self.0.doorbell.as_fd());
        questions.try_send(question(answer)).map_err(|error| match error {
            // An earlier question still waits.
            TrySendError::Full(_) => InspectError::NoAnswer,
            TrySendError::Disconnected(_) => InspectError::Ended,
        })?;
        answered.recv_timeout(TIMEOUT).map_err(|error| match error {
            std::sync::mpsc::RecvTimeoutError::Timeout => InspectError::NoAnswer,
            std::sync::mpsc::RecvTimeoutError::Disconnected => InspectError::Ended,
        })
    }
}

/// The answering side, in the loop of a host.
pub(crate) struct Inspection {
    questions: Receiver<Question>,
    doorbell: Arc<OwnedFd>,
}

impl Inspection {
    pub(crate) fn new() -> std::io::Result<(Self, Inspector)> {
        let (asked, questions) = sync_channel(1);
        let doorbell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let asker = Asker { questions: Mutex::new(asked), doorbell: doorbell.clone() };
        Ok((Self { questions, doorbell }, Inspector(Arc::new(asker))))
    }

    /// The next question, if there is one.
    pub(crate) fn next(&mut self) -> Option<Question> {
        let question = self.questions.try_recv().ok()?;
        port::eventfd::clear(&self.doorbell);
        Some(question)
    }

    /// Readable when there is a question.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pages of a table whose used slots `is_used` names, and the number of pages.
    fn pages(slots: u32, is_used: impl Fn(u32) -> bool) -> (Vec<u32>, usize) {
        let (mut all, mut count, mut from) = (Vec::new(), 0, 0);
        loop {
            let page = Page::of(from, slots, |range| range.filter(|at| is_used(*at)).map(|at| (at, at)));
            assert!(page.entries.len() <= PAGE);
            all.extend(page.entries);
            count += 1;
            match page.next {
                Some(next) => from = next,
                None => return (all, count),
            }
        }
    }

    #[test]
    fn pages_have_each_entry_once() {
        assert_eq!(pages(0, |_| true), (vec![], 1));
        assert_eq!(pages(64, |_| true), ((0..64).collect(), 1));
        assert_eq!(pages(65, |_| true), ((0..65).collect(), 2));
        assert_eq!(pages(10_240, |at| at == 10_239), (vec![10_239], 10));
        let odd: Vec<u32> = (0..2048).filter(|at| at % 2 == 1).collect();
        assert_eq!(pages(2048, |at| at % 2 == 1), (odd, 16));
    }

    #[test]
    fn a_host_that_ended_or_does_not_run_is_an_error() {
        let (inspection, inspector) = Inspection::new().unwrap();
        assert_eq!(inspector.stop_capture(), Err(InspectError::NoAnswer));
        assert_eq!(inspector.stop_capture(), Err(InspectError::NoAnswer), "the first question still waits");
        drop(inspection);
        assert_eq!(inspector.stop_capture(), Err(InspectError::Ended));
    }
}
