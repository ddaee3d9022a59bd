//! Versions of the queriers of interfaces.

use crate::Time;
use crate::ip::InterfaceId;
use alloc::vec::Vec;
use core::time::Duration;

/// Time for which the older version is used after a query of it: robustness variable times query interval plus query
/// response interval, with their default values, because older queries do not contain them (RFC 3376 section 8.12, RFC
/// 3810 section 9.12).
const OLD: Duration = Duration::from_secs(2 * 125 + 10);

/// Links with a querier of an older version, and until when; at most one entry for each interface and IP version.
#[derive(Default)]
pub(super) struct Queriers(Vec<((InterfaceId, bool), Time)>);

impl Queriers {
    /// A query of an older version came. Returns whether the newer one was in use before.
    pub(super) fn see_old(&mut self, interface: InterfaceId, is_v4: bool, now: Time) -> bool {
        let is_change = !self.is_old(interface, is_v4, now);
        self.0.retain(|(link, until)| *link != (interface, is_v4) && now < *until);
        self.0.push(((interface, is_v4), now.after(OLD)));
        is_change
    }

    /// Whether reports must have the older version.
    pub(super) fn is_old(&self, interface: InterfaceId, is_v4: bool, now: Time) -> bool {
        self.0.iter().any(|(link, until)| *link == (interface, is_v4) && now < *until)
    }
}
