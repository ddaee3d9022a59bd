//! Provenance of results that this build produces.

use measure::provenance::{Build, Machine, ProfileId, Provenance};
use measure::{CpuPinning, Processor};
use sim::Profile;

/// Returns the id of this build of the laboratory.
pub fn build() -> Build {
    measure::build_here!()
}

/// Returns the provenance of simulated results under a profile.
pub fn simulated(profile: &Profile) -> Provenance {
    // The debug text contains every field of a profile, including fields added later.
    let profile = Some(ProfileId::new(&profile.name, &format!("{profile:?}")));
    Provenance { build: build(), profile, machine: None }
}

/// Returns the provenance of results measured on this machine.
pub fn measured(processor: &Processor, pinning: &CpuPinning) -> Provenance {
    Provenance { build: build(), profile: None, machine: Some(Machine::here(processor, pinning)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_of_equal_sources_are_equal_across_commits() {
        let here = simulated(&Profile::study());
        assert_eq!(here.build.sources.len(), 16);
        let mut other = here.clone();
        other.build.commit = "0123456789ab".to_owned();
        assert_eq!(other.differences(&here), Vec::<String>::new());
        other.build.sources = "ffffffffffffffff".to_owned();
        assert_eq!(other.differences(&here).len(), 1, "{:?}", other.differences(&here));
    }

    #[test]
    fn changed_constant_or_machine_is_reported_as_a_difference() {
        let here = simulated(&Profile::study());
        let mut profile = Profile::study();
        profile.demote = !profile.demote;
        let said = simulated(&profile).differences(&here);
        assert!(said.len() == 1 && said[0].starts_with("profile "), "{said:?}");
        let measured = |cpus| Provenance {
            machine: Some(Machine { cpus, ..Machine::default() }),
            ..Provenance::default()
        };
        assert!(measured(2).differences(&measured(4))[0].contains("4 CPUs"));
    }
}
