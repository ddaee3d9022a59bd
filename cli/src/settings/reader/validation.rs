//! Validation context of one port, used by the kinds of ports.

use super::notes::{Findings, Section};
use super::paths;
use std::fmt::Display;
use std::path::Path;

/// Common port settings on which the validation of a kind depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortCommon<'a> {
    pub(crate) name: &'a str,
    pub(crate) queue_pairs: u16,
    pub(crate) mtu: Option<u16>,
}

/// One port under validation.
pub(crate) struct Validation<'a> {
    kind: &'static str,
    port: PortCommon<'a>,
    section: Section,
    notes: &'a mut Findings,
}

impl<'a> Validation<'a> {
    /// Creates the context for the port of `section`.
    pub(crate) fn new(
        kind: &'static str,
        port: PortCommon<'a>,
        section: Section,
        notes: &'a mut Findings,
    ) -> Self {
        Self { kind, port, section, notes }
    }

    /// The port's common settings.
    pub(crate) fn port(&self) -> PortCommon<'a> {
        self.port
    }

    /// Reports an error in the value of `key`; an empty key refers to the whole port. Only the first error of a value
    /// is kept.
    pub(crate) fn wrong(&mut self, key: &'static str, reason: impl Display, remedy: impl Into<String>) {
        self.notes.wrong((self.section, key), reason, remedy);
    }

    /// Whether the value of `key` is already known to be invalid. Checks that depend on it must be skipped then.
    pub(crate) fn is_spoiled(&self, key: &'static str) -> bool {
        self.notes.is_spoiled((self.section, key))
    }

    /// Validates that a Unix socket can be created or found at the path of `key`.
    pub(crate) fn socket_path(&mut self, key: &'static str, path: &Path) {
        paths::socket((self.section, key), path, self.notes);
    }

    /// Requires a single queue pair.
    pub(crate) fn one_queue_pair(&mut self) {
        let (pairs, kind) = (self.port.queue_pairs, self.kind);
        if pairs != 1 {
            let reason =
                format!("`queue_pairs` is {pairs}, and a port of kind \"{kind}\" has one pair of queues");
            self.wrong("queue_pairs", reason, "remove it");
        }
    }

    /// Rejects `mtu`: ports of this kind have no MTU of their own.
    pub(crate) fn no_mtu(&mut self) {
        if self.port.mtu.is_some() {
            let reason = format!("`mtu` is not a key of a port of kind \"{}\"", self.kind);
            self.wrong("mtu", reason, "remove it");
        }
    }
}
