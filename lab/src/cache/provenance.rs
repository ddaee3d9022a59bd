//! How results were provenance: by which build, with which profile or on which machine.
//!
//! Results of two makes must not stand in one set, since nobody could say what differs between their rows. What counts as
//! another make of the laboratory is another version or other sources; the commit is for people, who can look it up.

use serde::{Deserialize, Serialize};

use super::fingerprint::{START, fingerprint};
use super::real::{Processor, Seats};
use super::simulated::Profile;

/// How results were provenance.
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

impl Build {
    /// This one.
    pub fn here() -> Build {
        Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("LINERATE_LAB_COMMIT").to_owned(),
            sources: env!("LINERATE_LAB_SOURCES").to_owned(),
        }
    }
}

/// Results from before builds were told.
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

impl Provenance {
    /// By this build, in the simulator.
    pub fn simulated(profile: &Profile) -> Provenance {
        // Everything that a profile says is in its debug text, new fields too.
        let text = format!("{profile:?}");
        let fingerprint = format!("{:016x}", fingerprint(START, text.as_bytes()));
        let profile = Some(ProfileId { name: profile.name.clone(), fingerprint });
        Provenance { build: Build::here(), profile, machine: None }
    }

    /// By this build, on this machine.
    pub fn measured(processor: &Processor, seats: &Seats) -> Provenance {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let machine = Machine { processor: processor.name.clone(), cpus, seats: seats.to_string() };
        Provenance { build: Build::here(), profile: None, machine: Some(machine) }
    }

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

    #[test]
    fn a_build_knows_its_sources_and_another_commit_of_the_same_sources_is_no_other_build() {
        let here = Provenance::simulated(&Profile::study());
        assert_eq!(here.build.sources.len(), 16);
        let mut other = here.clone();
        other.build.commit = "0123456789ab".to_owned();
        assert_eq!(other.differences(&here), Vec::<String>::new());
        other.build.sources = "ffffffffffffffff".to_owned();
        assert_eq!(other.differences(&here).len(), 1, "{:?}", other.differences(&here));
    }

    #[test]
    fn any_constant_and_any_machine_makes_a_difference() {
        let here = Provenance::simulated(&Profile::study());
        let mut profile = Profile::study();
        profile.demote = !profile.demote;
        let said = Provenance::simulated(&profile).differences(&here);
        assert!(said.len() == 1 && said[0].starts_with("profile "), "{said:?}");
        let measured = |cpus| Provenance {
            machine: Some(Machine { cpus, ..Machine::default() }),
            ..Provenance::default()
        };
        assert!(measured(2).differences(&measured(4))[0].contains("4 CPUs"));
    }
}
