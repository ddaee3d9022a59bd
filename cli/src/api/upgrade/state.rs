//! Hand-over of flow tables, connections and leases.

use super::{PREPARATION, Successor, TAKEOVER, failed};
use crate::api::error::ApiError;
use crate::api::service::ApiService;
use crate::dataplane::interface::DataPlaneError;
use crate::dataplane::state::{SaveStep, StateMessage};

impl ApiService {
    /// Passes flow tables and connections on while packets pass. Returns when the successor has them.
    pub(super) fn pass_state(&self, successor: &Successor) -> Result<(), ApiError> {
        let channel = &successor.channel;
        channel.wait_at_most(PREPARATION).map_err(|e| failed(&e.to_string()))?;
        self.send_state(successor, SaveStep::Running)?;
        successor.answer()?;
        channel.wait_at_most(TAKEOVER).map_err(|e| failed(&e.to_string()))
    }

    /// Sends the state of a step.
    pub(super) fn send_state(&self, successor: &Successor, step: SaveStep) -> Result<(), ApiError> {
        let mut send = |message: StateMessage| {
            let sent = successor.channel.send(&message, Vec::new());
            sent.map_err(|e| DataPlaneError::Refused(successor.lost(&e).into_diagnostic()))
        };
        if successor.inheritance.is_none() {
            // A restart applies the file, whose flows may be others.
            return Ok(send(StateMessage::End)?);
        }
        Ok(self.data_plane().save_state(step, &mut send)?)
    }
}
