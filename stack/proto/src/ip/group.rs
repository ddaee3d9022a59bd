//! Multicast groups.

use super::{InterfaceId, Ip};
use crate::{Address, Payload, Time};

#[expect(unused_variables, clippy::unused_self, dead_code, reason = "not implemented yet")]
impl<P: Payload> Ip<P> {
    /// Receives packets to a multicast group on an interface; counted, one [`Ip::leave`] for each. Returns false if the
    /// limit of groups is reached.
    pub(crate) fn join(&mut self, interface: InterfaceId, group: Address, now: Time) -> bool {
        todo!()
    }

    /// Undoes one [`Ip::join`].
    pub(crate) fn leave(&mut self, interface: InterfaceId, group: Address, now: Time) {
        todo!()
    }
}
