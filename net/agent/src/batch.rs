//! Changes of flows that are received together become one version of the tables.
//!
//! Workers keep cached results over a limited number of versions, and each version costs its publication. A batch ends
//! before any other message is processed, so that a barrier, an answer or an error is as it would be without it.

use crate::codes::{change_code, position};
use crate::datapath::Datapath;
use crate::limits;
use crate::request::Request;
use crate::session::Session;
use flow::tables::Modification;
use flow::{Action, FlowCommand, FlowMod};
use openflow::{FlowModRequest, Role, Version};

/// Changes of flows that wait for execution, with their messages.
#[derive(Default)]
pub(crate) struct Batch {
    changes: Vec<Modification>,
    messages: Vec<Vec<u8>>,
}

impl Batch {
    /// Whether a change can wait: only its own error would answer it, no monitor of the session names its message, and
    /// it needs little work.
    pub(crate) fn takes(&self, session: &Session, request: &FlowModRequest, datapath: &dyn Datapath) -> bool {
        let is_delete = matches!(request.flow.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let depends_on_tables = session.version() == Some(Version::V10)
            && matches!(request.flow.command, FlowCommand::Modify | FlowCommand::ModifyStrict);
        let is_refused = session.role == Role::Secondary || request.buffer.is_some() && !is_delete;
        self.changes.len() < limits::BATCH
            && !depends_on_tables
            && !is_refused
            && session.monitors.is_empty()
            && (is_small(&request.flow) || datapath.tables().effort(&request.flow) <= limits::TURN)
    }

    pub(crate) fn push(&mut self, request: FlowModRequest, message: Vec<u8>) {
        self.changes.push(Modification::Flow(Box::new(request.flow)));
        self.messages.push(message);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// Whether a change looks at one flow, independent of the contents of the tables.
fn is_small(change: &FlowMod) -> bool {
    let is_one = match change.command {
        FlowCommand::Add => !change.flags.check_overlap,
        FlowCommand::ModifyStrict | FlowCommand::DeleteStrict => true,
        FlowCommand::Modify | FlowCommand::Delete => false,
    };
    is_one
        && !change
            .instructions
            .apply
            .iter()
            .any(|action| matches!(action, Action::Learn(_) | Action::Clone(_)))
}

impl Request<'_> {
    /// Executes a batch: each change that is valid after the ones before it.
    pub(crate) fn execute_batch(&mut self, batch: &Batch) {
        let (mut changes, mut messages) = (&batch.changes[..], &batch.messages[..]);
        let mut end = changes.len();
        while !changes.is_empty() {
            let done = match self.execute_changes(&changes[..end]) {
                Ok(done) => {
                    self.publish(&done);
                    end
                }
                Err(error) => {
                    let refused = position(&error).min(end - 1);
                    if refused > 0 {
                        // Next, the changes before it, which are valid without it.
                        end = refused;
                        continue;
                    }
                    self.session.refuse(change_code(&error), &messages[0]);
                    1
                }
            };
            (changes, messages) = (&changes[done..], &messages[done..]);
            end = changes.len();
        }
    }
}
