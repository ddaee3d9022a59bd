//! Capabilities of the calling thread.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set, set_capabilities,
};
use std::io;

/// One capability.
pub type Capability = CapabilitySet;

/// Capabilities that the calling thread may use.
///
/// # Errors
/// The error of the kernel.
pub fn held() -> io::Result<CapabilitySet> {
    Ok(capabilities(None)?.permitted)
}

/// Names such as `CAP_NET_ADMIN`. Those of newer kernels than this program have numbers.
pub fn names(set: CapabilitySet) -> Vec<String> {
    let named = set.iter_names().map(|(name, _)| format!("CAP_{name}"));
    let known = CapabilitySet::all().bits() & !unnamed();
    let others = (0..u64::BITS).filter(|bit| set.bits() & !known & 1 << bit != 0);
    named.chain(others.map(|bit| format!("capability {bit}"))).collect()
}

/// Bits without a name.
fn unnamed() -> u64 {
    let named = CapabilitySet::all().iter_names().fold(0, |bits, (_, one)| bits | one.bits());
    !named
}

/// Drops all capabilities but those of `wanted`, and lets programs that the thread executes have the rest. Returns the
/// dropped ones.
///
/// A program that root executes, or one with capabilities of its file, gets at most those of its parent, because of
/// `no_new_privs`. The program of any other user gets the ambient set, so that it is equal to the kept one.
pub(crate) fn keep(wanted: CapabilitySet) -> io::Result<CapabilitySet> {
    let before = capabilities(None)?.permitted;
    let kept = before & wanted;
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: kept })?;
    for (_, capability) in kept.iter_names() {
        // Refused if the process has given this up (SECBIT_NO_CAP_AMBIENT_RAISE).
        let _ = configure_capability_in_ambient_set(capability, true);
    }
    Ok(before - kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a thread of its own, because capabilities belong to threads.
    #[test]
    fn other_capabilities_are_dropped_for_good() {
        let dropped = std::thread::spawn(|| {
            let before = held().unwrap();
            let wanted = CapabilitySet::NET_RAW;
            let dropped = keep(wanted).unwrap();
            assert_eq!(held().unwrap(), before & wanted);
            assert_eq!(dropped, before - wanted);
            assert_eq!(keep(CapabilitySet::all()).unwrap(), CapabilitySet::empty());
            assert_eq!(held().unwrap(), before & wanted, "a dropped capability came back");
            dropped
        });
        assert!(!dropped.join().unwrap().contains(CapabilitySet::NET_RAW));
    }

    /// As `linerate upgrade` starts the next process.
    #[test]
    fn an_executed_program_has_the_kept_capabilities() {
        let (kept, output) = std::thread::spawn(|| {
            keep(CapabilitySet::NET_ADMIN | CapabilitySet::DAC_OVERRIDE).unwrap();
            rustix::thread::set_no_new_privs(true).unwrap();
            let output = std::process::Command::new("grep").args(["CapPrm", "/proc/self/status"]).output();
            (held().unwrap(), output.unwrap())
        })
        .join()
        .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let set = u64::from_str_radix(text.trim().rsplit('\t').next().unwrap(), 16).unwrap();
        assert_eq!(CapabilitySet::from_bits_retain(set), kept, "{text}");
    }

    #[test]
    fn names_are_those_of_the_manual() {
        let set = CapabilitySet::NET_ADMIN | CapabilitySet::BPF;
        assert_eq!(names(set), ["CAP_NET_ADMIN", "CAP_BPF"]);
        assert_eq!(names(CapabilitySet::from_bits_retain(1 << 60)), ["capability 60"]);
        assert!(names(CapabilitySet::empty()).is_empty());
    }
}
