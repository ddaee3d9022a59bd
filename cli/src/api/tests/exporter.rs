//! The address for metrics over HTTP.

use super::super::exporter;
use super::super::fake::{FAULTED, Fake, topology};
use super::super::peer::Peer;
use super::super::server::Server;
use super::super::service::ApiService;
use crate::dataplane::health::STALL;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

/// A running exporter.
struct Exporter {
    service: Arc<ApiService>,
    address: SocketAddr,
    _server: Server,
}

fn exporter() -> Exporter {
    let service = ApiService::new(topology(), "/c.sock".into(), Box::new(Fake::default()), || {});
    let service = Arc::new(service);
    let listener = exporter::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    Exporter { _server: exporter::start(listener, service.clone()).unwrap(), service, address }
}

impl Exporter {
    /// Status and body of a request.
    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn json(&self, path: &str) -> (u16, Value) {
        let (status, body) = self.get(path);
        (status, serde_json::from_str(&body).unwrap_or_else(|e| panic!("{e} in {body}")))
    }
}

#[test]
fn only_metrics_and_health_are_served() {
    let exporter = exporter();
    let (status, metrics) = exporter.get("/metrics");
    assert!(status == 200 && metrics.contains("# TYPE "), "{status} {metrics}");
    assert_eq!(exporter.json("/healthz"), (200, json!({ "hung_workers": [] })));
    assert_eq!(exporter.json("/readyz"), (200, json!({ "faulted_ports": {} })));
    let (status, error) = exporter.json("/v1/status");
    assert!(status == 404 && error["remedy"].as_str().unwrap().contains("/healthz"), "{status} {error}");
}

#[test]
fn a_failed_port_is_not_ready_and_a_hung_worker_not_healthy() {
    let exporter = exporter();
    let own = Peer::own();
    exporter.service.add_port(&json!({ "name": FAULTED, "kind": "null" }), &own).unwrap();
    assert_eq!(exporter.json("/readyz"), (503, json!({ "faulted_ports": { "faulted": "" } })));
    assert_eq!(exporter.get("/healthz").0, 200);

    // The worker of the snapshot never polls.
    let (snapshot, start) = (exporter.service.snapshot(), Instant::now());
    exporter.service.observe_health_at(&snapshot, start);
    assert_eq!(exporter.get("/healthz").0, 200);
    exporter.service.observe_health_at(&snapshot, start + STALL);
    let (status, report) = exporter.json("/healthz");
    assert_eq!((status, &report["hung_workers"][0]["worker"]), (503, &0.into()), "{report}");
    assert_eq!(exporter.get("/metrics").0, 200);
}
