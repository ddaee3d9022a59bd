//! A processor as data: every constant of the simulator with its source.
//!
//! Profiles are TOML files; the bundled ones are in `lab/sim/profiles`. A constant without a source is an error, and so
//! is a profile with more than two free (fitted) constants.

use serde::Deserialize;

use super::{TICKS, Time};
use crate::memory::LINE;

/// One constant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// Value in the unit of its field
    pub value: f64,
    /// Source of the value
    pub source: String,
    /// Fitted instead of taken from a source
    #[serde(default)]
    pub free: bool,
}

/// A cache's size and speed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConstants {
    /// Size in bytes
    pub bytes: Constant,
    /// Associativity in ways
    pub ways: Constant,
    /// Load-to-use latency in cycles
    pub latency: Constant,
}

/// Core constants.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreConstants {
    /// Instructions issued per cycle
    pub width: Constant,
    /// Size of the reorder buffer in instructions
    pub reorder_buffer: Constant,
    /// Size of the store buffer in stores
    pub store_buffer: Constant,
    /// Number of fill buffers, one line each
    pub fill_buffers: Constant,
    /// Cycles lost per branch misprediction
    pub mispredict: Constant,
    /// Cycles between two stores to lines of the first level
    pub store: Constant,
    /// Same for lines of the second level
    pub store_l2: Constant,
}

/// Transfer times between cores and to memory, in nanoseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferConstants {
    /// Latency of a line from memory
    pub dram: Constant,
    /// Interval between two lines from memory
    pub dram_interval: Constant,
    /// Latency of an unchanged line from another core
    pub core_clean: Constant,
    /// Latency of a changed line from another core
    pub core_modified: Constant,
    /// Latency of ownership of a line that is here and elsewhere
    pub upgrade: Constant,
    /// Time for which an acquired line stays
    pub hold: Constant,
    /// Time for which a non-temporal line write occupies a fill buffer
    pub drain: Constant,
    /// Relative variation of these times in both directions; default: exact times
    pub spread: Option<Constant>,
    /// Latency of a line from another socket's memory, if there is another socket
    pub remote_dram: Option<Constant>,
    /// Latency of a line from another socket's core or shared cache, or of its ownership
    pub remote_core: Option<Constant>,
}

/// Line states beside modified, exclusive, shared and invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// Forward: one sharer answers requests; a changed line is written back when it is shared
    Mesif,
    /// Owned: a changed line can be shared without being written back
    Moesi,
}

/// A processor profile.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Common name
    pub name: String,
    /// Clock frequency in GHz
    pub frequency: Constant,
    /// Coherence protocol
    pub protocol: Protocol,
    /// 1: a changed line moves to its reader exclusively; 0: it is shared
    pub migratory: Constant,
    /// 1: the shared cache includes its socket's private caches; 0 or absent: it takes the lines that they evict
    pub inclusive: Option<Constant>,
    /// Lines that the second level's stream prefetcher fetches at a time
    pub l2_stream: Constant,
    /// Core constants
    pub core: CoreConstants,
    /// First-level cache
    pub l1: CacheConstants,
    /// Second-level cache
    pub l2: CacheConstants,
    /// Shared cache
    pub llc: CacheConstants,
    /// Ways of the shared cache that a device may fill; default 2 (Intel's DDIO default)
    pub device_ways: Option<Constant>,
    /// Whether CLDEMOTE moves a line to the shared cache; if false, it is a hint without effect
    #[serde(default)]
    pub demote: bool,
    /// Transfer times between cores and to memory
    pub transfer: TransferConstants,
}

/// Error of a profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Invalid TOML, or an unexpected structure
    #[error("the profile cannot be read: {0}")]
    Shape(#[from] toml::de::Error),
    /// Constant without a source
    #[error("constant `{0}` has no source: results would be meaningless; add the source of its value")]
    NoSource(&'static str),
    /// Constant that is not a valid size or time
    #[error("invalid value {value} for `{name}`: expected a number above zero")]
    NotPositive {
        /// Constant name
        name: &'static str,
        /// Configured value
        value: f64,
    },
    /// Count that is not a whole number
    #[error("invalid value {value} for `{name}`: expected a whole number")]
    NotWhole {
        /// Constant name
        name: &'static str,
        /// Configured value
        value: f64,
    },
    /// Size or time above its limit
    #[error("invalid value {value} for `{name}`: expected at most {limit}")]
    TooLarge {
        /// Constant name
        name: &'static str,
        /// Configured value
        value: f64,
        /// Upper limit
        limit: f64,
    },
    /// Time or width that rounds to zero in the simulator's units
    #[error("invalid value {value} for `{name}`: {least}")]
    TooSmall {
        /// Constant name
        name: &'static str,
        /// Configured value
        value: f64,
        /// Description of the lower limit
        least: &'static str,
    },
    /// Cache with fewer lines than ways
    #[error("invalid value {ways} for `{name}`: expected at most the {lines} lines of the cache")]
    WaysOverLines {
        /// Name of the ways constant
        name: &'static str,
        /// Configured ways
        ways: f64,
        /// Lines of the cache
        lines: f64,
    },
    /// More free constants than allowed
    #[error(
        "{0} constants are free: expected at most two, because the model has a third and more would fit any result"
    )]
    TooFree(usize),
}

/// Upper limit of a constant: bounds a run's time and memory, and keeps times within 64 bits.
fn limit(name: &str) -> f64 {
    match name {
        // A cycle has sixteen ticks, and an instruction takes at least one.
        "core.width" => TICKS as f64,
        "llc.bytes" => f64::from(1 << 30),
        "l1.bytes" | "l2.bytes" => f64::from(1 << 26),
        "frequency" => 100.0,
        "transfer.spread" => 0.5,
        _ => 65536.0,
    }
}

/// Whether a constant is a count.
fn counts(name: &str) -> bool {
    name.ends_with("bytes") || name.ends_with("ways") || name.ends_with("buffer") || name.ends_with("buffers")
}

fn validate(name: &'static str, value: f64) -> Result<(), ProfileError> {
    // Switches may be 0.
    let least = if ["migratory", "inclusive"].contains(&name) { 0.0 } else { f64::MIN_POSITIVE };
    if !value.is_finite() || value < least {
        return Err(ProfileError::NotPositive { name, value });
    }
    let limit = limit(name);
    if value > limit {
        return Err(ProfileError::TooLarge { name, value, limit });
    }
    let whole = !counts(name) || value.fract() == 0.0;
    if whole { Ok(()) } else { Err(ProfileError::NotWhole { name, value }) }
}

const STUDY: &str = include_str!("../profiles/i9-7940x.toml");
const TWO_SOCKETS: &str = include_str!("../profiles/two-sockets.toml");

impl Profile {
    /// Profile of the published study's processor.
    pub fn study() -> Profile {
        // A test parses every bundled profile, so this one is valid.
        Profile::parse(STUDY).unwrap_or_else(|error| unreachable!("the study's profile: {error}"))
    }

    /// Profile of two sockets of the study's cores.
    pub fn two_sockets() -> Profile {
        Profile::parse(TWO_SOCKETS).unwrap_or_else(|error| unreachable!("the two sockets' profile: {error}"))
    }

    /// Parses and validates a profile.
    pub fn parse(text: &str) -> Result<Profile, ProfileError> {
        let profile: Profile = toml::from_str(text)?;
        for (name, constant) in profile.constants() {
            if constant.source.trim().is_empty() {
                return Err(ProfileError::NoSource(name));
            }
            validate(name, constant.value)?;
        }
        profile.validate_ways()?;
        profile.validate_times()?;
        let free = profile.constants().iter().filter(|(_, constant)| constant.free).count();
        if free > 2 { Err(ProfileError::TooFree(free)) } else { Ok(profile) }
    }

    /// Returns all constants by name.
    pub fn constants(&self) -> Vec<(&'static str, &Constant)> {
        let mut all = vec![
            ("frequency", &self.frequency),
            ("migratory", &self.migratory),
            ("l2_stream", &self.l2_stream),
            ("core.width", &self.core.width),
            ("core.reorder_buffer", &self.core.reorder_buffer),
            ("core.store_buffer", &self.core.store_buffer),
            ("core.fill_buffers", &self.core.fill_buffers),
            ("core.mispredict", &self.core.mispredict),
            ("core.store", &self.core.store),
            ("core.store_l2", &self.core.store_l2),
            ("l1.bytes", &self.l1.bytes),
            ("l1.ways", &self.l1.ways),
            ("l1.latency", &self.l1.latency),
            ("l2.bytes", &self.l2.bytes),
            ("l2.ways", &self.l2.ways),
            ("l2.latency", &self.l2.latency),
            ("llc.bytes", &self.llc.bytes),
            ("llc.ways", &self.llc.ways),
            ("llc.latency", &self.llc.latency),
            ("transfer.dram", &self.transfer.dram),
            ("transfer.dram_interval", &self.transfer.dram_interval),
            ("transfer.core_clean", &self.transfer.core_clean),
            ("transfer.core_modified", &self.transfer.core_modified),
            ("transfer.upgrade", &self.transfer.upgrade),
            ("transfer.hold", &self.transfer.hold),
            ("transfer.drain", &self.transfer.drain),
        ];
        let optional = [
            ("inclusive", &self.inclusive),
            ("transfer.spread", &self.transfer.spread),
            ("transfer.remote_dram", &self.transfer.remote_dram),
            ("transfer.remote_core", &self.transfer.remote_core),
            ("device_ways", &self.device_ways),
        ];
        all.extend(optional.into_iter().filter_map(|(name, constant)| Some((name, constant.as_ref()?))));
        all
    }

    /// Checks that each cache has a line per way, and that a device has at most the ways of the shared cache.
    fn validate_ways(&self) -> Result<(), ProfileError> {
        for (name, cache) in [("l1.ways", &self.l1), ("l2.ways", &self.l2), ("llc.ways", &self.llc)] {
            let (ways, lines) = (cache.ways.value, (cache.bytes.value / LINE as f64).floor());
            if ways > lines {
                return Err(ProfileError::WaysOverLines { name, ways, lines });
            }
        }
        let (limit, value) = (self.llc.ways.value, self.device_ways.as_ref().map_or(0.0, |ways| ways.value));
        let fits = value <= limit;
        if fits { Ok(()) } else { Err(ProfileError::TooLarge { name: "device_ways", value, limit }) }
    }

    /// Checks that no time rounds to zero: with a zero hold time, lines would move among cores without end; no divisor
    /// may be zero.
    fn validate_times(&self) -> Result<(), ProfileError> {
        for (name, constant) in self.constants() {
            let value = constant.value;
            let ticks = match name {
                "core.width" if value < 1.0 => {
                    let least = "it must be at least 1, an instruction in each cycle";
                    return Err(ProfileError::TooSmall { name, value, least });
                }
                "transfer.spread" => continue,
                "core.mispredict" | "core.store" | "core.store_l2" => Profile::cycles(constant),
                _ if name.ends_with("latency") => Profile::cycles(constant),
                _ if name.starts_with("transfer.") => self.nanoseconds(constant),
                _ => continue,
            };
            if ticks == 0 {
                let least = "it must be at least a sixteenth of a cycle";
                return Err(ProfileError::TooSmall { name, value, least });
            }
        }
        Ok(())
    }

    /// Ways of the shared cache that a device may fill.
    pub(super) fn device_ways(&self) -> usize {
        self.device_ways.as_ref().map_or(2, |ways| ways.value as usize).min(self.llc.ways.value as usize)
    }

    /// Converts cycles to ticks.
    pub(super) fn cycles(constant: &Constant) -> Time {
        (constant.value * TICKS as f64).round() as Time
    }

    /// Converts nanoseconds to ticks.
    pub(super) fn nanoseconds(&self, constant: &Constant) -> Time {
        (constant.value * self.frequency.value * TICKS as f64).round() as Time
    }
}
