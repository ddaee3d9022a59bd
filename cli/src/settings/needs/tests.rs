use super::*;
use crate::host::Host;
use crate::settings::{config, kinds};

fn topology(text: &str) -> Topology {
    config::parse(text, &Host::of(&[0], &[0]), None).unwrap()
}

fn kept(switch: &str, ports: &str) -> Kept {
    Kept::of(&topology(&format!("[switch]\n{switch}\n{ports}"))).unwrap()
}

const GUEST: &str = "[[port]]\nname = \"a\"\nsocket = \"/tmp/lr-a.sock\"\n";
const TAP: &str = "[[port]]\nname = \"t\"\nkind = \"tap\"\ninterface = \"lr-t\"\n";

#[test]
fn the_table_has_every_kind_of_port() {
    let mut kinds: Vec<_> = kinds::all().map(|(name, _)| name).chain(["granted", NETNS]).collect();
    let mut rows: Vec<_> = NEEDS.iter().map(|(name, _)| *name).collect();
    kinds.sort_unstable();
    rows.sort_unstable();
    assert_eq!(rows, kinds);
}

#[test]
fn by_default_every_kind_may_be_added_later() {
    let all = kept("", GUEST);
    for capability in [CapabilitySet::NET_ADMIN, CapabilitySet::NET_RAW, CapabilitySet::BPF] {
        assert!(all.capabilities.contains(capability));
    }
    for capability in [CapabilitySet::SYS_MODULE, CapabilitySet::SETUID, CapabilitySet::SYS_RAWIO] {
        assert!(!all.capabilities.contains(capability));
    }
    assert_eq!(all.features, Features { io_uring: true, bpf: true, namespaces: true });
}

#[test]
fn only_kinds_of_the_file_and_named_ones_are_kept() {
    let guests = kept("runtime_kinds = []", GUEST);
    assert_eq!((guests.capabilities, guests.features), (FILES, Features::default()));
    let taps = kept("runtime_kinds = [\"tap\"]", GUEST);
    assert_eq!(taps.capabilities, FILES | CapabilitySet::NET_ADMIN | LOCKED);
    assert!(taps.features.io_uring && !taps.features.bpf && !taps.features.namespaces);
    assert_eq!(kept("runtime_kinds = []", &format!("{GUEST}{TAP}")), taps);
    let named = format!("{TAP}netns = \"blue\"\n");
    let named = kept("runtime_kinds = []", &named);
    assert!(named.features.namespaces && named.capabilities.contains(CapabilitySet::SYS_ADMIN));
}

#[test]
fn files_that_connections_read_again_stay_readable() {
    let reads = |kept: Kept| kept.capabilities.contains(CapabilitySet::DAC_OVERRIDE);
    assert!(!reads(kept("runtime_kinds = []", TAP)));
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, "").unwrap();
        path.display().to_string()
    };
    let (key, certificate, other) = (file("key"), file("certificate"), file("other"));
    let api = format!(
        "runtime_kinds = []\napi = {{ address = \"127.0.0.1:9443\", private_key = \"{key}\", \
         certificate = \"{certificate}\", token_file = \"{other}\" }}"
    );
    assert!(reads(kept(&api, TAP)));
    let bridge = format!(
        "[[bridge]]\nname = \"main\"\npipeline = \"openflow\"\ncontrollers = [\"ssl:192.0.2.1\"]\n[bridge.tls]\n\
         private_key = \"{key}\"\ncertificate = \"{certificate}\"\nca_certificate = \"{other}\"\n{TAP}"
    );
    assert!(reads(kept("runtime_kinds = []", &bridge)));
}

#[test]
fn nothing_is_given_up_without_confinement() {
    assert_eq!(Kept::of(&topology(&format!("[switch]\nconfine = false\n{GUEST}"))), None);
}

#[test]
fn a_port_that_needs_more_is_refused_with_the_key() {
    let taps = topology(TAP).ports.remove(0);
    let error = kept("runtime_kinds = []", GUEST).refusal(&taps).unwrap().to_string();
    for part in ["port \"t\"", "kind \"tap\"", "CAP_NET_ADMIN", "`runtime_kinds`", "\"tap\""] {
        assert!(error.contains(part), "{error}");
    }
    let there = topology(&format!("{TAP}netns = \"blue\"\n")).ports.remove(0);
    let error = kept("runtime_kinds = [\"tap\"]", GUEST).refusal(&there).unwrap().to_string();
    assert!(error.contains("CAP_SYS_ADMIN") && error.contains("\"netns\""), "{error}");
    let guest = topology(GUEST).ports.remove(0);
    for kept in [kept("runtime_kinds = []", GUEST), kept("runtime_kinds = [\"memif\"]", TAP), kept("", TAP)] {
        assert_eq!(kept.refusal(&guest), None);
    }
    assert_eq!(kept("runtime_kinds = [\"tap\"]", GUEST).refusal(&taps), None);
}

#[test]
fn directories_of_the_configuration_are_those_of_its_files() {
    let text = format!("{GUEST}capture = \"/tmp/lr-none.pcapng\"\n");
    let own = own_directories(&topology(&text), Path::new("/run/x/control.sock"));
    assert_eq!(own, [Path::new("/run/x"), Path::new("/tmp"), Path::new("/tmp")]);
}
