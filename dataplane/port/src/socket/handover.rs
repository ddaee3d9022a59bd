//! Hand-over of a listening socket and a connection to another process.

use super::Connector;
use crate::PortFault;
use crate::handover::{Handover, Part, duplicate};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;

impl Connector {
    /// Adds the listening socket, if there is one, to a description.
    pub(crate) fn hand_over(&self, tag: u8, handover: &mut Handover) -> Result<(), PortFault> {
        if let Some(listener) = self.listener() {
            handover.push(tag, Vec::new(), vec![duplicate(listener)?]);
        }
        Ok(())
    }

    /// Listens on the socket of a part.
    pub(crate) fn take_over(&mut self, part: Part) -> Result<(), PortFault> {
        let bad = |why: &dyn std::fmt::Display| PortFault::BadDescriptor("listening socket", why.to_string());
        let one = <[OwnedFd; 1]>::try_from(part.descriptors);
        let [listener] = one.map_err(|_| bad(&"it is not one descriptor"))?;
        self.listen_on(listener).map_err(|errno| bad(&errno))
    }

    /// Watches a connection of another process.
    pub(crate) fn continue_with(&self, connection: BorrowedFd<'_>) -> Result<(), PortFault> {
        let bad = |errno: Errno| PortFault::BadDescriptor("connection", errno.to_string());
        self.watch(connection).map_err(bad)
    }
}
