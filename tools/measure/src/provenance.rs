//! The provenance of results: the build, and the simulator's profile or the machine.
//!
//! Results of different provenance are never joined in one set. Builds differ if their version or the fingerprint of
//! their sources differs; the commit is informative.

use serde::{Deserialize, Serialize};

use crate::{CpuPinning, Processor, START, fingerprint};

/// Memory model of the results.
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
    /// Name on the command line and in output.
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
    /// Build of the laboratory
    pub build: Build,
    /// Simulated profile; `None` for measured results
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileId>,
    /// Machine of the measurement; `None` for simulated results, which do not depend on the machine
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
}

/// A build of the laboratory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Package version, as printed by `linerate --version`
    pub version: String,
    /// Commit of the sources, with the suffix `-changed` if they have uncommitted changes; or `unknown`
    pub commit: String,
    /// Fingerprint of the laboratory's sources
    pub sources: String,
}

/// The [`Build`] of the calling crate, whose build script must call `provenance::emit` of `build/provenance.rs`.
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

/// The build of results that do not name one: `unknown`.
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

/// Identifier of a simulator profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileId {
    /// Profile name
    pub name: String,
    /// Fingerprint of all values of the profile
    pub fingerprint: String,
}

/// Machine of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model, with family
    pub processor: String,
    /// CPUs available to the process
    pub cpus: usize,
    /// Assignment of threads to CPUs
    pub pinning: String,
}

impl ProfileId {
    /// The identifier of a profile with this name; `text` must contain every value of the profile.
    pub fn new(name: &str, text: &str) -> ProfileId {
        let fingerprint = format!("{:016x}", fingerprint(START, text.as_bytes()));
        ProfileId { name: name.to_owned(), fingerprint }
    }
}

impl Machine {
    /// This machine, with threads placed as in `pinning`.
    pub fn here(processor: &Processor, pinning: &CpuPinning) -> Machine {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Machine { processor: processor.name.clone(), cpus, pinning: pinning.to_string() }
    }
}

impl Provenance {
    /// The differences between the two, each with the value there and here.
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
            let said = |at: &Machine| format!("{}, {} CPUs, {}", at.processor, at.cpus, at.pinning);
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
    fn fingerprint_matches_published_fnv1a() {
        assert_eq!(fingerprint(START, b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fingerprint(START, b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fingerprint(fingerprint(START, b"foo"), b"bar"), 0x8594_4171_f739_67e8);
    }
}
