//! Each known cause is found from its evidence, and nothing is found without it.

use super::super::evidence::{Cpu, Evidence, Listeners, Port, Socket, Thread, Worker};
use super::super::findings::{Effect, Finding};
use super::super::proc::SocketFile;
use super::losses::REASONS;
use super::{CHECKS, all};
use crate::dataplane::bond_report::{BondState, LacpStatus, MemberState};
use crate::dataplane::health::HungWorker;
use crate::host::Host;
use crate::settings::config;
use engine::{PortSnapshot, QueueSnapshot, WorkerSnapshot};
use port::interface::{InterfaceError, Place};
use port::netns::NamespaceError;
use port::tap::TapError;
use port::{DropReason, PortFault};
use rustix::io::Errno;
use serde_json::json;
use std::collections::BTreeMap;

/// A port of a kind with a state, on the bridge `main`.
fn port(keys: &str, state: &str, reason: Option<&str>) -> Port {
    let file = format!("[[port]]\nname = \"red\"\n{keys}\n");
    let topology = config::parse(&file, &Host::of(&[0], &[0]), None).unwrap_or_else(|e| panic!("{e:?}"));
    let now = PortSnapshot {
        name: "red".to_owned(),
        state: state.to_owned(),
        reason: reason.map(str::to_owned),
        ..PortSnapshot::default()
    };
    Port { settings: topology.ports[0].clone(), before: Some(now.clone()), now: Some(now), socket: None }
}

const GUEST: &str = "socket = \"/tmp/lr-doctor.sock\"";
const CARD: &str = "kind = \"af_xdp\"\ninterface = \"lr-none\"";

/// A guest's port with its socket.
fn socket(state: &str, reason: Option<&str>, listens: bool, file: Option<u32>, other: usize) -> Port {
    let own = usize::from(listens);
    let socket = Socket {
        path: "/tmp/lr-doctor.sock".into(),
        listens,
        file: file.map(|mode| SocketFile { owner: 0, mode: 0o140_000 | mode }),
        listeners: Some(Listeners { own, other }),
    };
    Port { socket: Some(socket), ..port(GUEST, state, reason) }
}

/// A connected guest with regions of memory, features, and queues of which some run.
fn guest(regions: usize, features: &[&str], running: &[bool]) -> Port {
    let mut port = port(&format!("{GUEST}\nqueue_pairs = {}", running.len().max(1)), "connected", None);
    let now = port.now.as_mut().unwrap();
    now.memory_regions = regions;
    now.features = features.iter().map(|feature| (*feature).to_owned()).collect();
    let queue = |run: &bool| QueueSnapshot { size: 256, rx_running: *run, tx_running: *run };
    now.queues = running.iter().map(queue).collect();
    port
}

/// The port with other counters at the second reading.
fn counted(mut port: Port, change: impl FnOnce(&mut PortSnapshot)) -> Port {
    change(port.now.as_mut().unwrap());
    port
}

fn dropped(port: Port, reason: &str, packets: u64) -> Port {
    counted(port, |now| now.drops = BTreeMap::from([(reason.to_owned(), packets)]))
}

fn of_port(port: Port) -> Vec<Finding> {
    all(&Evidence { seconds: 2.0, ports: vec![port], ..Evidence::default() })
}

/// Checks that these causes are found, in this order, each with evidence.
fn names(findings: &[Finding], expected: &[&str]) {
    let found: Vec<_> = findings.iter().map(|finding| finding.check).collect();
    assert_eq!(found, expected, "{findings:?}");
    for finding in findings {
        let has_texts =
            !finding.cause.is_empty() && !finding.remedy.is_empty() && !finding.subject.is_empty();
        assert!(has_texts && !finding.evidence.is_empty(), "{finding:?}");
    }
}

#[test]
fn roles_and_files_of_sockets() {
    names(&of_port(socket("waiting", None, true, Some(0o777), 0)), &["socket-no-peer"]);
    names(&of_port(socket("waiting", None, true, Some(0o755), 0)), &["socket-no-peer", "socket-access"]);
    names(&of_port(socket("waiting", None, true, Some(0o777), 1)), &["socket-both-listen"]);
    names(&of_port(socket("waiting", None, true, None, 0)), &["socket-removed"]);
    let silent = PortFault::Unreachable(Errno::NOENT.to_string()).to_string();
    let silent = Some(silent.as_str());
    names(&of_port(socket("waiting", silent, false, None, 0)), &["socket-missing"]);
    names(&of_port(socket("waiting", silent, false, Some(0o777), 0)), &["socket-stale"]);
    names(&of_port(socket("waiting", silent, false, Some(0o777), 1)), &[]);
    let denied = PortFault::Unreachable(Errno::ACCESS.to_string()).to_string();
    names(&of_port(socket("waiting", Some(&denied), false, Some(0o700), 1)), &["socket-permission"]);
    names(&of_port(socket("connected", None, true, Some(0o755), 0)), &["memory-not-shared"]);
}

#[test]
fn memory_driver_and_queues_of_guests() {
    names(&of_port(guest(0, &[], &[])), &["memory-not-shared"]);
    names(&of_port(guest(2, &[], &[false])), &["driver-not-running"]);
    names(&of_port(guest(2, &["version-1"], &[true])), &[]);
    names(&of_port(guest(2, &["mq"], &[true, false])), &["queue-pairs"]);
    let refused =
        Some("the back end is incompatible with this port: the back end does not accept the features 0x1");
    names(&of_port(port(CARD, "waiting", refused)), &["features-refused"]);
}

#[test]
fn features_that_cost_packets_or_time() {
    let small = dropped(guest(2, &["version-1"], &[true]), "buffer-too-small", 5);
    names(&of_port(small), &["mergeable"]);
    let long = dropped(guest(2, &["mrg-rxbuf"], &[true]), "buffer-too-small", 5);
    names(&of_port(long), &["buffer-too-small"]);
    let used = |keys: &str, features: &[&str]| {
        let features = features.iter().map(|feature| (*feature).to_owned()).collect();
        counted(port(keys, "connected", None), |now| (now.features, now.rx_packets) = (features, 9))
    };
    names(&of_port(used(CARD, &["generic", "copy"])), &["af-xdp-copy"]);
    names(&of_port(used(CARD, &["native", "zero-copy"])), &[]);
    names(&of_port(used("kind = \"tap\"\ninterface = \"lr-none\"", &["CSUM", "calls"])), &["tap-calls"]);
    names(&of_port(used("kind = \"tap\"\ninterface = \"lr-none\"", &["CSUM", "uring"])), &[]);
}

#[test]
fn packets_that_the_switch_completes() {
    let receiver = |features: &[&str], completed: u64| {
        counted(guest(2, features, &[true]), |now| (now.tx_packets, now.completed) = (4000, completed))
    };
    names(&of_port(receiver(&["guest-csum"], 3900)), &["software-offload"]);
    names(&of_port(receiver(&["guest-csum", "guest-tso4", "guest-tso6"], 3900)), &[]);
    names(&of_port(receiver(&[], 100)), &[]);
}

#[test]
fn interfaces_and_other_reasons() {
    let place = || Place { interface: "lr-none".to_owned(), netns: None };
    let waits = |error: &dyn std::fmt::Display| {
        of_port(port(CARD, "waiting", Some(&PortFault::NotMade(error.to_string()).to_string())))
    };
    names(&waits(&InterfaceError::Missing(place())), &["interface-missing"]);
    names(&waits(&NamespaceError::Missing("/run/netns/x".into(), Errno::NOENT)), &["namespace-missing"]);
    names(&waits(&NamespaceError::Closed("/run/netns/x".into(), Errno::PERM)), &["namespace-missing"]);
    names(&waits(&TapError::Busy("lr-none".to_owned())), &["interface-in-use"]);
    names(&waits(&TapError::Denied("lr-none".to_owned())), &["privileges"]);
    names(&waits(&InterfaceError::Forbidden("loading the program", Errno::PERM, "")), &["privileges"]);
    names(&waits(&TapError::NoUring(String::new())), &["kernel-support"]);
    names(&waits(&TapError::NoTun(Errno::NOENT)), &["kernel-support"]);
    names(&waits(&"the driver of lr-none has no zero copy"), &["kernel-support"]);
    names(&waits(&"something else"), &["fault"]);
    let down = PortFault::InterfaceDown("lr-none".to_owned()).to_string();
    names(&of_port(port(CARD, "waiting", Some(&down))), &["interface-down"]);
    let lost = PortFault::MemoryLost.to_string();
    names(&of_port(socket("faulted", Some(&lost), true, Some(0o755), 0)), &["fault"]);
    names(&of_port(port(CARD, "connected", None)), &[]);
}

#[test]
fn sockets_that_cannot_be_created() {
    let waits = |error: &str| {
        let reason = PortFault::NotMade(error.to_owned()).to_string();
        of_port(socket("waiting", Some(&reason), true, None, 0))
    };
    names(&waits("/x/y: its directory does not exist"), &["socket-path"]);
    names(&waits("/x/y: another process listens on this socket"), &["socket-both-listen"]);
    names(&waits("/x/y: this process may not make the socket"), &["privileges"]);
    names(&waits("/x/y: cannot create the socket: Input/output error"), &["fault"]);
}

#[test]
fn queues_that_are_not_drained_and_slow_receivers() {
    let stuck = dropped(guest(2, &["mrg-rxbuf"], &[true]), "queue-full", 100);
    names(&of_port(stuck.clone()), &["not-draining"]);
    names(&of_port(counted(stuck, |now| now.tx_packets = 9)), &["queue-full"]);
}

#[test]
fn every_reason_of_drops_has_a_remedy() {
    let reasons: Vec<_> = REASONS.iter().map(|known| known.reason).collect();
    assert_eq!(reasons, DropReason::ALL);
    for known in REASONS {
        let port = counted(guest(2, &["mrg-rxbuf"], &[true]), |now| {
            now.tx_packets = 1;
            now.drops = BTreeMap::from([(known.reason.name().to_owned(), 3)]);
        });
        let findings = of_port(port.clone());
        let is_usual = matches!(known.reason, DropReason::FloodPortDown | DropReason::BondInactive);
        names(&findings, if is_usual { &[] } else { std::slice::from_ref(&findings[0].check) });
        assert!(is_usual || findings[0].check == known.reason.name(), "{findings:?}");
        // Packets that were dropped before are none that are dropped now.
        names(&of_port(Port { before: port.now.clone(), ..port }), &[]);
    }
}

#[test]
fn members_of_bonds_that_are_not_used() {
    let state = |enabled: [bool; 2]| {
        let member = |port: &str, enabled: bool| {
            let (changes_in, lacp) = (None, None);
            MemberState { port: port.to_owned(), up: enabled, enabled, changes_in, buckets: 0, load: 0, lacp }
        };
        let members = vec![member("a", enabled[0]), member("b", enabled[1])];
        let (active, buckets) = (None, Vec::new());
        let live =
            BondState { lacp: LacpStatus::Off, active, members, buckets, rebalance_in: None, moves: 0 };
        all(&Evidence { bonds: BTreeMap::from([("up".to_owned(), live)]), ..Evidence::default() })
    };
    names(&state([true, true]), &[]);
    let findings = state([true, false]);
    names(&findings, &["bond-member"]);
    assert_eq!(findings[0].evidence, ["member b: its link is down"]);
    names(&state([false, false]), &["bond-down"]);
}

#[test]
fn controllers_that_are_away() {
    let state = |state: &str| {
        let controller = json!({ "target": "tcp:127.0.0.1:6653", "state": state, "seconds": 4, "sessions": 0,
            "received": 0, "sent": 0, "discarded": 0, "last_error": "refused" });
        let openflow = json!({ "datapath_id": "00000000000000aa", "standalone": false,
            "controllers": [controller, controller] });
        let bridge = json!({ "name": "main", "addresses": 0, "table": 0, "ports": [], "refused_moves": [],
            "openflow": openflow });
        let bridges = vec![serde_json::from_value(bridge).unwrap()];
        all(&Evidence { bridges, ..Evidence::default() })
    };
    names(&state("connected"), &[]);
    names(&state("listening"), &[]);
    let findings = state("waiting");
    names(&findings, &["controller-away"]);
    assert_eq!(findings[0].evidence, ["tcp:127.0.0.1:6653 for 4 s: refused"; 2]);
}

/// A worker on CPU 1 that spends a share of its time with packets.
fn worker(busy: f64) -> Worker {
    let now = WorkerSnapshot { index: 0, cpu: Some(1), polls: 10, queues: 1, ..WorkerSnapshot::default() };
    Worker { busy, waited: Some(0.0), now, ..Worker::default() }
}

fn of_worker(worker: Worker, cpus: &[(usize, Cpu)]) -> Vec<Finding> {
    let cpus = cpus.iter().cloned().collect();
    all(&Evidence { seconds: 2.0, workers: vec![worker], cpus, huge_pages: Some(1), ..Evidence::default() })
}

#[test]
fn workers_that_hang_or_have_no_time() {
    names(&of_worker(worker(0.5), &[]), &[]);
    names(&of_worker(worker(0.99), &[]), &["worker-saturated"]);
    let now = WorkerSnapshot::default();
    names(&of_worker(Worker { now: now.clone(), ..Worker::default() }, &[]), &["worker-hung"]);
    names(
        &of_worker(Worker { now: WorkerSnapshot { sleeping: true, ..now }, ..Worker::default() }, &[]),
        &[],
    );
    let idle = WorkerSnapshot { idle_cycles: 9, ..WorkerSnapshot::default() };
    names(&of_worker(Worker { now: idle, ..Worker::default() }, &[]), &[]);
    let hung = vec![HungWorker { seconds: 9, ..HungWorker::default() }];
    let evidence = Evidence { workers: vec![worker(0.0)], hung, ..Evidence::default() };
    names(&all(&evidence), &["worker-hung"]);
    let mut empty = worker(0.5);
    empty.now.pool.empty = 4;
    names(&of_worker(empty, &[]), &["buffers-empty"]);
}

#[test]
fn cpus_that_workers_share() {
    let thread = |process: &str, name: &str, share: f64| Thread {
        process: process.to_owned(),
        name: name.to_owned(),
        pid: 7,
        share,
    };
    let shared = |others: Vec<Thread>| [(1, Cpu { others, ..Cpu::default() })];
    let waits = || Worker { waited: Some(0.4), ..worker(0.5) };
    let findings = of_worker(waits(), &shared(vec![thread("cc1plus", "cc1plus", 0.5)]));
    names(&findings, &["cpu-shared"]);
    assert_eq!(findings[0].evidence[1], "cc1plus (process 7, thread cc1plus) used 50 % of it");
    names(&of_worker(waits(), &shared(vec![])), &["cpu-shared"]);
    names(&of_worker(worker(0.5), &shared(vec![thread("cc1plus", "cc1plus", 0.5)])), &[]);
    names(&of_worker(waits(), &shared(vec![thread("qemu-system-x86", "CPU 0/KVM", 0.5)])), &["cpu-guest"]);
    let sibling =
        |busy: f64| [(1, Cpu { siblings: vec![3], ..Cpu::default() }), (3, Cpu { busy, ..Cpu::default() })];
    names(&of_worker(worker(0.5), &sibling(0.8)), &["cpu-sibling"]);
    names(&of_worker(worker(0.5), &sibling(0.1)), &[]);
    let mut moved = worker(0.5);
    moved.now.cpu = None;
    names(&of_worker(moved, &sibling(0.1)), &["cpu-unpinned"]);
}

#[test]
fn causes_in_the_machine() {
    let governed = |governor: &str| [(1, Cpu { governor: Some(governor.to_owned()), ..Cpu::default() })];
    names(&of_worker(worker(0.5), &governed("powersave")), &["cpu-governor"]);
    names(&of_worker(worker(0.5), &governed("performance")), &[]);
    names(&of_worker(worker(0.0), &governed("powersave")), &[]);
    names(&of_worker(worker(0.0), &[(1, Cpu { stolen: 0.2, ..Cpu::default() })]), &["cpu-steal"]);
    let workers = vec![worker(0.99)];
    let evidence = Evidence { seconds: 2.0, workers, huge_pages: Some(0), ..Evidence::default() };
    names(&all(&evidence), &["worker-saturated", "huge-pages"]);
}

/// The control API does not read which processes listen.
#[test]
fn sockets_without_their_listeners() {
    let unread = |mut port: Port| {
        port.socket.as_mut().unwrap().listeners = None;
        of_port(port)
    };
    let alone = unread(socket("waiting", None, true, Some(0o777), 0));
    names(&alone, &["socket-no-peer"]);
    assert!(alone[0].remedy.ends_with("`linerate doctor`"), "{alone:?}");
    let refused = PortFault::Unreachable(Errno::CONNREFUSED.to_string()).to_string();
    names(&unread(socket("waiting", Some(&refused), false, Some(0o777), 0)), &["socket-stale"]);
    names(&unread(socket("waiting", None, false, Some(0o777), 0)), &[]);
}

#[test]
fn addresses_whose_move_was_refused() {
    let moved = |age: u32| json!({ "mac": "02:00:00:00:00:01", "vlan": 0, "old_port": "a", "new_port": "red", "age": age });
    let bridge = json!({ "name": "main", "addresses": 0, "table": 0, "ports": [],
        "refused_moves": [moved(3), moved(90)] });
    let bridges = vec![serde_json::from_value(bridge).unwrap()];
    let ports = vec![dropped(guest(2, &["mrg-rxbuf"], &[true]), "mac-move-refused", 5)];
    let findings = all(&Evidence { seconds: 2.0, ports, bridges, ..Evidence::default() });
    names(&findings, &["mac-move-refused"]);
    assert_eq!(findings[0].evidence[1..], ["02:00:00:00:00:01 is in use at port a"]);
}

/// Drops that are no finding raise no alert, and no warning on the page.
#[test]
fn usual_drops_are_no_fault_anywhere() {
    let rules = include_str!("../../../../contrib/prometheus/linerate.rules.yml");
    let page = include_str!("../../web/page/rates.js");
    let line = |text: &'static str, part: &str| text.lines().find(|line| line.contains(part)).unwrap();
    let places = [line(rules, "reason!~"), line(page, "const HARMLESS")];
    for known in REASONS.iter().filter(|known| !known.is_cause) {
        assert!(places.iter().all(|place| place.contains(known.reason.name())), "{}", known.reason.name());
    }
}

#[test]
fn findings_are_ordered_by_their_effect() {
    let ports = vec![
        dropped(guest(2, &["mrg-rxbuf"], &[true, false]), "too-long", 1),
        port(CARD, "waiting", Some("there is no interface lr-none")),
    ];
    let findings = all(&Evidence { seconds: 2.0, ports, ..Evidence::default() });
    let effects: Vec<_> = findings.iter().map(|finding| finding.effect).collect();
    assert_eq!(effects, [Effect::Down, Effect::Loss, Effect::Slow]);
}

/// The page of the guide has the table of causes and that of drops.
#[test]
fn the_guide_has_every_cause_with_its_remedy() {
    let page = include_str!("../../../../docs/guide/doctor.md");
    let cell = |text: &str| text.replace('|', "\\|").replace('<', "\\<");
    let causes = CHECKS.iter().map(|check| {
        format!(
            "| `{}` | {} | {} | {} |",
            check.name,
            check.effect.name(),
            cell(check.cause),
            cell(check.remedy)
        )
    });
    let drops = REASONS.iter().map(|known| format!("| `{}` | {} |", known.reason.name(), cell(known.remedy)));
    let missing: Vec<_> = causes.chain(drops).filter(|row| !page.lines().any(|line| line == row)).collect();
    assert!(missing.is_empty(), "rows that docs/guide/doctor.md lacks:\n{}", missing.join("\n"));
}
