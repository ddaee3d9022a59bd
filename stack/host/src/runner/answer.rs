//! Answers to questions of other threads, between two rounds. Each is bounded ([`crate::PAGE`]).

use super::Host;
use crate::inspect::{Capture, Inspection, Inspector, Page, Question, Totals};
use std::time::{SystemTime, UNIX_EPOCH};

impl Host {
    /// Returns a handle with which other threads look at the stack while it runs. A later call replaces the first
    /// handle.
    ///
    /// # Errors
    /// If the kernel has no descriptor.
    pub fn inspector(&mut self) -> std::io::Result<Inspector> {
        let (inspection, inspector) = Inspection::new()?;
        self.inspection = Some(inspection);
        Ok(inspector)
    }

    /// Answers at most one question.
    pub(super) fn answer_question(&mut self) {
        let Some(question) = self.inspection.as_mut().and_then(Inspection::next) else { return };
        // The asking thread may have given up; the answer is dropped then.
        match question {
            Question::Connections(from, answer) => {
                let slots = self.stack.connection_slots();
                let page = Page::of(from, slots, |range| self.stack.connections_in(range));
                let _ = answer.try_send(page);
            }
            Question::Totals(answer) => {
                let totals = Totals { report: self.report(), time_waits: self.stack.time_waits() };
                let _ = answer.try_send(Box::new(totals));
            }
            Question::StartCapture(filter, feed, left, answer) => {
                let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let epoch = (since_1970.as_nanos() as u64).saturating_sub(self.now().0);
                self.ports.capture = Some(Box::new(Capture { filter, feed, left, epoch }));
                let _ = answer.try_send(());
            }
            Question::StopCapture(answer) => {
                self.ports.capture = None;
                let _ = answer.try_send(());
            }
        }
    }
}
