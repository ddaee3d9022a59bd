//! The state of one port in one group (RFC 3376, section 6.4; RFC 3810, section 7.4).
//!
//! A port is a member as long as its group timer or the timer of a source runs. Sources that a host excludes are shown
//! and have no other effect.

use crate::message::Change;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Sources of a membership that are tracked. A host with more is a member for all sources.
pub const MAX_SOURCES: usize = 32;

/// A port of a group.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The oldest version that was heard most recently.
    pub(crate) version: u8,
    pub(crate) since: Duration,
    /// When the membership for all sources ends.
    pub(crate) exclude_until: Option<Duration>,
    pub(crate) excluded: Vec<IpAddr>,
    /// When the membership for a source ends.
    pub(crate) sources: BTreeMap<IpAddr, Duration>,
    /// Until when leave messages are ignored, because hosts of IGMP version 1 do not answer group-specific queries.
    pub(crate) stays_until: Duration,
}

/// Times of memberships.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) now: Duration,
    /// End of a membership that is reported.
    pub(crate) kept: Duration,
    /// End of a membership that a host leaves.
    pub(crate) left: Duration,
}

impl Member {
    pub(crate) fn new(version: u8, now: Duration) -> Self {
        Self {
            version,
            since: now,
            exclude_until: None,
            excluded: Vec::new(),
            sources: BTreeMap::new(),
            stays_until: Duration::ZERO,
        }
    }

    /// When the membership ends.
    pub(crate) fn until(&self) -> Duration {
        self.exclude_until.iter().chain(self.sources.values()).max().copied().unwrap_or_default()
    }

    /// Applies a record. Returns whether a host may have left the group or a source.
    pub(crate) fn apply(&mut self, change: Change, sources: &[IpAddr], times: Times) -> bool {
        match change {
            Change::IsExclude | Change::ToExclude => {
                self.exclude_until = Some(times.kept);
                self.excluded = sources.iter().copied().take(MAX_SOURCES).collect();
                return false;
            }
            Change::IsInclude | Change::Allow => {
                self.include(sources, times.kept);
                return false;
            }
            Change::ToInclude => self.include(sources, times.kept),
            Change::Block => {}
        }
        if times.now < self.stays_until {
            return false;
        }
        self.leave(change, sources, times.left);
        true
    }

    fn include(&mut self, sources: &[IpAddr], until: Duration) {
        self.excluded.retain(|source| !sources.contains(source));
        for source in sources {
            if self.sources.len() >= MAX_SOURCES && !self.sources.contains_key(source) {
                self.exclude_until = Some(until);
                return;
            }
            self.sources.insert(*source, until);
        }
    }

    /// Shortens the timers of what a host leaves: with [`Change::ToInclude`] all but `sources`, else `sources`.
    fn leave(&mut self, change: Change, sources: &[IpAddr], left: Duration) {
        let is_block = change == Change::Block;
        for (source, until) in &mut self.sources {
            if sources.contains(source) == is_block {
                *until = left.min(*until);
            }
        }
        if !is_block {
            self.exclude_until = self.exclude_until.map(|until| until.min(left));
        }
    }

    /// Ends the membership at `end` unless it is reported again.
    pub(crate) fn shorten(&mut self, end: Duration) {
        self.exclude_until = self.exclude_until.map(|until| until.min(end));
        self.sources.values_mut().for_each(|until| *until = end.min(*until));
    }

    /// Removes what has ended. Returns whether the port is a member still.
    pub(crate) fn expire(&mut self, now: Duration) -> bool {
        self.exclude_until = self.exclude_until.filter(|until| *until > now);
        self.sources.retain(|_, until| *until > now);
        self.exclude_until.is_some() || !self.sources.is_empty()
    }

    /// When the first timer ends.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.exclude_until.iter().chain(self.sources.values()).min().copied()
    }
}
