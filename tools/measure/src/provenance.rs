//! The provenance of results: the build, and the simulator's profile or the machine.
//!
//! Results of different provenance are never joined in one set. Builds differ if their version or the fingerprint of
//! their sources differs; the commit is informative.

use serde::{Deserialize, Serialize};

use crate::{Processor, START, Seats, fingerprint};

/// The memory that results come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Real memory, timed
    Real,
    /// Real memory under hardware counters
    Counted,
    /// The simulator
    Simulated,
}

impl Kind {
    /// As it is typed and shown.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Real => "real",
            Kind::Counted => "counted",
            Kind::Simulated => "simulated",
        }
    }
}

/// The provenance of a set of results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Which laboratory
    pub build: Build,
    /// What it simulated; none for measured results
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileId>,
    /// Where it measured; none for simulated results, which are the same everywhere
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
}

/// A build of the laboratory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// As `linerate --version` says it
    pub version: String,
    /// That its sources are of, with `-changed` where they are of none; or `unknown`
    pub commit: String,
    /// A fingerprint of the laboratory's sources
    pub sources: String,
}

/// The [`Build`] of the calling crate, whose build script must have called `provenance::emit` of `build/provenance.rs`.
#[macro_export]
macro_rules! build_here {
    () => {
        $crate::provenance::Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("LINERATE_BUILD_COMMIT").to_owned(),
            sources: env!("LINERATE_BUILD_SOURCES").to_owned(),
        }
    };
}

/// The build of results that do not state one.
impl Default for Build {
    fn default() -> Self {
        let unknown = || "unknown".to_owned();
        Build { version: unknown(), commit: unknown(), sources: unknown() }
    }
}

impl std::fmt::Display for Build {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (commit {}, sources {})", self.version, self.commit, self.sources)
    }
}

/// A profile as results name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileId {
    /// As it calls itself
    pub name: String,
    /// Of all that it says
    pub fingerprint: String,
}

/// A machine as results name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model, with family
    pub processor: String,
    /// CPUs that the process might use
    pub cpus: usize,
    /// Which thread ran on which of them
    pub seats: String,
}

impl ProfileId {
    /// The identifier of a profile with this name; `text` must contain every value of the profile.
    pub fn new(name: &str, text: &str) -> ProfileId {
        let fingerprint = format!("{:016x}", fingerprint(START, text.as_bytes()));
        ProfileId { name: name.to_owned(), fingerprint }
    }
}

impl Machine {
    /// This machine, with its threads on these CPUs.
    pub fn here(processor: &Processor, seats: &Seats) -> Machine {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Machine { processor: processor.name.clone(), cpus, seats: seats.to_string() }
    }
}

impl Provenance {
    /// What is not alike, each with how it is there and here.
    pub fn differences(&self, here: &Provenance) -> Vec<String> {
        let mut differences = Vec::new();
        let mut compare = |what: &str, same: bool, there: String, here: String| {
            if !same {
                differences.push(format!("{what} {there} there, {here} here"));
            }
        };
        let builds = (&self.build, &here.build);
        let same = builds.0.version == builds.1.version && builds.0.sources == builds.1.sources;
        compare("build", same, builds.0.to_string(), builds.1.to_string());
        let profile = |provenance: &Provenance| {
            let said = |id: &ProfileId| format!("{} ({})", id.name, id.fingerprint);
            provenance.profile.as_ref().map_or_else(|| "none".to_owned(), said)
        };
        compare("profile", self.profile == here.profile, profile(self), profile(here));
        let machine = |provenance: &Provenance| {
            let said = |at: &Machine| format!("{}, {} CPUs, {}", at.processor, at.cpus, at.seats);
            provenance.machine.as_ref().map_or_else(|| "none".to_owned(), said)
        };
        compare("machine", self.machine == here.machine, machine(self), machine(here));
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_the_published_hash() {
        assert_eq!(fingerprint(START, b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fingerprint(START, b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fingerprint(fingerprint(START, b"foo"), b"bar"), 0x8594_4171_f739_67e8);
    }
}
