//! A processor as data: every constant of the simulator with where it was taken from.
//!
//! Profiles are TOML files; those that come with the laboratory are in `lab/sim/profiles`. A constant without a source is
//! refused, and so is a profile with more than three free (fitted) ones.

use serde::Deserialize;

use super::{TICKS, Time};
use crate::memory::LINE;

/// One constant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// In the unit that its field says
    pub value: f64,
    /// Where it was taken from
    pub source: String,
    /// Fitted, not taken from anywhere
    #[serde(default)]
    pub free: bool,
}

/// A cache's size and speed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConstants {
    /// Bytes
    pub bytes: Constant,
    /// Ways
    pub ways: Constant,
    /// Cycles from a load to its value
    pub latency: Constant,
}

/// The core.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreConstants {
    /// Instructions issued a cycle
    pub width: Constant,
    /// Instructions in flight
    pub reorder_buffer: Constant,
    /// Stores on their way out
    pub store_buffer: Constant,
    /// Lines on their way in
    pub fill_buffers: Constant,
    /// Cycles lost to a branch that was foreseen wrongly
    pub mispredict: Constant,
    /// Cycles between two stores to a line of the first level
    pub store: Constant,
    /// The same for a line of the second level
    pub store_l2: Constant,
}

/// What goes between cores and to memory, in nanoseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferConstants {
    /// A line from memory
    pub dram: Constant,
    /// Between two lines from memory
    pub dram_interval: Constant,
    /// A line that another core has, unchanged
    pub core_clean: Constant,
    /// A line that another core has changed
    pub core_modified: Constant,
    /// The right to write a line that is here and elsewhere
    pub upgrade: Constant,
    /// How long a line that was just won stays
    pub hold: Constant,
    /// How long a buffer is taken by a line that is written past the caches
    pub drain: Constant,
    /// By what part these times differ from one line and moment to another, up and down; exact if nothing is said
    pub spread: Option<Constant>,
    /// A line from another socket's memory, where there is another socket
    pub remote_dram: Option<Constant>,
    /// A line from another socket's core or shared cache, or the right to write it
    pub remote_core: Option<Constant>,
}

/// Which states a line can have beside modified, exclusive, shared and invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// Forward: one sharer answers for the others; a changed line is written back when it is shared
    Mesif,
    /// Owned: a changed line can be shared without being written back
    Moesi,
}

/// A processor.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// As people call it
    pub name: String,
    /// GHz
    pub frequency: Constant,
    /// The states of a line
    pub protocol: Protocol,
    /// 1: a changed line moves whole to whoever reads it; 0: it is shared
    pub migratory: Constant,
    /// 1: the shared cache has all that its socket's private ones have; 0 or nothing: it takes what they evict
    pub inclusive: Option<Constant>,
    /// Lines that the second level's stream prefetcher fetches at a time
    pub l2_stream: Constant,
    /// The core
    pub core: CoreConstants,
    /// First level
    pub l1: CacheConstants,
    /// Second level
    pub l2: CacheConstants,
    /// The shared cache, which takes what the second levels evict
    pub llc: CacheConstants,
    /// Ways of the shared cache that a device may fill; 2 if nothing is said (Intel's DDIO as it comes)
    pub device_ways: Option<Constant>,
    /// CLDEMOTE moves a line to the shared cache; where it does not, it is a hint without effect
    #[serde(default)]
    pub demote: bool,
    /// Between cores and to memory
    pub transfer: TransferConstants,
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Not TOML, or not of this shape
    #[error("the profile cannot be read: {0}")]
    Shape(#[from] toml::de::Error),
    /// A constant without a source
    #[error("`{0}` has no source, so its results would mean nothing: say where it was taken from")]
    NoSource(&'static str),
    /// A constant that is no size or time
    #[error("`{name}` is {value}, which no processor has: it must be a number above zero")]
    NotPositive {
        /// Which
        name: &'static str,
        /// What it says
        value: f64,
    },
    /// A count that is none
    #[error("`{name}` is {value}, and there is no part of one: it must be a whole number")]
    NotWhole {
        /// Which
        name: &'static str,
        /// What it says
        value: f64,
    },
    /// A size or time that no processor has
    #[error("`{name}` is {value}, more than the simulator can honour: it must be at most {limit}")]
    TooLarge {
        /// Which
        name: &'static str,
        /// What it says
        value: f64,
        /// The most
        limit: f64,
    },
    /// A time or width of which nothing is left in the simulator's units
    #[error("`{name}` is {value}, less than the simulator can honour: {least}")]
    TooSmall {
        /// Which
        name: &'static str,
        /// What it says
        value: f64,
        /// What it must be
        least: &'static str,
    },
    /// A cache that has no line for each of its ways
    #[error(
        "`{name}` is {ways}, but the cache has only {lines} lines: it must have at least one for each way"
    )]
    WaysOverLines {
        /// Which cache's ways
        name: &'static str,
        /// What it says
        ways: f64,
        /// Lines of the cache
        lines: f64,
    },
    /// More free constants than a fit can bear
    #[error(
        "{0} constants are free; at most two may be, for the model has a third, and with more anything fits"
    )]
    TooFree(usize),
}

/// The most that a constant may be: what keeps a run's time and memory within bounds, and times within 64 bits.
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
    // What is a switch may be off.
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
    /// The published study's processor.
    pub fn study() -> Profile {
        // A test reads every profile that comes with the laboratory, so this one can be read.
        Profile::parse(STUDY).unwrap_or_else(|error| unreachable!("the study's profile: {error}"))
    }

    /// Two sockets of its cores.
    pub fn two_sockets() -> Profile {
        Profile::parse(TWO_SOCKETS).unwrap_or_else(|error| unreachable!("the two sockets' profile: {error}"))
    }

    /// Reads and judges a profile.
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

    /// All constants by name.
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

    /// Each cache has a line for each way, and a device no more ways than there are.
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

    /// No time comes to nothing: lines that nobody holds would go round among cores for ever, and nothing divides by it.
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

    /// Ticks in so many cycles.
    pub(super) fn cycles(constant: &Constant) -> Time {
        (constant.value * TICKS as f64).round() as Time
    }

    /// Ticks in so many nanoseconds.
    pub(super) fn nanoseconds(&self, constant: &Constant) -> Time {
        (constant.value * self.frequency.value * TICKS as f64).round() as Time
    }
}
