use super::*;
use crate::dataplane::capture_report::CaptureRequest;
use crate::dataplane::convert::port_config;
use crate::dataplane::report::{FdbFilter, Origin, StationFilter};
use crate::settings::kinds::PortKind;
use crate::settings::kinds::socket::{Mode, SocketSettings};
use crate::settings::kinds::vhost_user::VhostUser;
use crate::settings::policy::Policy;
use crate::settings::security::Security;
use crate::settings::topology::{BridgeSettings, PortSettings, StaticEntry, SwitchSettings, WorkerSettings};
use crate::settings::vlan::Vlan;
use std::path::Path;
use wire::VlanId;

mod hung;

fn port(dir: &Path, name: &str, vlan: Option<Vlan>) -> PortSettings {
    let socket = SocketSettings { path: dir.join(name), mode: Mode::Server, ..SocketSettings::default() };
    let kind = PortKind::VhostUser(VhostUser { socket, offloads: true });
    PortSettings {
        policy: Policy { vlan, broadcast_limit: Some(10), ..Policy::default() },
        ..PortSettings::named(name, kind)
    }
}

fn switch(ports: Vec<PortSettings>, statics: Vec<StaticEntry>) -> Result<Switch, Diagnostic> {
    start(ports, statics).map(|(switch, _)| switch)
}

fn start(
    ports: Vec<PortSettings>,
    statics: Vec<StaticEntry>,
) -> Result<(Switch, Vec<Diagnostic>), Diagnostic> {
    Switch::start(&Topology {
        switch: SwitchSettings::default(),
        model: crate::settings::model::ModelSettings::default(),
        workers: vec![WorkerSettings::default()],
        placement: None,
        bonds: Vec::new(),
        grants: Vec::new(),
        flows: crate::settings::flows::FileFlows::default(),
        mirrors: Vec::new(),
        underlays: Vec::new(),
        conntrack: crate::settings::conntrack::ConntrackSettings::default(),
        bridges: vec![BridgeSettings {
            statics,
            max_macs_per_port: Some(7),
            ..BridgeSettings::named("main")
        }],
        ports,
    })
}

fn pin(last: u8, port: &str, vlan: u16) -> StaticEntry {
    StaticEntry { mac: wire::MacAddress::new([2, 0, 0, 0, 0, last]), port: port.to_owned(), vlan }
}

#[test]
fn ports_and_static_entries_of_the_topology_run_and_their_sockets_go_with_the_switch() {
    let dir = tempfile::tempdir().unwrap();
    let ports = vec![port(dir.path(), "a", Some(Vlan::Access(10))), port(dir.path(), "b", None)];
    let switch = switch(ports, vec![pin(1, "a", 0)]).unwrap();
    let fdb = switch.fdb(&StationFilter::default());
    assert_eq!((fdb[0].port.as_str(), fdb[0].vlan, fdb[0].origin), ("a", 10, Origin::Static));
    assert_eq!(switch.addresses("main"), 1);
    let names: Vec<String> = switch.snapshot().ports.into_iter().map(|port| port.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(dir.path().join("a").exists() && dir.path().join("b").exists());
    drop(switch);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_capture_leaves_out_a_port_with_the_number_of_a_removed_one() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| port(dir.path(), name, None));
    let switch = switch(vec![a.clone()], Vec::new()).unwrap();
    let id = switch.members()[0].id;
    let request = CaptureRequest { ports: vec!["a".to_owned()], ..CaptureRequest::default() };
    let _captured = switch.capture(&request).unwrap();
    let interface = || switch.captures.captured_port(id).interface;
    assert_eq!(interface(), Some(0));
    switch.remove_port("a").unwrap();
    switch.add_port(&b, None).unwrap();
    assert_eq!((switch.members()[0].id, interface()), (id, None));
    switch.remove_port("b").unwrap();
    switch.add_port(&a, None).unwrap();
    assert_eq!((switch.members()[0].id, interface()), (id, Some(0)));
}

#[test]
fn limit_of_a_port_overrides_that_of_its_bridge() {
    let dir = tempfile::tempdir().unwrap();
    let plain = port(dir.path(), "a", None);
    let security = Security { max_macs: Some(3), ..Security::default() };
    let own = PortSettings { policy: Policy { security, ..plain.policy.clone() }, ..plain.clone() };
    assert_eq!(port_config(&plain, Some(7)).max_macs, Some(7));
    assert_eq!(port_config(&own, Some(7)).max_macs, Some(3));
    assert_eq!(port_config(&plain, None).max_macs, None);
    assert_eq!(port_config(&plain, None).broadcast_limit, bridge::Rate::new(10, 64));
    assert_eq!(port_config(&plain, None).unknown_limit, None);
    let policy = Policy { limit_burst: Some(1), ..plain.policy.clone() };
    let one = PortSettings { policy, ..plain.clone() };
    assert_eq!(port_config(&one, None).broadcast_limit, bridge::Rate::new(10, 1));
}

#[test]
fn limit_of_a_bridge_changes_for_its_running_ports() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| port(dir.path(), name, None));
    let security = Security { max_macs: Some(3), ..Security::default() };
    let b = PortSettings { policy: Policy { security, ..b.policy.clone() }, ..b };
    let ports = vec![a, b];
    let switch = switch(ports.clone(), Vec::new()).unwrap();
    let limits = || -> Vec<u32> { switch.bridges()[0].ports.iter().map(|port| port.max_macs).collect() };
    assert_eq!(limits(), [7, 3]);
    let main = BridgeSettings { max_macs_per_port: Some(9), ..BridgeSettings::named("main") };
    switch.set_bridge(&main, &ports).unwrap();
    switch.add_port(&c, None).unwrap();
    assert_eq!(limits(), [9, 3, 9]);
    let larger = BridgeSettings { table: 1024, ..main };
    let refused = switch.set_bridge(&larger, &ports).unwrap_err().into_diagnostic();
    assert!(refused.reason.contains("was not changed"), "{refused:?}");
}

#[test]
fn a_trunk_keeps_its_vlans_and_its_native_one() {
    let native = VlanId::new(1);
    let trunk = super::super::convert::vlan(Some(&Vlan::Trunk { trunk: vec![10, 20], native: Some(1) }));
    let allowed = [10, 20].into_iter().filter_map(VlanId::new).collect();
    assert_eq!(trunk, bridge::Vlan::Trunk { allowed, native });
}

#[test]
fn a_port_that_cannot_start_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let switch = switch(vec![port(dir.path(), "a", None)], Vec::new()).unwrap();
    let homeless = PortSettings { bridge: "nowhere".to_owned(), ..port(dir.path(), "b", None) };
    let error = switch.add_port(&homeless, None).unwrap_err();
    assert!(error.into_diagnostic().reason.contains("nowhere"));
    assert!(!dir.path().join("b").exists());
    assert_eq!(switch.snapshot().ports.len(), 1);
    switch.add_port(&port(dir.path(), "b", None), None).unwrap();
}

#[test]
fn a_port_whose_place_is_not_there_waits_while_the_others_run() {
    let dir = tempfile::tempdir().unwrap();
    let ports = || vec![port(dir.path(), "a", None), port(dir.path(), "b", None)];
    std::fs::write(dir.path().join("a"), "in the way").unwrap();
    let (switch, deferred) = start(ports(), vec![pin(1, "a", 0)]).unwrap();
    let said: Vec<String> = deferred.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("port \"a\": ") && said[0].contains("is not a socket\n    remedy: remove it"),
        "{said:?}"
    );
    let live = |name: &str| switch.snapshot().ports.into_iter().find(|port| port.name == name).unwrap();
    assert_eq!((live("a").state.as_str(), live("b").state.as_str()), ("faulted", "waiting"));
    assert!(live("a").reason.is_some_and(|why| why.contains("is not a socket")));
    std::fs::remove_file(dir.path().join("a")).unwrap();
    let began = std::time::Instant::now();
    while live("a").state != "waiting" {
        assert!(began.elapsed().as_secs() < 20, "{:?}", live("a"));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(dir.path().join("a").exists());
    switch.remove_port("a").unwrap();
    assert!(!dir.path().join("a").exists());
}

#[test]
fn switch_does_not_start_without_ports_and_names_every_reason() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        std::fs::write(dir.path().join(name), "in the way").unwrap();
    }
    let ports = vec![port(dir.path(), "a", None), port(dir.path(), "b", None)];
    let error = start(ports, Vec::new()).err().unwrap();
    assert_eq!(error.code, console::BAD_INPUT);
    let said = error.to_string();
    assert!(said.starts_with("port \"a\": ") && said.contains("\nport \"b\": "), "{said}");
}

#[test]
fn removing_a_port_takes_its_socket_and_its_addresses_along() {
    let dir = tempfile::tempdir().unwrap();
    let ports = vec![port(dir.path(), "a", None), port(dir.path(), "b", None)];
    let switch = switch(ports, vec![pin(1, "a", 0), pin(2, "b", 0)]).unwrap();
    switch.remove_port("a").unwrap();
    assert!(!dir.path().join("a").exists());
    let left: Vec<String> =
        switch.fdb(&StationFilter::default()).into_iter().map(|entry| entry.port).collect();
    assert_eq!(left, ["b"]);
    assert!(switch.remove_port("a").is_err());
}

#[test]
fn listed_addresses_are_those_of_the_filter() {
    let dir = tempfile::tempdir().unwrap();
    let ports = vec![port(dir.path(), "a", Some(Vlan::Access(10))), port(dir.path(), "b", None)];
    let switch = switch(ports, vec![pin(1, "a", 0), pin(1, "b", 20), pin(2, "b", 20)]).unwrap();
    let found = |filter: StationFilter| {
        let mut found: Vec<_> = switch.fdb(&filter).into_iter().map(|e| (e.mac, e.vlan, e.port)).collect();
        found.sort();
        found
    };
    let (one, two) = (pin(1, "a", 0).mac, pin(2, "b", 0).mac);
    let entry = |mac, vlan, port: &str| (mac, vlan, port.to_owned());
    let any = StationFilter::default();
    let own = [entry(one, 10, "a"), entry(one, 20, "b")];
    assert_eq!(found(StationFilter { mac: Some(one), bridge: Some("main".into()), ..any.clone() }), own);
    assert_eq!(found(StationFilter { mac: Some(one), vlan: Some(20), ..any.clone() }), own[1..]);
    assert_eq!(
        found(StationFilter { port: Some("b".into()), ..any.clone() }),
        [entry(one, 20, "b"), entry(two, 20, "b")]
    );
    assert_eq!(found(StationFilter { bridge: Some("other".into()), ..any }), []);
}

#[test]
fn a_flush_keeps_static_entries() {
    let dir = tempfile::tempdir().unwrap();
    let switch = switch(vec![port(dir.path(), "a", None)], vec![pin(1, "a", 0)]).unwrap();
    assert_eq!(switch.flush(&FdbFilter::default()), Ok(0));
    let narrow = FdbFilter { bridge: Some("main".into()), port: Some("a".into()), ..FdbFilter::default() };
    assert_eq!(switch.flush(&narrow), Ok(0));
    assert_eq!(switch.addresses("main"), 1);
}

#[test]
fn one_address_is_forgotten_under_the_vlan_that_the_listing_shows() {
    let dir = tempfile::tempdir().unwrap();
    let ports = vec![port(dir.path(), "a", Some(Vlan::Access(5))), port(dir.path(), "b", None)];
    let switch = switch(ports, vec![pin(1, "a", 0), pin(2, "b", 0)]).unwrap();
    let entry = switch.fdb(&StationFilter::default()).remove(0);
    assert_eq!((entry.mac, entry.vlan), (pin(1, "a", 0).mac, 5));
    assert!(switch.forget("main", entry.mac, 0).is_err());
    switch.forget("main", entry.mac, entry.vlan).unwrap();
    assert_eq!(switch.addresses("main"), 1);
    assert!(switch.forget("main", entry.mac, entry.vlan).is_err());
}

#[test]
fn every_stage_of_a_thread_has_its_number() {
    let text = "[worker]\nmodel = \"pipeline\"\nrx = [CPU]\nwork = [CPU]\ntx = [CPU]\n";
    let host = crate::host::Host::here();
    let text = text.replace("CPU", &host.allowed()[0].to_string());
    let (switch, _) = Switch::start(&crate::settings::config::parse(&text, &host, None).unwrap()).unwrap();
    let [stages] = &switch.worker_numbers()[..] else { panic!("one thread") };
    let threads: Vec<_> = stages.iter().map(|stage| switch.worker_thread(*stage).unwrap()).collect();
    let name = std::fs::read_to_string(format!("/proc/self/task/{}/comm", threads[0])).unwrap();
    assert_eq!((name.trim(), stages.len()), ("worker-0", 3));
    assert!(threads.iter().all(|thread| *thread == threads[0]), "{threads:?}");
    assert_eq!(switch.worker_thread(99), None);
}
