//! Three-colour markers (RFC 2697, RFC 2698) and the actions of a policer.
//!
//! [`Meter`] is the token buckets of one port: lengths and time in, colours out. It must never admit more than its
//! buckets and rates allow, in any interval; times that go backwards add no tokens.

use crate::dscp::Colours;
use std::time::Duration;

/// Nanoseconds of a second.
const SECOND: u128 = 1_000_000_000;
/// Bits of a byte, times nanoseconds of a second: tokens are counted in this fraction of a byte, so that no rounding
/// accumulates.
const TOKEN: u128 = 8 * SECOND;
/// Time for which a bucket is filled at most by one packet. It bounds the product of rate and time.
const LONGEST: u64 = Duration::from_hours(1).as_nanos() as u64;

/// Colour of a packet, in ascending precedence of drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Colour {
    /// Within the committed rate.
    Green,
    /// Above the committed rate, and within the excess.
    Yellow,
    /// Above all rates.
    Red,
}

/// Rates and bursts of a policer. Bytes are those of frames, without frame check sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rates {
    /// Single rate three colour marker (RFC 2697): both buckets are filled at the committed rate.
    SingleRate {
        /// Committed information rate in bits per second.
        cir: u64,
        /// Committed burst size in bytes.
        cbs: u64,
        /// Excess burst size in bytes.
        ebs: u64,
    },
    /// Two rate three colour marker (RFC 2698).
    TwoRate {
        /// Committed information rate in bits per second.
        cir: u64,
        /// Committed burst size in bytes.
        cbs: u64,
        /// Peak information rate in bits per second; at least `cir`.
        pir: u64,
        /// Peak burst size in bytes.
        pbs: u64,
    },
}

/// Action on packets of a colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// They pass unchanged.
    #[default]
    Pass,
    /// They pass with this DSCP. Packets other than IPv4 and IPv6 pass unchanged.
    Remark(u8),
    /// They are dropped.
    Drop,
}

/// A policer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Rates and bursts.
    pub rates: Rates,
    /// Whether a packet keeps at least the colour of its DSCP ([`Colours::ASSURED`]). By default packets are metered as
    /// if they were green (colour-blind).
    pub is_aware: bool,
    /// Action for yellow packets.
    pub exceed: Action,
    /// Action for red packets.
    pub violate: Action,
}

impl Policer {
    /// Colour of a packet before it is metered.
    #[inline]
    pub fn before(&self, traffic_class: Option<u8>) -> Colour {
        match traffic_class {
            Some(class) if self.is_aware => Colours::ASSURED.of(class >> 2),
            _ => Colour::Green,
        }
    }

    /// Action for a colour.
    #[inline]
    pub fn action(&self, colour: Colour) -> Action {
        match colour {
            Colour::Green => Action::Pass,
            Colour::Yellow => self.exceed,
            Colour::Red => self.violate,
        }
    }

    /// Whether packets are metered by their lengths only, so that headers are not read.
    pub fn needs_headers(&self) -> bool {
        self.is_aware || [self.exceed, self.violate].iter().any(|action| matches!(action, Action::Remark(_)))
    }
}

/// A token bucket: tokens up to a depth, both in bytes times [`TOKEN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    tokens: u128,
    depth: u128,
}

impl Bucket {
    fn full(bytes: u64) -> Self {
        let depth = u128::from(bytes) * TOKEN;
        Self { tokens: depth, depth }
    }

    /// Adds tokens. Returns those that did not fit.
    fn fill(&mut self, tokens: u128) -> u128 {
        let room = self.depth - self.tokens;
        let added = tokens.min(room);
        self.tokens += added;
        tokens - added
    }

    fn has(&self, tokens: u128) -> bool {
        self.tokens >= tokens
    }
}

/// Token buckets of one policer.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    rates: Rates,
    committed: Bucket,
    /// The excess bucket of [`Rates::SingleRate`], the peak bucket of [`Rates::TwoRate`].
    other: Bucket,
    /// Time up to which buckets are filled, in nanoseconds.
    filled: u64,
}

impl Meter {
    /// Full buckets at time 0.
    pub fn new(rates: Rates) -> Self {
        let (Rates::SingleRate { cbs, ebs: other, .. } | Rates::TwoRate { cbs, pbs: other, .. }) = rates;
        Self { rates, committed: Bucket::full(cbs), other: Bucket::full(other), filled: 0 }
    }

    /// Fills the buckets up to `now`, in nanoseconds.
    pub fn advance(&mut self, now: u64) {
        let passed = u128::from(now.saturating_sub(self.filled).min(LONGEST));
        self.filled = self.filled.max(now);
        match self.rates {
            Rates::SingleRate { cir, .. } => {
                let excess = self.committed.fill(passed * u128::from(cir));
                self.other.fill(excess);
            }
            Rates::TwoRate { cir, pir, .. } => {
                self.committed.fill(passed * u128::from(cir));
                self.other.fill(passed * u128::from(pir));
            }
        }
    }

    /// Colours a packet of `len` bytes that had the colour `before`, and takes its tokens. Red packets take none.
    pub fn colour(&mut self, len: usize, before: Colour) -> Colour {
        let needed = len as u128 * TOKEN;
        match self.rates {
            Rates::SingleRate { .. } => self.single_rate(needed, before),
            Rates::TwoRate { .. } => self.two_rate(needed, before),
        }
    }

    /// RFC 2697, section 3.
    fn single_rate(&mut self, needed: u128, before: Colour) -> Colour {
        if before == Colour::Green && self.committed.has(needed) {
            self.committed.tokens -= needed;
            Colour::Green
        } else if before <= Colour::Yellow && self.other.has(needed) {
            self.other.tokens -= needed;
            Colour::Yellow
        } else {
            Colour::Red
        }
    }

    /// RFC 2698, section 3.
    fn two_rate(&mut self, needed: u128, before: Colour) -> Colour {
        if before == Colour::Red || !self.other.has(needed) {
            return Colour::Red;
        }
        self.other.tokens -= needed;
        if before == Colour::Yellow || !self.committed.has(needed) {
            return Colour::Yellow;
        }
        self.committed.tokens -= needed;
        Colour::Green
    }
}

#[cfg(test)]
mod tests;
