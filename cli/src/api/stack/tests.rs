//! The API of a running host without ports, over its control socket.

use super::model::{CaptureReport, ConnectionsReport, CountersReport};
use super::*;
use crate::api::client::Client;
use console::{BAD_INPUT, FAILED};
use host::{App, Buffer, Options};
use serde_json::{Value, json};
use stack::{Event, Stack, Time};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

struct Idle;

impl App for Idle {
    fn event(&mut self, _stack: &mut Stack<Buffer>, _event: Event<Buffer>, _now: Time) {}
}

/// A host that runs until `end`, and its control socket.
struct Running {
    client: Client,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    control: Option<StackControl>,
    dir: tempfile::TempDir,
}

impl Running {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sock");
        let mut host = Host::new(Options::new().unwrap()).unwrap();
        let control = StackControl::open(Some(&path), std::slice::from_mut(&mut host)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let thread = std::thread::spawn(move || host.run(&mut Idle, &flag));
        Self { client: Client::of_stack(&path), stop, thread: Some(thread), control, dir }
    }

    /// Ends the loop of the host, but not the API.
    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }

    fn capture(&self, name: &str, filter: &Value) -> Result<CaptureReport, Diagnostic> {
        let file = self.dir.path().join(name);
        let body = json!({ "file": file, "filter": filter, "packets": 9, "duration": "1h", "snap": null, "overwrite": false });
        self.client.post("/v1/stack/capture", &body)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn a_running_host_has_counters_and_connections() {
    let running = Running::start();
    let report: ConnectionsReport = running.client.get("/v1/stack/connections?limit=10").unwrap();
    assert_eq!(report, ConnectionsReport::default());
    let report: CountersReport = running.client.get("/v1/stack/counters").unwrap();
    assert_eq!((report.counters["TcpInSegs"], report.counters["handed_over"]), (0, 0));
    assert!(report.counters["rounds_idle"] > 0);
}

#[test]
fn the_document_of_the_api_has_every_route_and_is_served() {
    let running = Running::start();
    let document: Value = running.client.get("/v1/openapi.json").unwrap();
    let routes = document["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().keys().map(move |method| format!("{method} {path}"))
    });
    let expected = [
        "get /v1/openapi.json",
        "delete /v1/stack/capture",
        "get /v1/stack/capture",
        "post /v1/stack/capture",
        "get /v1/stack/connections",
        "get /v1/stack/counters",
    ];
    assert_eq!(routes.collect::<BTreeSet<_>>(), expected.map(str::to_owned).into());
    let request = &document["components"]["schemas"]["CaptureRequest"]["properties"];
    assert!(request["duration"]["type"] == "string" && request["packets"]["type"] == "integer", "{request}");
}

#[test]
fn a_capture_is_started_shown_and_ended() {
    let running = Running::start();
    let filter = json!({ "port": 7 });
    let started = running.capture("x.pcapng", &filter).unwrap();
    assert!(!started.has_ended && started.file.exists());
    let second = running.capture("y.pcapng", &filter).unwrap_err();
    assert!(second.code == BAD_INPUT && second.reason.contains("x.pcapng is in progress"), "{second}");
    let shown: CaptureReport = running.client.get("/v1/stack/capture").unwrap();
    assert!(!shown.has_ended);
    let ended: CaptureReport = running.client.delete("/v1/stack/capture").unwrap();
    assert_eq!((ended.has_ended, ended.packets, ended.failure), (true, 0, None));
    let none = running.client.get::<CaptureReport>("/v1/stack/capture").unwrap_err();
    assert!(none.code == BAD_INPUT && none.reason == "there is none", "{none}");
    let existing = running.capture("x.pcapng", &filter).unwrap_err();
    assert!(existing.code == BAD_INPUT && existing.reason.contains("already exists"), "{existing}");
    let nowhere = running.capture("none/x.pcapng", &filter).unwrap_err();
    assert!(nowhere.code == FAILED && nowhere.reason.contains("No such file"), "{nowhere}");
}

#[test]
fn requests_that_are_invalid_are_refused() {
    let running = Running::start();
    let both = json!({ "port": 7, "connection": ["10.9.0.2:7", "10.9.0.1:9"] });
    for filter in [both, json!({}), json!({ "ports": 7 }), json!({ "port": 70_000 })] {
        let refused = running.capture("x.pcapng", &filter).unwrap_err();
        assert_eq!(refused.code, BAD_INPUT, "{filter}: {refused}");
    }
    assert!(!running.dir.path().join("x.pcapng").exists());
    for path in
        ["connections", "connections?limit=1&remote=x", "connections?limit=1&remot=x", "none", "../status"]
    {
        let refused = running.client.get::<Value>(&format!("/v1/stack/{path}")).unwrap_err();
        assert_eq!(refused.code, BAD_INPUT, "{path}: {refused}");
    }
}

#[test]
fn a_host_that_ended_and_a_program_that_ended_are_errors() {
    let mut running = Running::start();
    running.end();
    let ended = running.client.get::<CountersReport>("/v1/stack/counters").unwrap_err();
    assert!(ended.code == FAILED && ended.reason.contains("has ended"), "{ended}");
    running.control = None;
    let none = running.client.get::<CountersReport>("/v1/stack/counters").unwrap_err();
    assert!(none.code == FAILED && none.place.starts_with("no program with a stack answers on"), "{none}");
}
