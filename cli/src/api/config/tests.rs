//! With a real data plane.

use super::super::source::{Overrides, Source};
use super::*;
use crate::api::error::ApiError;
use crate::api::fake::Fake;
use crate::api::model::BondReport;
use crate::dataplane::health::{Progress, STALL};
use crate::dataplane::interface::DataPlane;
use crate::dataplane::report::StationFilter;
use crate::dataplane::switch::Switch;
use crate::host::Host;
use crate::settings::policy::Policy;
use engine::WorkerSnapshot;
use serde_json::json;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

mod edits;

const FILE: &str = "[[bridge]]\nname = \"main\"\n[[bridge.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"b\"\n\
    [[port]]\nname = \"a\"\nkind = \"null\"\n[[port]]\nname = \"b\"\nkind = \"null\"\nvlan = 5\n";

/// A port that cannot be opened.
const BAD: &str = "[[port]]\nname = \"bad\"\nkind = \"af_packet\"\ninterface = \"lr-none\"\n";

/// A running switch with a directory for its sockets, which is removed with the process.
fn running(text: &str) -> ApiService {
    let start = |topology: &Topology| {
        let (switch, deferred) = Switch::start(topology).unwrap();
        assert!(deferred.is_empty(), "{deferred:?}");
        Box::new(switch) as Box<dyn DataPlane>
    };
    with(text, start)
}

fn with(text: &str, start: impl FnOnce(&Topology) -> Box<dyn DataPlane>) -> ApiService {
    static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
    let control = FOLDER.path().join("c.sock");
    let topology = config::parse(text, &Host::here(), Some(&control));
    let topology = topology.unwrap_or_else(|e| panic!("{e:?} in\n{text}"));
    let data_plane = start(&topology);
    let overrides = Overrides { control: Some(control), ..Overrides::default() };
    let source =
        Source { file: "/f.toml".into(), text: text.to_owned(), overrides, topology: topology.clone() };
    ApiService::new(topology, "/c.sock".into(), data_plane, || {}).with_source(source)
}

fn apply(service: &ApiService, text: &str) -> Result<Applied, ApiError> {
    service.apply((Path::new("/f.toml"), text), false, &Peer::own())
}

/// Names and numbers of the ports that forward, static entries, and the configuration.
fn state(service: &ApiService) -> (Vec<(String, u16)>, Vec<String>, Topology) {
    let mut ports: Vec<_> = service.snapshot().ports.into_iter().map(|port| (port.name, port.id)).collect();
    ports.sort();
    let entries = service.fdb(&StationFilter::default()).unwrap().entries;
    let entries = entries.iter().map(|entry| format!("{} {} {}", entry.mac, entry.port, entry.vlan));
    (ports, entries.collect(), service.topology().clone())
}

fn names(service: &ApiService) -> Vec<String> {
    state(service).0.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn only_ports_that_differ_are_touched() {
    let service = running(FILE);
    let before = state(&service);
    let new = FILE.replace("vlan = 5", "vlan = 6") + "[[port]]\nname = \"c\"\nkind = \"null\"\n";
    let applied = apply(&service, &new).unwrap();
    let changes: Vec<_> =
        applied.changes.iter().map(|change| (change.action.name(), change.object.as_str())).collect();
    assert_eq!(changes, [("replace", "port \"b\""), ("add", "port \"c\"")]);
    let (ports, entries, topology) = state(&service);
    assert_eq!(ports[0], before.0[0]);
    assert_eq!(names(&service), ["a", "b", "c"]);
    assert_eq!(entries, ["02:00:00:00:00:01 b 6"], "the static entry returns with its port");
    assert!(Changes::between(&topology, &config::parse(&new, &Host::here(), None).unwrap()).ports.is_empty());
    assert!(apply(&service, &new).unwrap().changes.is_empty());
    assert_eq!(service.configuration().unwrap().text, new);
}

#[test]
fn a_port_that_cannot_be_added_changes_nothing() {
    let service = running(FILE);
    let before = state(&service);
    let without = FILE.split_once("[[port]]\nname = \"a\"\nkind = \"null\"\n").unwrap();
    let error = apply(&service, &format!("{}{}{BAD}", without.0, without.1)).unwrap_err().into_diagnostic();
    assert!(error.reason.ends_with("the configuration of before runs again"), "{error:?}");
    assert_eq!(state(&service), before, "ports have their numbers: none was removed");
}

#[test]
fn a_port_whose_new_settings_fail_runs_with_the_old_ones_again() {
    let service = running(FILE);
    let (_, entries, topology) = state(&service);
    let new = FILE.replace(
        "name = \"b\"\nkind = \"null\"",
        "name = \"b\"\nkind = \"af_packet\"\ninterface = \"lr-none\"",
    );
    let error = apply(&service, &new).unwrap_err().into_diagnostic();
    assert!(error.place == "port \"b\"" && error.reason.contains("runs again"), "{error:?}");
    let after = state(&service);
    assert_eq!((names(&service), after.1), (vec!["a".to_owned(), "b".to_owned()], entries));
    assert_eq!(after.2, topology);
}

#[test]
fn a_dry_run_changes_nothing() {
    let service = running(FILE);
    let before = state(&service);
    let applied = service.apply((Path::new("/g.toml"), &format!("{FILE}{BAD}")), true, &Peer::own()).unwrap();
    assert!(!applied.done && applied.changes.len() == 1, "{applied:?}");
    assert_eq!(state(&service), before);
    assert_eq!(service.configuration().unwrap().file, Path::new("/f.toml"));
}

#[test]
fn changes_that_need_a_start_and_invalid_files_are_refused_whole() {
    let service = running(FILE);
    let before = state(&service);
    for (text, place) in [
        (format!("[switch]\nname = \"x\"\n{FILE}[[port]]\nname = \"c\"\nkind = \"null\"\n"), "[switch]"),
        (FILE.replace("name = \"main\"\n", "name = \"main\"\ntable = 1024\n"), "bridge \"main\""),
        (format!("{FILE}[worker]\nmodel = \"stealing\"\n"), "[worker]"),
        (format!("{FILE}[[port]]\nname = \"c\"\nkind = \"none\"\n"), "port \"c\""),
    ] {
        let error = apply(&service, &text).unwrap_err().into_diagnostic();
        assert_eq!((error.place.as_str(), error.file.as_deref()), (place, Some("/f.toml")), "{error:?}");
        assert_eq!(state(&service), before);
    }
}

#[test]
fn workers_are_those_of_the_file_or_change_back() {
    let two = format!("{FILE}[[worker]]\n[[worker]]\npolling = \"busy\"\n");
    let pinned = format!("{FILE}[[worker]]\nqueue_full = \"wait\"\n[[worker]]\ncpu = 0\n");
    let service = running(FILE);
    for (text, workers) in [(&two[..], 2), (&pinned, 2), (FILE, 1)] {
        apply(&service, text).unwrap();
        assert_eq!(service.snapshot().workers.len(), workers);
    }
    // It refuses CPUs.
    let service = with(&two, |_| Box::new(Fake::default()));
    let before = service.topology().workers.clone();
    apply(&service, &pinned).unwrap_err();
    assert_eq!(service.topology().workers, before, "the first worker has changed back");
}

#[test]
fn bridges_bonds_and_mirrors_come_and_go() {
    let service = running(FILE);
    let new = "[[bridge]]\nname = \"main\"\n[[bridge]]\nname = \"second\"\n\
        [[port]]\nname = \"a\"\nkind = \"null\"\nbridge = \"second\"\n\
        [[port]]\nname = \"b\"\nkind = \"null\"\nbridge = \"second\"\n\
        [[port]]\nname = \"c\"\nkind = \"null\"\nbridge = \"main\"\n\
        [[bond]]\nname = \"pair\"\nports = [\"a\", \"b\"]\nbridge = \"second\"\n\
        [[mirror]]\nname = \"probe\"\nbridge = \"second\"\nall = true\noutput_vlan = 9\n";
    apply(&service, new).unwrap();
    assert_eq!((service.bonds().len(), service.mirrors().len()), (1, 1));
    let members = |service: &ApiService| service.bonds()[0].live.as_ref().map(|bond| bond.members.len());
    assert_eq!(members(&service), Some(2));
    // A member that is replaced returns to its bond.
    let changed =
        new.replace("name = \"b\"\nkind = \"null\"", "name = \"b\"\nkind = \"null\"\nfault = { drop = 0.5 }");
    apply(&service, &changed).unwrap();
    assert_eq!(members(&service), Some(2));
    apply(&service, FILE).unwrap();
    assert_eq!((service.bonds().len(), service.mirrors().len(), service.bridges().len()), (0, 0, 1));
    assert_eq!(state(&service).1, ["02:00:00:00:00:01 b 5"]);
}

#[test]
fn workers_without_queues_do_not_hang() {
    let text = "[[worker]]\npolling = \"busy\"\n".repeat(2) + "[[port]]\nname = \"a\"\nkind = \"null\"\n";
    let service = running(&text);
    let (mut progress, start) = (Progress::default(), Instant::now());
    let first = service.snapshot().workers;
    assert!(progress.observe(&first, start).hung_workers.is_empty());
    let goes_on = |now: &[WorkerSnapshot]| now.iter().zip(&first).all(|(n, f)| n.progress() != f.progress());
    let limit = start + Duration::from_secs(20);
    let mut now = service.snapshot().workers;
    while !goes_on(&now) && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(1));
        now = service.snapshot().workers;
    }
    assert!(progress.observe(&now, start + STALL).hung_workers.is_empty());
}

#[test]
fn members_move_between_bonds_in_any_order() {
    let text = |[first, second]: [&str; 2]| {
        let port = |name: &str| format!("[[port]]\nname = \"{name}\"\nkind = \"null\"\n");
        let bond = |name: &str, ports: &str| format!("[[bond]]\nname = \"{name}\"\nports = [{ports}]\n");
        ["a", "b", "c", "d"].map(port).concat() + &bond("first", first) + &bond("second", second)
    };
    let service = running(&text(["\"a\", \"b\"", "\"c\", \"d\""]));
    let members = || {
        let of_bond = |bond: BondReport| {
            let mut names: Vec<_> =
                bond.live.unwrap().members.into_iter().map(|member| member.port).collect();
            names.sort();
            names.concat()
        };
        service.bonds().into_iter().map(of_bond).collect::<Vec<_>>()
    };
    let Topology { bonds, ports, .. } = service.topology().clone();
    let mut taken = bonds[0].clone();
    taken.ports.push("c".to_owned());
    assert!(service.data_plane().set_bond(&taken, &ports).is_err(), "c is a member of the other bond");
    assert_eq!(members(), ["ab", "cd"]);
    for (bonds, expected) in [
        (["\"a\", \"b\", \"c\"", "\"d\""], ["abc", "d"]),
        (["\"d\", \"b\"", "\"a\", \"c\""], ["bd", "ac"]),
        (["\"a\", \"c\"", "\"d\", \"b\""], ["ac", "bd"]),
    ] {
        apply(&service, &text(bonds)).unwrap();
        assert_eq!(members(), expected);
    }
}

#[test]
fn rates_of_queues_change_in_the_running_port_after_an_apply() {
    let text = "[[port]]\nname = \"a\"\nkind = \"null\"\n\
        queues = { rate = \"1Gbit/s\", classes = [\"0 rate=100Mbit/s\"] }\n";
    let service = running(text);
    let rate = |service: &ApiService| {
        let topology = service.topology();
        topology.ports[0].wrappers.queues.as_ref().unwrap().live().first().map(|queue| queue.rates.rate)
    };
    assert_eq!(rate(&service), Some(100_000_000));
    apply(&service, text).unwrap();
    let rates = serde_json::json!({ "port": "a", "queue": 0, "rate": "50Mbit/s" });
    service.set_queue("a", &rates).unwrap();
    assert_eq!(rate(&service), Some(50_000_000));
}

#[test]
fn flows_of_the_file_are_replaced_and_others_stay() {
    let text = |flow: &str| {
        format!(
            "[[bridge]]\nname = \"filed0\"\npipeline = \"openflow\"\n[[port]]\nname = \"a\"\nkind = \"null\"\n\
             [[port]]\nname = \"b\"\nkind = \"null\"\n[[flow]]\nflow = [\"priority=1,actions=NORMAL\", \"{flow}\"]\n"
        )
    };
    let service = running(&text("priority=9,in_port=a,actions=output:b"));
    let request = crate::dataplane::report::FlowRequest {
        bridge: None,
        flows: vec!["priority=7,actions=drop".to_owned()],
    };
    service.data_plane().add_flows(&request).unwrap();
    apply(&service, &text("priority=9,in_port=b,actions=output:a")).unwrap();
    let (_, flows) = service.data_plane().flows(&crate::dataplane::report::FlowFilter::default()).unwrap();
    let mut flows: Vec<_> = flows.iter().map(|flow| (flow.priority, flow.matching.as_str())).collect();
    flows.sort_unstable();
    assert_eq!(flows, [(1, ""), (7, ""), (9, "in_port=b")]);
}

#[test]
fn replaced_ports_keep_their_numbers_in_flows() {
    let ports = |names: [&str; 3], vlan: &str| {
        let port = |name: &str| format!("[[port]]\nname = \"{name}\"\nkind = \"null\"\n{vlan}");
        let flow = "[[flow]]\nflow = [\"priority=9,in_port=b,actions=output:c\"]\n";
        let bridge = "[[bridge]]\nname = \"filed1\"\npipeline = \"openflow\"\n";
        names.iter().fold(bridge.to_owned(), |text, name| text + &port(name)) + flow
    };
    let service = running(&ports(["a", "b", "c"], ""));
    // The first port leaves a gap, and the others are replaced in another order.
    let new = ports(["c", "b", "d"], "limit_burst = 5\nbroadcast_limit = 9\n");
    apply(&service, &new).unwrap();
    let (_, flows) = service.data_plane().flows(&crate::dataplane::report::FlowFilter::default()).unwrap();
    let flows: Vec<_> = flows.iter().map(|flow| (flow.matching.as_str(), flow.actions.as_str())).collect();
    assert_eq!(flows, [("in_port=b", "output:c")]);
}

#[test]
fn ports_leave_with_the_flows_and_rules_that_name_them() {
    let bridge = "[[bridge]]\nname = \"filed2\"\npipeline = \"openflow\"\n";
    let port = |name: &str| format!("[[port]]\nname = \"{name}\"\nkind = \"null\"\n");
    let all = format!(
        "{bridge}{}{}[[flow]]\nflow = [\"priority=9,in_port=b,actions=output:a\"]\n\
         [[acl]]\nbridge = \"filed2\"\nfrom = \"b\"\nto = \"a\"\naction = \"allow\"\n",
        port("a"),
        port("b")
    );
    let service = running(&all);
    let count = || {
        let filter = crate::dataplane::report::FlowFilter::default();
        service.data_plane().flows(&filter).unwrap().0
    };
    let before = count();
    assert!(before > 1);
    apply(&service, &format!("{bridge}{}", port("a"))).unwrap();
    assert_eq!(count(), 0);
    apply(&service, &all).unwrap();
    assert_eq!(count(), before);
}

#[test]
fn a_saved_file_changes_nothing() {
    let service = running(FILE);
    let file = std::path::Path::new("/nowhere/linerate.toml");
    service.saved(file, "[[port]]\nname = \"other\"\nkind = \"null\"\n", &Peer::own()).unwrap();
    assert_eq!(state(&service), state(&running(FILE)));
    let now = service.configuration().unwrap();
    assert!(now.loaded.contains("other") && !now.text.contains("other"), "{}", now.text);
}

#[test]
fn the_configuration_has_the_changes_since_the_file_was_read() {
    let service = running(FILE);
    service.add_port(&json!({ "name": "c", "kind": "null" }), &Peer::own()).unwrap();
    service.remove_port("a").unwrap();
    let Configuration { text, loaded, .. } = service.configuration().unwrap();
    assert_eq!(loaded, FILE);
    let changes = Changes::between(&service.topology(), &config::parse(&text, &Host::here(), None).unwrap());
    assert!(changes.ports.is_empty() && changes.statics.is_empty(), "{changes:?} in\n{text}");
    // The file without the changes takes them back.
    apply(&service, FILE).unwrap();
    assert_eq!(names(&service), ["a", "b"]);
}

#[test]
fn files_of_running_ports_are_in_use_and_those_of_others_exist() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, vlan: u16| {
        let capture = dir.path().join(name);
        format!("{FILE}[[port]]\nname = \"c\"\nkind = \"null\"\nvlan = {vlan}\ncapture = {capture:?}\n")
    };
    let service = running(&file("c", 1));
    assert!(dir.path().join("c").exists());
    let unchanged = format!("{}[[port]]\nname = \"d\"\nkind = \"null\"\n", file("c", 1));
    assert_eq!(apply(&service, &unchanged).unwrap().changes.len(), 1);
    let error = apply(&service, &file("c", 2)).unwrap_err().into_diagnostic();
    assert!(error.place == "port \"c\"" && error.reason.contains("exists"), "{error:?}");
    apply(&service, &file("e", 2)).unwrap();
}

#[test]
fn files_of_other_clients_are_in_directories_of_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let (own, other) = (dir.path().join("own"), dir.path().join("other"));
    std::fs::create_dir(&own).unwrap();
    std::fs::create_dir(&other).unwrap();
    let port = |name: &str, dir: &Path| {
        format!("[[port]]\nname = \"{name}\"\nsocket = \"{}\"\n", dir.join(name).display())
    };
    let first = port("a", &own);
    let service = running(&first);
    let (stranger, file) = (Peer::remote("tester".to_owned()), Path::new("/f.toml"));
    let json = |name: &str, dir: &Path| json!({ "name": name, "socket": dir.join(name) });
    let error = service.add_port(&json("b", &other), &stranger).unwrap_err();
    assert!(matches!(error, ApiError::Forbidden(_)), "{error:?}");
    service.add_port(&json("b", &own), &stranger).unwrap();
    service.add_port(&json("c", &other), &Peer::own()).unwrap();
    let new = format!("{first}{}", port("d", &other));
    let error = service.apply((file, &new), false, &stranger).unwrap_err().into_diagnostic().to_string();
    assert!(error.contains("`socket`") && error.contains("outside"), "{error}");
    let elsewhere = Path::new("/etc/hostname");
    for error in [
        service.apply((elsewhere, &first), false, &stranger).unwrap_err(),
        service.saved(elsewhere, &first, &stranger).unwrap_err(),
    ] {
        assert!(error.into_diagnostic().reason.contains("`file` /etc/hostname"));
    }
    service.apply((elsewhere, &first), true, &stranger).unwrap();
    drop(service);
    let limited = format!("[switch]\npaths = [\"{}\"]\n{first}", own.display());
    let service = running(&limited);
    let error = service.add_port(&json("b", &other), &Peer::own()).unwrap_err();
    assert!(matches!(error, ApiError::Forbidden(_)), "{error:?}");
}

#[test]
fn other_clients_neither_save_sections_of_the_start_nor_move_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let limited = format!("[switch]\npaths = [{:?}]\nweb_capture = false\n{FILE}", dir.path());
    let service = running(&limited);
    let (stranger, file) = (Peer::remote("tester".to_owned()), Path::new("/f.toml"));
    for text in [
        limited.replace(&format!("{:?}", dir.path()), "\"/\""),
        limited.replace("web_capture = false", "web_capture = true"),
        format!("{limited}[worker]\nmodel = \"stealing\"\n"),
    ] {
        for peer in [&stranger, &Peer::own()] {
            let error = service.saved(file, &text, peer).unwrap_err().into_diagnostic();
            assert!(error.reason.contains("that of the start"), "{error}");
        }
    }
    let moved = dir.path().join("g.toml");
    for error in [
        service.saved(&moved, &limited, &stranger).unwrap_err(),
        service.apply((&moved, &limited), false, &stranger).unwrap_err(),
    ] {
        assert!(matches!(error, ApiError::Forbidden(_)), "{error:?}");
    }
    let Configuration { file: own, text, loaded } = service.configuration().unwrap();
    assert_eq!((own.as_path(), &text, &loaded), (file, &limited, &limited), "an upgrade passes it on");
    let port = json!({ "name": "c", "kind": "null", "capture": "/etc/lr-none" });
    assert!(matches!(service.add_port(&port, &stranger), Err(ApiError::Forbidden(_))));
    // The running configuration is saved as before.
    service.add_port(&json!({ "name": "c", "kind": "null" }), &stranger).unwrap();
    let text = service.configuration().unwrap().text;
    service.saved(file, &text, &stranger).unwrap();
    assert_eq!(service.configuration().unwrap().loaded, text);
}
