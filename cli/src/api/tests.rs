//! Tests of the API over a Unix socket, with a [`Fake`] data plane.

mod exporter;
mod grants;
mod status;
mod web;

use super::capture::{CONTINUES, INTERRUPTION};
use super::client::Client;
use super::error::ApiError;
use super::fake::{Fake, HELD, STAYS, topology};
use super::model::MirrorReport;
use super::model::{FdbReport, Flushed, PlacementReport, PortReport, Status, WorkerReport, WorkersReport};
use super::server::MAX_CLIENTS;
use super::service::ApiService;
use super::{routes, server};
use crate::dataplane::interface::DataPlane;
use crate::dataplane::report::{BridgeReport, FdbEntry};
use crate::settings::topology::{PortSettings, StaticEntry};
use console::{BAD_INPUT, FAILED};
use engine::Snapshot;
use engine::balance::Balance;
use hyper::header::{HeaderMap, HeaderValue};
use serde_json::json;
use std::io::{Read, Seek, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A running API. Its directory is removed last.
struct Running {
    client: Client,
    stopped: Arc<AtomicBool>,
    server: server::Server,
    dir: tempfile::TempDir,
}

fn running() -> Running {
    serving(routes::router)
}

/// A running API of the socket for reading.
fn reading() -> Running {
    serving(routes::read_router)
}

fn serving(router: fn(Arc<ApiService>) -> axum::Router) -> Running {
    let dir = tempfile::tempdir().unwrap();
    let control = dir.path().join("c.sock");
    let stopped = Arc::new(AtomicBool::new(false));
    let told = stopped.clone();
    let service = ApiService::new(topology(), control.clone(), Box::new(Fake::default()), move || {
        told.store(true, Ordering::SeqCst);
    });
    let listener = UnixListener::bind(&control).unwrap();
    let server =
        server::start("control-api", server::Role::Changes, listener, router(Arc::new(service))).unwrap();
    Running { client: Client::new(Some(&control)), stopped, server, dir }
}

impl Running {
    fn socket(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn add(&self, name: &str) -> PortReport {
        let body = json!({ "name": name, "socket": self.socket(name), "mode": "client" });
        self.client.post("/v1/ports", &body).unwrap()
    }
}

#[test]
fn rejected_moves_name_both_ports() {
    let running = running();
    let bridges: Vec<BridgeReport> = running.client.get("/v1/bridges").unwrap();
    let refused = &bridges[0].refused_moves[0];
    assert_eq!((refused.old_port.as_str(), refused.new_port.as_str(), refused.age), ("a", "b", 3));
}

#[test]
fn a_capture_that_goes_on_has_a_trailer_and_one_that_was_interrupted_a_header() {
    let switch = running();
    let stream = |path: &str| {
        let mut missing = None;
        let begin = |headers: &HeaderMap| missing = headers.get(INTERRUPTION).cloned();
        let trailers = switch.client.stream(path, begin, |_| Ok(())).unwrap().unwrap();
        (trailers.get(CONTINUES).cloned(), missing)
    };
    assert_eq!(stream("/v1/capture?limit=5"), (Some(HeaderValue::from_static("1-2-3-4")), None));
    let missing = Some(HeaderValue::from_static("4"));
    assert_eq!(stream("/v1/capture?limit=5&continues=1-2-3-4"), (None, missing));
    let refused = switch.client.stream("/v1/capture?continues=1", |_| {}, |_| Ok(())).unwrap_err();
    assert!(refused.code == BAD_INPUT && refused.reason.contains("linerate-continues"), "{refused}");
}

#[test]
fn a_mirror_is_added_shown_and_removed() {
    let switch = running();
    switch.add("a");
    switch.add("b");
    let body = json!({ "name": "m", "source_ports": ["a"], "output_port": "b", "vlans": [10] });
    let added: MirrorReport = switch.client.post("/v1/mirrors", &body).unwrap();
    assert_eq!((added.settings.bridge.as_str(), added.active, added.packets), ("main", true, 7));
    assert_eq!(switch.client.get::<Vec<MirrorReport>>("/v1/mirrors").unwrap(), vec![added.clone()]);
    let again = switch.client.post::<MirrorReport>("/v1/mirrors", &body).unwrap_err();
    assert!(again.to_string().contains("there is a mirror \"m\" already"), "{again}");
    let bad = json!({ "name": "n", "source_ports": ["c"], "output_vlan": 5000 });
    let bad = switch.client.post::<MirrorReport>("/v1/mirrors", &bad).unwrap_err().to_string();
    assert!(bad.contains("there is no port \"c\"") && bad.contains("invalid value 5000"), "{bad}");
    assert_eq!(switch.client.delete::<MirrorReport>("/v1/mirrors/m").unwrap(), added);
    assert!(switch.client.delete::<MirrorReport>("/v1/mirrors/m").is_err());
    assert_eq!(switch.client.get::<Vec<MirrorReport>>("/v1/mirrors").unwrap(), []);
}

#[test]
fn a_port_is_added_shown_and_removed() {
    let switch = running();
    let added = switch.add("a");
    let client = format!("vhost-user client at {}", switch.socket("a").display());
    assert_eq!((added.settings.kind.to_string(), added.settings.bridge.as_str()), (client, "main"));
    assert_eq!(switch.client.get::<PortReport>("/v1/ports/a").unwrap(), added);
    assert_eq!(switch.client.get::<Vec<PortReport>>("/v1/ports").unwrap(), vec![added.clone()]);
    assert_eq!(switch.client.delete::<PortSettings>("/v1/ports/a").unwrap(), added.settings);
    assert_eq!(switch.client.get::<Vec<PortReport>>("/v1/ports").unwrap(), []);
}

#[test]
fn port_of_a_hung_worker_is_removed_and_the_error_names_held_resources() {
    let switch = running();
    switch.add(HELD);
    let pin = json!({ "mac": "02:00:00:00:00:01", "port": HELD });
    switch.client.post::<StaticEntry>("/v1/fdb", &pin).unwrap();
    let error = switch.client.delete::<PortSettings>("/v1/ports/held").unwrap_err();
    assert_eq!(error.code, FAILED);
    assert_eq!(error.reason, "the port is removed; its memory is kept until worker 3 answers");
    let text = error.to_string();
    assert!(!text.contains("nothing was changed") && !text.contains("refused"), "{text}");
    assert_eq!(switch.client.get::<Vec<PortReport>>("/v1/ports").unwrap(), []);
    assert_eq!(switch.client.delete::<PortSettings>("/v1/ports/held").unwrap_err().code, BAD_INPUT);
    switch.add(HELD);
}

#[test]
fn a_port_that_could_not_be_removed_stays_listed() {
    let switch = running();
    let added = switch.add(STAYS);
    let error = switch.client.delete::<PortSettings>("/v1/ports/stays").unwrap_err();
    assert!(error.code == FAILED && error.reason == "it stays", "{error}");
    assert_eq!(switch.client.get::<Vec<PortReport>>("/v1/ports").unwrap(), [added]);
}

#[test]
fn a_wrong_port_is_refused_with_every_reason_and_nothing_is_added() {
    let switch = running();
    switch.add("a");
    let body = json!({ "name": "a", "socket": switch.socket("a"), "mtu": 1, "moed": "client" });
    let error = switch.client.post::<PortReport>("/v1/ports", &body).unwrap_err();
    assert_eq!(error.code, BAD_INPUT);
    let text = error.to_string();
    for reason in [
        "unknown key `moed`",
        "invalid value 1 for `mtu`: expected 68 to 65535",
        "a port of this name already exists",
        "is already used by port \"a\"",
    ] {
        assert!(text.contains(reason), "{reason} is missing in {text}");
    }
    assert!(text.contains("remedy: choose another name or remove it first"), "{text}");
    assert_eq!(switch.client.get::<Vec<PortReport>>("/v1/ports").unwrap().len(), 1);
}

#[test]
fn remedies_of_requests_name_commands_instead_of_sections() {
    let switch = running();
    let entry = json!({ "mac": "02:00:00:00:00:01", "port": "nope" });
    let error = switch.client.post::<StaticEntry>("/v1/fdb", &entry).unwrap_err();
    assert_eq!(
        (error.reason.as_str(), error.remedy.as_str()),
        ("there is no port \"nope\"", "see `linerate ports show`")
    );
    let error =
        switch.client.post::<StaticEntry>("/v1/fdb", &json!({ "mac": "02:00:00:00:00:01" })).unwrap_err();
    assert!(error.remedy.starts_with("add `port`, such as "), "{error}");
    let port = json!({ "name": "x", "kind": "null", "bridge": "nope" });
    let error = switch.client.post::<PortReport>("/v1/ports", &port).unwrap_err();
    assert_eq!(
        (error.reason.as_str(), error.remedy.as_str()),
        ("there is no bridge \"nope\"", "see `linerate bridges show`")
    );
    let error = switch.client.get::<FdbReport>("/v1/fdb?bridge=nope").unwrap_err();
    assert_eq!(error.remedy, "see `linerate bridges show`");
}

#[test]
fn what_does_not_exist_is_not_found() {
    let switch = running();
    for path in ["/v1/ports/x", "/v1/fdb?port=x", "/v1/fdb?bridge=x", "/v1/nothing", "/"] {
        let error = switch.client.get::<serde_json::Value>(path).unwrap_err();
        assert_eq!(error.code, BAD_INPUT, "{path}: {error}");
        assert!(error.reason.starts_with("there is no"), "{path}: {error}");
    }
    assert_eq!(switch.client.delete::<PortSettings>("/v1/ports/x").unwrap_err().code, BAD_INPUT);
}

#[test]
fn an_address_is_pinned_listed_and_limited() {
    let switch = running();
    switch.add("a");
    for last in 1..=3 {
        let body = json!({ "mac": format!("02:00:00:00:00:0{last}"), "port": "a" });
        switch.client.post::<StaticEntry>("/v1/fdb", &body).unwrap();
    }
    let report: FdbReport = switch.client.get("/v1/fdb?limit=2&port=a").unwrap();
    assert_eq!((report.total, report.entries.len()), (3, 2));
    assert_eq!(report.entries[0].mac.to_string(), "02:00:00:00:00:01");
    assert_eq!(switch.client.delete::<Flushed>("/v1/fdb?bridge=main").unwrap(), Flushed { flushed: 0 });
    let error =
        switch.client.post::<StaticEntry>("/v1/fdb", &json!({ "mac": "x", "port": "b" })).unwrap_err();
    assert!(error.to_string().contains("an Ethernet address") && error.to_string().contains("no port \"b\""));
}

#[test]
fn one_address_is_removed_and_only_when_it_is_clear_which() {
    let switch = running();
    let trunk = json!({ "name": "b", "kind": "null", "vlan": { "trunk": [7, 8] } });
    switch.client.post::<PortReport>("/v1/ports", &trunk).unwrap();
    for (vlan, is_free) in [(7, true), (7, false), (8, true), (9, false)] {
        let body = json!({ "mac": "02:00:00:00:00:01", "port": "b", "vlan": vlan });
        assert_eq!(switch.client.post::<StaticEntry>("/v1/fdb", &body).is_ok(), is_free, "VLAN {vlan}");
    }
    let remove = |query: &str| switch.client.delete::<FdbEntry>(&format!("/v1/fdb/02:00:00:00:00:01{query}"));
    let twice = remove("").unwrap_err();
    assert_eq!((twice.code, twice.remedy.contains("VLAN")), (BAD_INPUT, true), "{twice}");
    let elsewhere = remove("?vlan=9").unwrap_err();
    assert_eq!(elsewhere.reason, "not in any forwarding table in VLAN 9");
    let bridge = &switch.client.get::<Status>("/v1/status").unwrap().bridges[0].name;
    let elsewhere = remove(&format!("?vlan=9&bridge={bridge}")).unwrap_err();
    assert_eq!(elsewhere.reason, format!("not in the forwarding table of bridge \"{bridge}\" in VLAN 9"));
    let unknown = remove("?bridge=blue").unwrap_err();
    assert_eq!((unknown.code, unknown.remedy.as_str()), (BAD_INPUT, "see `linerate bridges show`"));
    let wrong = switch.client.delete::<FdbEntry>("/v1/fdb/zz").unwrap_err();
    assert!(wrong.reason.contains("not an Ethernet address"), "{wrong}");
    let report: FdbReport = switch.client.get("/v1/fdb").unwrap();
    assert_eq!(report.total, 2, "nothing was removed so far");
}

#[test]
fn filters_that_do_not_exist_are_refused() {
    let error = running().client.get::<FdbReport>("/v1/fdb?colour=red").unwrap_err();
    assert!(error.reason.contains("colour"), "{error}");
}

#[test]
fn status_workers_and_snapshot_answer() {
    let switch = running();
    switch.add("a");
    let status: Status = switch.client.get("/v1/status").unwrap();
    assert_eq!(
        (status.pid, status.ports, status.bridges[0].ports.clone()),
        (std::process::id(), 1, vec!["a".to_owned()])
    );
    assert_eq!(switch.client.get::<WorkersReport>("/v1/workers").unwrap().workers.len(), 1);
    assert_eq!(switch.client.get::<Snapshot>("/v1/snapshot").unwrap(), {
        let data_plane = Fake::default();
        let port = switch.client.get::<PortReport>("/v1/ports/a").unwrap().settings;
        data_plane.add_port(&port, None).unwrap();
        data_plane.snapshot()
    });
}

#[test]
fn workers_are_added_changed_and_removed() {
    let switch = running();
    let added: WorkerReport = switch.client.post("/v1/workers", &json!({ "polling": "busy" })).unwrap();
    assert_eq!(added, WorkerReport { index: 1, role: "all".into(), cpu: None });
    let set: WorkerReport = switch.client.patch("/v1/workers/1", &json!({ "polling": null })).unwrap();
    assert_eq!(set, added);
    let removed: WorkerReport = switch.client.delete("/v1/workers/0").unwrap();
    let again: WorkerReport = switch.client.post("/v1/workers", &json!({})).unwrap();
    assert_eq!((removed.index, again.index), (0, 1), "one is left");
}

#[test]
fn queues_are_shown_with_their_workers_and_rebalanced_where_the_request_is_right() {
    let switch = running();
    switch.add("a");
    let report: PlacementReport = switch.client.get("/v1/placement").unwrap();
    assert_eq!((report.rules, report.queues.len(), report.queues[0].port.as_str()), (None, 1, "a"));
    let ask = |body: serde_json::Value| switch.client.post::<Balance>("/v1/rebalance", &body);
    let dry = ask(json!({ "duration": "20ms", "dry_run": true })).unwrap();
    assert_eq!((dry.done, dry.measured_ns, dry.moves[0].load), (false, 20_000_000, 0.1));
    assert!(ask(json!({ "duration": "20ms", "threshold": 0.5 })).unwrap().done);
    for (body, reason) in [
        (json!({ "duration": "1ms" }), "invalid value \"1ms\" for duration: expected 10ms to 8s"),
        (json!({ "duration": 20 }), "invalid type: integer `20`"),
        (json!({ "duration": "20ms", "threshold": 7 }), "invalid value 7 for threshold: expected 0.01 to 1"),
        (json!({ "duration": "20ms", "dry": true }), "unknown field `dry`"),
        (json!([]), "invalid request"),
    ] {
        let error = ask(body).unwrap_err();
        assert!(error.code == BAD_INPUT && error.reason.contains(reason), "{error}");
    }
}

#[test]
fn shutdown_is_answered_and_passed_on() {
    let switch = running();
    switch.client.order("/v1/shutdown").unwrap();
    assert!(switch.stopped.load(Ordering::SeqCst));
}

#[test]
fn shutdown_is_refused_while_another_process_takes_over() {
    let stopped = Arc::new(AtomicBool::new(false));
    let told = stopped.clone();
    let service =
        ApiService::new(topology(), PathBuf::from("c.sock"), Box::new(Fake::default()), move || {
            told.store(true, Ordering::SeqCst);
        });
    let unchanged = service.keep_unchanged().unwrap();
    let refused = service.shutdown().unwrap_err();
    assert!(matches!(&refused, ApiError::Conflict(error) if error.remedy == "wait for the upgrade to end"));
    assert!(!stopped.load(Ordering::SeqCst));
    drop(unchanged);
    service.shutdown().unwrap();
    assert!(stopped.load(Ordering::SeqCst));
    service.end_changes().unwrap();
    let ends = service.change().err().map(ApiError::into_diagnostic).unwrap();
    assert!(ends.reason == "the switch ends" && service.keep_unchanged().is_err(), "{ends}");
    // As that of another client.
    service.shutdown().unwrap();
}

#[test]
fn a_process_that_was_replaced_is_not_shut_down_again() {
    let service = ApiService::new(topology(), PathBuf::from("c.sock"), Box::new(Fake::default()), || ());
    service.keep_unchanged().unwrap().replaced();
    service.end_changes().unwrap();
    assert!(service.shutdown().is_err() && service.change().is_err());
}

/// Sends raw bytes and returns the whole response.
fn raw(switch: &Running, request: &str) -> String {
    let mut stream = UnixStream::connect(switch.client.socket()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn errors_are_json_with_a_remedy_and_the_right_status() {
    let switch = running();
    let answer = raw(&switch, "PUT /v1/status HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    assert!(
        answer.contains("\"place\":") && answer.contains("\"reason\":") && answer.contains("\"remedy\":"),
        "{answer}"
    );
    let answer =
        raw(&switch, "POST /v1/ports HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 1\r\n\r\n{");
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("not JSON"), "{answer}");
}

#[test]
fn silent_client_does_not_delay_shutdown() {
    let switch = running();
    let mut silent = UnixStream::connect(switch.client.socket()).unwrap();
    silent.write_all(b"GET /v1/st").unwrap();
    switch.client.get::<Status>("/v1/status").unwrap();
    drop(switch.server);
    let error = switch.client.get::<Status>("/v1/status").unwrap_err();
    assert_eq!(error.code, FAILED);
}

/// Sends `request` on as many connections as the server allows, without reading responses.
fn occupy(switch: &Running, request: &str) -> Vec<UnixStream> {
    let mut streams: Vec<_> =
        (0..MAX_CLIENTS).map(|_| UnixStream::connect(switch.client.socket()).unwrap()).collect();
    for stream in &mut streams {
        stream.write_all(request.as_bytes()).unwrap();
    }
    streams
}

#[test]
fn answers_that_are_not_read_give_their_place_to_others() {
    let switch = running();
    // Makes the response larger than the kernel's socket buffers.
    (0..900).for_each(|i| drop(switch.add(&format!("{i}-{}", "x".repeat(28)))));
    let _streams = occupy(&switch, "GET /v1/ports HTTP/1.1\r\nhost: x\r\n\r\n");
    switch.client.get::<Status>("/v1/status").unwrap();
}

#[test]
fn requests_that_wait_for_events_leave_places_to_others() {
    let switch = running();
    let _streams = occupy(&switch, "GET /v1/events?wait=30s HTTP/1.1\r\nhost: x\r\n\r\n");
    switch.client.get::<Status>("/v1/status").unwrap();
}

#[test]
fn a_body_that_is_too_long_is_refused_in_words() {
    let switch = running();
    let post = |len: usize, body: &str| {
        format!("POST /v1/ports HTTP/1.1\r\nhost: x\r\ncontent-length: {len}\r\n\r\n{body}")
    };
    let answer = raw(&switch, &post(70_000, &" ".repeat(70_000)));
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("more than 65536 bytes"), "{answer}");
}

/// Creates a sparse capture of 1 GiB: one packet, followed by unknown blocks, which readers skip.
fn large_capture(path: &std::path::Path) {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = std::fs::File::create(path).unwrap();
    let begin = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28, 1, 20, 1, 0, 20];
    file.write_all(&words(&begin)).unwrap();
    file.write_all(&words(&[3, 32, 16, 0, 0, 0, 0, 32])).unwrap();
    let block = 1 << 24;
    for _ in 0..63 {
        file.write_all(&words(&[0x4444, block])).unwrap();
        file.seek_relative(i64::from(block) - 12).unwrap();
        file.write_all(&words(&[block])).unwrap();
    }
}

/// Whether this process has the file open.
fn is_open(path: &std::path::Path) -> bool {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    open.flatten().any(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == path))
}

#[test]
fn others_are_answered_while_a_large_file_is_read() {
    let switch = running();
    let path = switch.socket("large.pcapng");
    large_capture(&path);
    let (client, body) = (switch.client.patient(), json!({ "name": "large", "kind": "pcap", "read": &path }));
    let adding = std::thread::spawn(move || client.post::<PortReport>("/v1/ports", &body));
    let mut answered_meanwhile = 0;
    while !adding.is_finished() {
        let before = is_open(&path);
        let ports = switch.client.get::<Status>("/v1/status").unwrap().ports;
        answered_meanwhile += usize::from(before && ports == 0 && is_open(&path));
    }
    assert_eq!(adding.join().unwrap().unwrap().settings.name, "large");
    assert!(answered_meanwhile > 0, "no request was answered while the file was read");
}

#[test]
fn a_file_that_cannot_be_played_is_refused_with_its_one_reason() {
    let switch = running();
    let path = switch.socket("x.pcap");
    let add = || {
        let body = json!({ "name": "x", "kind": "pcap", "read": &path });
        switch.client.post::<PortReport>("/v1/ports", &body).unwrap_err()
    };
    assert!(add().place == "port \"x\"" && add().reason.contains("cannot be read"), "{}", add());
    let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    std::fs::write(&path, header).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(1 << 30).unwrap();
    let error = add();
    assert_eq!(error.code, BAD_INPUT);
    assert!(error.reason.contains("shorter than an Ethernet header"), "{error}");
    assert!(error.remedy.contains("cap_len") && error.more.is_empty(), "{error}");
    assert_eq!(switch.client.get::<Status>("/v1/status").unwrap().ports, 0);
}

#[test]
fn a_vlan_that_cannot_exist_is_refused() {
    let switch = running();
    for vlan in ["4095", "9999"] {
        let error = switch.client.get::<FdbReport>(&format!("/v1/fdb?vlan={vlan}")).unwrap_err();
        assert_eq!(error.code, BAD_INPUT);
        assert_eq!(error.reason, format!("invalid value {vlan} for vlan: expected 0 to 4094"));
    }
    assert_eq!(switch.client.get::<FdbReport>("/v1/fdb?vlan=4094").unwrap().total, 0);
}
