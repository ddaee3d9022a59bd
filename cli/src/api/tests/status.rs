//! The OpenAPI document against the router, and the HTTP status of errors on every route.

use super::super::fake::{Fake, topology};
use super::super::model::{FdbReport, PortReport, Status};
use super::super::routes;
use super::super::service::ApiService;
use super::{Running, raw, running};
use crate::settings::topology::StaticEntry;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Status of a request without a body.
fn status(switch: &Running, method: &str, path: &str) -> u16 {
    status_of(switch, method, path, "")
}

/// Status of a request. The body of an error has a place, a reason and a remedy.
fn status_of(switch: &Running, method: &str, path: &str, body: &str) -> u16 {
    let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    let answer = raw(switch, &(head + body));
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    if status >= 400 {
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let error: console::Diagnostic =
            serde_json::from_str(body).unwrap_or_else(|e| panic!("{e} in {answer}"));
        assert!(!error.reason.is_empty() && !error.remedy.is_empty(), "{answer}");
    }
    status
}

/// Ports `a` and `b`, and one static entry.
fn inhabited() -> Running {
    let switch = running();
    for port in
        [json!({ "name": "a", "kind": "null" }), json!({ "name": "b", "kind": "tap", "interface": "lr-b" })]
    {
        switch.client.post::<PortReport>("/v1/ports", &port).unwrap();
    }
    let entry = json!({ "mac": "02:00:00:00:00:01", "port": "a" });
    switch.client.post::<StaticEntry>("/v1/fdb", &entry).unwrap();
    switch
}

#[test]
fn an_object_that_exists_is_a_conflict() {
    let switch = inhabited();
    for (path, body) in [
        ("/v1/ports", json!({ "name": "a", "kind": "null" })),
        ("/v1/ports", json!({ "name": "c", "kind": "tap", "interface": "lr-b" })),
        ("/v1/ports", json!({ "name": "c", "kind": "memif", "socket": switch.client.socket() })),
        ("/v1/fdb", json!({ "mac": "02:00:00:00:00:01", "port": "a" })),
        ("/v1/fdb", json!({ "mac": "02:00:00:00:00:01", "port": "b" })),
    ] {
        assert_eq!(status_of(&switch, "POST", path, &body.to_string()), 409, "{path} {body}");
    }
    assert_eq!(switch.client.get::<Status>("/v1/status").unwrap().ports, 2);
    assert_eq!(switch.client.get::<FdbReport>("/v1/fdb").unwrap().total, 1);
}

#[test]
fn addresses_are_listed_by_address() {
    let switch = inhabited();
    let total = |path: &str| switch.client.get::<FdbReport>(path).unwrap().total;
    assert_eq!(total("/v1/fdb?mac=02:00:00:00:00:01&bridge=main"), 1);
    assert_eq!(total("/v1/fdb?mac=02:00:00:00:00:02"), 0);
    assert_eq!(total("/v1/fdb?mac=02:00:00:00:00:01&vlan=7"), 0);
}

#[test]
fn an_unknown_object_is_not_found_on_every_route() {
    let switch = inhabited();
    for (method, path) in [
        ("GET", "/v1/ports/x"),
        ("DELETE", "/v1/ports/x"),
        ("DELETE", "/v1/bridges/x"),
        ("GET", "/v1/fdb?port=x"),
        ("GET", "/v1/fdb?bridge=x"),
        ("DELETE", "/v1/fdb?port=x"),
        ("DELETE", "/v1/fdb?bridge=x"),
        ("DELETE", "/v1/fdb/02:00:00:00:00:02"),
        ("DELETE", "/v1/fdb/02:00:00:00:00:01?port=x"),
        ("DELETE", "/v1/fdb/02:00:00:00:00:01?vlan=7"),
        ("GET", "/v1/x"),
        ("GET", "/"),
    ] {
        assert_eq!(status(&switch, method, path), 404, "{method} {path}");
    }
    assert_eq!(status_of(&switch, "PATCH", "/v1/ports/x", "{}"), 404);
    assert_eq!(status_of(&switch, "PATCH", "/v1/bridges/x", "{}"), 404);
    assert_eq!(status_of(&switch, "PATCH", "/v1/workers/7", "{}"), 404);
    assert_eq!(status(&switch, "DELETE", "/v1/workers/x"), 404);
    for (path, body) in [
        ("/v1/ports", json!({ "name": "c", "kind": "null", "bridge": "x" })),
        ("/v1/fdb", json!({ "mac": "02:00:00:00:00:03", "port": "x" })),
        // An object that does not exist is worse than one that does.
        ("/v1/ports", json!({ "name": "a", "kind": "null", "bridge": "x" })),
    ] {
        assert_eq!(status_of(&switch, "POST", path, &body.to_string()), 404, "{path} {body}");
    }
}

#[test]
fn invalid_input_is_a_bad_request_on_every_route() {
    let switch = inhabited();
    for (method, path, body) in [
        ("POST", "/v1/ports", "{"),
        ("POST", "/v1/ports", "[]"),
        ("POST", "/v1/ports", "{\"name\":\"c\"}"),
        ("POST", "/v1/ports", "{\"name\":\"c\",\"kind\":\"null\",\"vlan\":0}"),
        // Invalid input is worse than an object that exists or does not.
        ("POST", "/v1/ports", "{\"name\":\"a\",\"kind\":\"null\",\"bridge\":\"x\",\"vlan\":0}"),
        ("GET", "/v1/ports/%ff", ""),
        ("DELETE", "/v1/ports/%ff", ""),
        ("PATCH", "/v1/ports/a", "[]"),
        ("PATCH", "/v1/ports/a", "{\"name\":\"c\"}"),
        ("POST", "/v1/bridges", "[]"),
        ("POST", "/v1/bridges", "{\"name\":\"c\",\"table\":0}"),
        ("PATCH", "/v1/bridges/main", "{\"name\":\"c\"}"),
        ("PATCH", "/v1/bridges/main", "{\"ageing\":\"1s\"}"),
        ("DELETE", "/v1/bridges/%ff", ""),
        ("GET", "/v1/fdb?vlan=4095", ""),
        ("GET", "/v1/fdb?limit=-1", ""),
        ("GET", "/v1/fdb?mac=zz", ""),
        // Only listings have it: a flush must not ignore it.
        ("DELETE", "/v1/fdb?mac=02:00:00:00:00:01", ""),
        ("GET", "/v1/fdb?colour=red", ""),
        ("DELETE", "/v1/fdb?vlan=x", ""),
        ("POST", "/v1/fdb", ""),
        ("POST", "/v1/fdb", "{\"mac\":\"01:00:00:00:00:01\",\"port\":\"a\"}"),
        ("DELETE", "/v1/fdb/zz", ""),
        ("DELETE", "/v1/fdb/%ff", ""),
        ("DELETE", "/v1/fdb/02:00:00:00:00:01?vlan=x", ""),
        ("POST", "/v1/trace", ""),
        ("POST", "/v1/trace", "{\"colour\":\"red\"}"),
        ("POST", "/v1/workers", "7"),
        ("POST", "/v1/workers", "{\"role\":\"work\"}"),
        ("PATCH", "/v1/workers/0", "{\"cpu\":-1}"),
        ("PATCH", "/v1/workers/0", "{\"role\":\"work\"}"),
        ("POST", "/v1/rebalance", "{\"duration\":\"9ms\"}"),
        ("POST", "/v1/rebalance", ""),
    ] {
        assert_eq!(status_of(&switch, method, path, body), 400, "{method} {path} {body}");
    }
}

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// Paths and methods of the OpenAPI document that a running switch serves.
fn described(switch: &Running) -> Vec<(String, Vec<String>)> {
    let document: serde_json::Value = switch.client.get("/v1/openapi.json").unwrap();
    let paths = document["paths"].as_object().unwrap().iter();
    paths.map(|(path, item)| (path.clone(), item.as_object().unwrap().keys().cloned().collect())).collect()
}

#[test]
fn a_method_is_described_if_and_only_if_the_router_has_it() {
    let switch = running();
    for (path, methods) in described(&switch) {
        for method in METHODS {
            let found = status(&switch, &method.to_uppercase(), &path);
            assert_eq!(found != 405, methods.iter().any(|own| own == method), "{method} {path}: {found}");
        }
    }
}

/// axum has no list of a router's paths except in its `Debug` output.
#[test]
fn a_path_is_described_if_and_only_if_the_router_has_it() {
    let switch = running();
    let service = ApiService::new(topology(), PathBuf::new(), Box::new(Fake::default()), || ());
    let router = format!("{:?}", routes::router(Arc::new(service)));
    let quoted = router.split('"').skip(1).step_by(2);
    let others = ["/metrics", "/healthz", "/readyz"];
    let routed: BTreeSet<&str> =
        quoted.filter(|text| text.starts_with("/v1/") || others.contains(text)).collect();
    let described = described(&switch);
    assert_eq!(described.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), Vec::from_iter(routed));
}

#[test]
fn parameters_of_a_path_are_parts_of_it() {
    let document: serde_json::Value = running().client.get("/v1/openapi.json").unwrap();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().values();
        for parameter in methods.flat_map(|method| method["parameters"].as_array().into_iter().flatten()) {
            let name = parameter["name"].as_str().unwrap();
            let is_part = path.contains(&format!("{{{name}}}"));
            assert_eq!(parameter["in"] == "path", is_part, "{path}: {name}");
        }
    }
}

#[test]
fn every_reference_of_the_document_leads_to_a_schema() {
    let document: serde_json::Value = running().client.get("/v1/openapi.json").unwrap();
    let text = document.to_string();
    let references = text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap());
    let broken: Vec<&str> = references.filter(|pointer| document.pointer(pointer).is_none()).collect();
    assert_eq!(broken, Vec::<&str>::new());
}

#[test]
fn a_socket_for_reading_changes_nothing() {
    let switch = super::reading();
    assert_eq!(status(&switch, "GET", "/v1/status"), 200);
    assert_eq!(status(&switch, "GET", "/v1/ports"), 200);
    for (method, path) in [
        ("POST", "/v1/ports"),
        ("DELETE", "/v1/ports/a"),
        ("POST", "/v1/shutdown"),
        ("POST", "/v1/config?file=/x"),
        ("GET", "/v1/capture"),
    ] {
        assert_eq!(status(&switch, method, path), 403, "{method} {path}");
    }
    assert!(!switch.stopped.load(std::sync::atomic::Ordering::SeqCst));
}

#[test]
fn the_topology_is_read_while_it_is_kept_unchanged() {
    let service = ApiService::new(topology(), PathBuf::from("c.sock"), Box::new(Fake::default()), || ());
    let unchanged = service.keep_unchanged().unwrap();
    assert_eq!(service.status().ports, 0);
    assert!(service.change().is_err() && service.keep_unchanged().is_err());
    drop(unchanged);
    assert!(service.change().is_ok());
}
