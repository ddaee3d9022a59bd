//! Grants over their socket, with a [`Fake`] data plane. The user of every request is that of this process.

use super::super::client::Client;
use super::super::fake::{Fake, topology};
use super::super::grants;
use super::super::model::PortReport;
use super::super::routes;
use super::super::server::{self, Server};
use super::super::service::ApiService;
use crate::grant::{self, GrantAnswer, GrantRequest};
use crate::settings::config;
use crate::settings::kinds::PortKind;
use crate::settings::topology::{PortSettings, Topology};
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A switch with its socket for grants. The files are removed last.
struct Granting {
    client: Client,
    service: Arc<ApiService>,
    socket: PathBuf,
    _servers: [Server; 2],
    _file: crate::socket_file::SocketFile,
    _dir: tempfile::TempDir,
}

/// A switch with these `[[grant]]` sections and the bridge `main`.
fn granting(sections: &str) -> Granting {
    let dir = tempfile::tempdir().unwrap();
    let (control, socket) = (dir.path().join("c.sock"), dir.path().join("g.sock"));
    let text = format!("[switch]\ngrants = \"{}\"\n{sections}", socket.display());
    let read = config::parse(&text, &crate::host::Host::of(&[0], &[0]), Some(&control)).unwrap();
    let topology = Topology { grants: read.grants, ..topology() };
    let service = Arc::new(ApiService::new(topology, control.clone(), Box::new(Fake::default()), || ()));
    let (file, listener) = grants::listen(&socket).unwrap();
    let servers = [
        server::start(
            "control-api",
            server::Role::Changes,
            UnixListener::bind(&control).unwrap(),
            routes::router(service.clone()),
        )
        .unwrap(),
        grants::start(listener, service.clone()).unwrap(),
    ];
    let client = Client::new(Some(&control));
    Granting { client, service, socket, _servers: servers, _file: file, _dir: dir }
}

fn request(name: &str) -> GrantRequest {
    GrantRequest { name: name.into(), bridge: None, queue_pairs: 1, memory: 1 << 20 }
}

impl Granting {
    fn ask(&self, request: &GrantRequest) -> (UnixStream, GrantAnswer) {
        grant::exchange(&self.socket, request).unwrap()
    }

    fn status(&self, request: &GrantRequest) -> u16 {
        let (_, answer) = self.ask(request);
        assert_eq!(answer.error.is_none(), answer.status == 201, "{answer:?}");
        answer.status
    }

    fn ports(&self) -> Vec<PortSettings> {
        let reports: Vec<PortReport> = self.client.get("/v1/ports").unwrap();
        reports.into_iter().map(|report| report.settings).collect()
    }

    /// Waits until there are no ports. The time limit prevents the test from hanging.
    fn wait_empty(&self) {
        let until = Instant::now() + Duration::from_mins(1);
        while !self.ports().is_empty() {
            assert!(Instant::now() < until, "{:?}", self.ports());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn granted_port_is_listed_with_its_holder_and_goes_with_it() {
    let switch = granting("[[grant]]\nvlan = 10\nmax_macs = 1\n");
    let (stream, answer) = switch.ask(&request("web"));
    assert_eq!(answer.status, 201, "{answer:?}");
    let ports = switch.ports();
    let [port] = ports.as_slice() else { panic!("{ports:?}") };
    let PortKind::Granted(granted) = &port.kind else { panic!("{port:?}") };
    assert_eq!(granted.holder.pid, i32::try_from(std::process::id()).unwrap());
    assert_eq!(granted.holder.uid, rustix::process::geteuid().as_raw());
    assert_eq!(
        (port.name.as_str(), port.bridge.as_str(), port.policy.security.max_macs),
        ("web", "main", Some(1))
    );
    assert!(port.to_string().contains(", access VLAN 10, at most 1 addresses"), "{port}");
    drop(stream);
    switch.wait_empty();
    assert_eq!(switch.status(&request("web")), 201, "the name is free");
}

#[test]
fn grant_that_ends_during_an_upgrade_that_fails_is_removed() {
    let switch = granting("[[grant]]\n");
    let (stream, _) = switch.ask(&request("web"));
    let unchanged = switch.service.keep_unchanged().unwrap();
    drop(stream);
    // Answered after the end of the first one was noticed, by the same thread.
    assert_eq!(switch.status(&request("other")), 409);
    assert_eq!(switch.ports().len(), 1);
    drop(unchanged);
    switch.wait_empty();
    assert_eq!(switch.status(&request("web")), 201, "the name is free");
}

#[test]
fn removal_of_a_port_closes_the_connection_to_its_holder() {
    let switch = granting("[[grant]]\n");
    let (mut stream, _) = switch.ask(&request("web"));
    stream.set_nonblocking(false).unwrap();
    switch.client.delete::<PortSettings>("/v1/ports/web").unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    assert_eq!(switch.ports(), []);
    // The end of the first grant does not remove the port of a second one.
    let (_second, answer) = switch.ask(&request("web"));
    assert_eq!(answer.status, 201);
    drop(stream);
    let (_third, answer) = switch.ask(&request("other"));
    assert_eq!((answer.status, switch.ports().len()), (201, 2));
}

#[test]
fn refusals_have_a_status_a_reason_and_no_effect() {
    let switch = granting("[[grant]]\nports = 2\n");
    switch.client.post::<PortReport>("/v1/ports", &json!({ "name": "taken", "kind": "null" })).unwrap();
    let (_stream, _) = switch.ask(&request("web"));
    for (name, asked, status) in [
        ("a name of a granted port", request("web"), 409),
        ("a name of another port", request("taken"), 409),
        ("an invalid name", request("../x"), 400),
        ("an unknown bridge", GrantRequest { bridge: Some("no".into()), ..request("b") }, 404),
        ("too many queue pairs", GrantRequest { queue_pairs: 2, ..request("b") }, 403),
        ("too much memory", GrantRequest { memory: 65 << 20, ..request("b") }, 403),
    ] {
        assert_eq!(switch.status(&asked), status, "{name}");
    }
    let (_second, answer) = switch.ask(&request("b"));
    assert_eq!((answer.status, switch.status(&request("c"))), (201, 409), "two ports at most");
    let error = grant::ask(&switch.socket, &request("c")).unwrap_err();
    assert_eq!((error.code, error.place.as_str()), (console::BAD_INPUT, "port \"c\""));
    assert_eq!(error.reason, "all 2 ports of this grant are in use");
    assert_eq!(switch.ports().len(), 3);
}

#[test]
fn user_without_a_section_is_refused() {
    let switch = granting("[[grant]]\nusers = [\"65533\"]\n");
    let (_, answer) = switch.ask(&request("web"));
    let own = rustix::process::geteuid().as_raw();
    assert_eq!(answer.status, 403);
    let reason = answer.error.unwrap().reason;
    assert!(reason.starts_with(&format!("the switch grants no ports to user {own}, group ")), "{reason}");
}

#[test]
fn broken_requests_are_answered_or_closed_and_others_are_served() {
    let switch = granting("[[grant]]\n");
    let connect = || UnixStream::connect(&switch.socket).unwrap();
    let silent: Vec<_> = (0..8).map(|_| connect()).collect();
    let (mut half, mut long, mut no_json) = (connect(), connect(), connect());
    half.write_all(&[5, 0]).unwrap();
    long.write_all(&u32::MAX.to_le_bytes()).unwrap();
    assert_eq!(long.read(&mut [0]).unwrap(), 0, "closed at once");
    no_json.write_all(b"\x02\0\0\0??").unwrap();
    let mut prefix = [0; 4];
    no_json.read_exact(&mut prefix).unwrap();
    let mut answer = vec![0; grant::length(prefix).unwrap()];
    no_json.read_exact(&mut answer).unwrap();
    let answer: GrantAnswer = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer.status, 400, "{answer:?}");
    let (_stream, answer) = switch.ask(&request("web"));
    assert_eq!(answer.status, 201);
    drop((silent, half));
}

#[test]
fn socket_in_use_is_not_replaced_and_a_stale_one_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("g.sock");
    let first = grants::listen(&path).unwrap();
    let error = grants::listen(&path).unwrap_err();
    assert!(error.reason.contains("another process listens there"), "{error}");
    drop(first);
    assert!(!path.exists());
    drop(UnixListener::bind(&path).unwrap());
    let (_file, _listener) = grants::listen(&path).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o666);
}

#[test]
fn link_in_place_of_the_socket_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let [target, link] = ["target.sock", "g.sock"].map(|name| dir.path().join(name));
    let _listener = crate::socket_file::listen_on(&target).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let error = grants::open_to_all(&link, "socket for grants", "choose another path").unwrap_err();
    assert_eq!(error.place, "socket for grants");
    let mode = std::os::unix::fs::PermissionsExt::mode(&target.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}
