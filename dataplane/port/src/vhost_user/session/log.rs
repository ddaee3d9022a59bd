//! The log of written pages, for live migration.
//!
//! A front end sends a log, then negotiates `LOG_ALL` while rings run, and clears it if the migration is cancelled. Rings
//! stop and start at the same position with each change. All writes to rings are logged while the guest migrates, also
//! those of rings without `VHOST_VRING_F_LOG`: without an IOMMU, the address to be logged for a used ring is its own.

use super::{RequestError, Served, Session};
use crate::vhost::Features;
use crate::vhost::message::{LogArea, Reply};
use crate::{Attach, memory};
use mem::DirtyLog;
use rustix::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Maximum length of a log in bytes: one bit for each page of twice the maximum memory, because guest memory has gaps.
const LARGEST: u64 = 2 * super::MAX_BYTES / mem::dirty_log::PAGE / 8;

impl Session {
    /// The log that rings write to.
    pub(super) fn active_log(&self) -> Option<&Arc<DirtyLog>> {
        self.log.as_ref().filter(|_| self.features.is_some_and(|features| features.has(Features::LOG_ALL)))
    }

    /// Replaces the log. Rings that use the old one start again with the new one.
    pub(super) fn set_log_base(
        &mut self,
        area: LogArea,
        mut descriptor: impl Iterator<Item = OwnedFd>,
        engine: &mut dyn Attach,
    ) -> Served {
        let failed =
            |why: String| RequestError::Failed(format!("the log of written pages is refused: {why}"));
        let Some(fd) = descriptor.next() else {
            return Err(failed("SET_LOG_BASE came without its descriptor".into()));
        };
        if area.len > LARGEST {
            return Err(failed(format!("it has {} bytes, and the maximum is {LARGEST}", area.len)));
        }
        if memory::is_served_remotely(&fd).map_err(|e| failed(e.to_string()))? {
            return Err(failed("its file system is remote or in user space".into()));
        }
        let log = DirtyLog::map(fd.as_fd(), area.len, area.offset).map_err(|e| failed(e.to_string()))?;
        self.log = Some(Arc::new(log));
        if self.active_log().is_some() {
            self.restart_all(engine)?;
        }
        Ok(Some(Reply::U64(0)))
    }
}
