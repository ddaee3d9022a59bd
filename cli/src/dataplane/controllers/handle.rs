//! Handle by which other tasks reach the task of a connection.

use super::change_log::ChangeLog;
use agent::SessionId;
use std::cell::RefCell;
use tokio::sync::Notify;

/// Messages to the task of a connection.
pub(super) struct Session {
    pub(super) id: SessionId,
    wake: Notify,
    end: RefCell<Option<String>>,
    pub(super) changes: ChangeLog,
}

impl Session {
    pub(super) fn new(id: SessionId, changes: ChangeLog) -> Self {
        Self { id, wake: Notify::new(), end: RefCell::default(), changes }
    }

    /// Output may wait.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// The connection must be closed, for `reason`.
    pub(super) fn end(&self, reason: &str) {
        self.end.replace(Some(reason.to_owned()));
        self.wake();
    }

    /// Returns after a message. Several messages before the call are one.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// The reason for which the connection must be closed, if it must.
    pub(super) fn take_end(&self) -> Option<String> {
        self.end.take()
    }
}
