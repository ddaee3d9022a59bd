//! The web page over TCP, with a data plane for tests: sessions, hosts, sites, headers and limits.

use super::super::fake::{Fake, topology};
use super::super::server::{MAX_CLIENTS, Server};
use super::super::service::ApiService;
use super::super::web::Page;
use crate::web::files::{DOCUMENT, FILES};
use crate::web::guard::HEADERS;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const HOST: &str = "Host: localhost";
/// Longer than all deadlines of the server together, on a loaded machine.
const LIMIT: Duration = Duration::from_mins(1);

struct Running {
    address: SocketAddr,
    token: String,
    _server: Server,
}

/// Status, headers in lower case, and body of an answer.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

fn running() -> Running {
    let page = Page::listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let (address, token) = page.url.strip_prefix("http://").unwrap().split_once("/#token=").unwrap();
    let (address, token) = (address.parse().unwrap(), token.to_owned());
    let service =
        ApiService::new(topology(), PathBuf::new(), Box::new(Fake::default()), || panic!("it was stopped"));
    Running { address, token, _server: page.start(Arc::new(service)).unwrap() }
}

impl Running {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// Sends a request with these lines as its headers.
    fn ask(&self, request: &str, headers: &[&str]) -> Answer {
        let mut stream = self.connect();
        let mut lines = vec![format!("{request} HTTP/1.1\r\n")];
        lines.extend(headers.iter().map(|header| format!("{header}\r\n")));
        stream.write_all((lines.concat() + "\r\n").as_bytes()).unwrap();
        read(stream)
    }

    fn sign_in(&self, token: &str) -> Answer {
        self.ask("POST /session", &[HOST, &format!("Authorization: Bearer {token}")])
    }

    /// The `Cookie` header of a new session.
    fn cookie(&self) -> String {
        let answer = self.sign_in(&self.token);
        assert_eq!(answer.status, 204, "{}", answer.head);
        let set = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        assert!(set.ends_with("httponly; samesite=strict; path=/"), "{set}");
        format!("Cookie: {}", set.split(';').next().unwrap())
    }
}

fn read(mut stream: TcpStream) -> Answer {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

#[test]
fn data_needs_a_session_that_the_token_opens() {
    let running = running();
    for path in ["/v1/status", "/v1/snapshot", "/v1/ports/a", "/v1/bridges", "/v1/fdb", "/v1/findings"] {
        let refused = running.ask(&format!("GET {path}"), &[HOST]);
        assert_eq!(refused.status, 401, "{path}");
        assert!(refused.body.contains("the token is missing, wrong or no longer valid"), "{}", refused.body);
    }
    for wrong in ["", "x", &running.token[1..], &format!("{}0", running.token)] {
        let answer = running.sign_in(wrong);
        assert_eq!(answer.status, 401, "{wrong}");
        assert!(!answer.head.contains("set-cookie"), "{}", answer.head);
    }
    assert_eq!(running.ask(&format!("GET /v1/status?token={}", running.token), &[HOST]).status, 401);
    let cookie = running.cookie();
    let status = running.ask("GET /v1/status", &[HOST, &cookie]);
    assert_eq!(status.status, 200);
    assert!(status.body.contains("\"name\":\"linerate\""), "{}", status.body);
    assert_eq!(running.ask("GET /v1/status", &[HOST, &cookie.replace('=', "=1")]).status, 401);
}

#[test]
fn the_page_learns_whether_it_has_a_session_and_ends_it() {
    let running = running();
    let state = |cookie: &str| running.ask("GET /session", &[HOST, cookie]).body;
    assert_eq!(state("Cookie: a=b"), "{\"signed_in\":false,\"may_capture\":false}");
    assert_eq!(state(&running.cookie()), "{\"signed_in\":true,\"may_capture\":false}");
    let ended = running.ask("DELETE /session", &[HOST]);
    assert_eq!(ended.status, 204);
    assert!(ended.head.contains("=; max-age=0; httponly"), "{}", ended.head);
}

#[test]
fn a_session_reads_and_changes_nothing() {
    let running = running();
    let cookie = running.cookie();
    let ask = |request: &str| running.ask(request, &[HOST, &cookie]).status;
    for request in [
        "POST /v1/shutdown",
        "POST /v1/ports",
        "POST /v1/workers",
        "POST /v1/rebalance",
        "GET /v1/ports",
        "GET /v1/flows",
        "GET /metrics",
        "GET /v1/openapi.json",
        "GET /../Cargo.toml",
    ] {
        assert_eq!(ask(request), 404, "{request}");
    }
    for request in ["DELETE /v1/ports/a", "POST /v1/fdb", "DELETE /v1/fdb", "PUT /session", "POST /"] {
        assert_eq!(ask(request), 405, "{request}");
    }
}

#[test]
fn a_capture_needs_a_session_and_the_permission_of_the_configuration() {
    let running = running();
    let request = "GET /v1/capture?ports=a&limit=5";
    assert_eq!(running.ask(request, &[HOST]).status, 401);
    let answer = running.ask(request, &[HOST, &running.cookie()]);
    assert_eq!(answer.status, 403);
    assert!(answer.body.contains("web_capture"), "{}", answer.body);
}

#[test]
fn files_need_no_session() {
    let running = running();
    for file in FILES.iter().chain([&DOCUMENT]) {
        let answer = running.ask(&format!("GET {}", file.path), &[HOST]);
        assert_eq!((answer.status, answer.body.as_str()), (200, file.text), "{}", file.path);
        assert!(answer.head.contains(&format!("content-type: {}", file.media_type)), "{}", answer.head);
    }
}

#[test]
fn requests_of_other_hosts_and_sites_are_refused() {
    let running = running();
    let cookie = running.cookie();
    let ask = |path: &str, headers: &[&str]| {
        running.ask(&format!("GET {path}"), &[headers, &[cookie.as_str()]].concat()).status
    };
    for path in ["/", "/app.js", "/session", "/v1/status", "/nothing"] {
        assert_eq!(ask(path, &["Host: evil.example"]), 403, "{path}");
        assert_eq!(ask(path, &[HOST, "Host: evil.example"]), 403, "{path}");
        assert_eq!(ask(path, &["Accept: */*"]), 403, "{path}");
    }
    assert_eq!(ask("http://evil.example/v1/status", &[HOST]), 403);
    for (site, expected) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)] {
        let site = format!("Sec-Fetch-Site: {site}");
        assert_eq!(ask("/v1/status", &[HOST, &site]), expected, "{site}");
        assert_eq!(ask("/app.js", &[HOST, &site]), expected, "{site}");
        assert_eq!(ask("/", &[HOST, &site]), 200, "{site}");
    }
    let foreign = running.ask("POST /session", &["Host: evil.example", "Authorization: Bearer x"]);
    assert_eq!(foreign.status, 403);
}

#[test]
fn all_answers_have_the_headers() {
    let running = running();
    let cookie = running.cookie();
    for (request, host, status) in [
        ("GET /", HOST, 200),
        ("GET /v1/status", HOST, 401),
        ("GET /", "Host: evil.example", 403),
        ("GET /nothing", HOST, 404),
        ("POST /", HOST, 405),
    ] {
        let answer = running.ask(request, &[host]);
        assert_eq!(answer.status, status, "{request}");
        for (name, value) in HEADERS {
            let header = format!("\r\n{name}: {}\r\n", value.to_lowercase());
            assert!(
                format!("{}\r\n", answer.head).contains(&header),
                "{request}: no {name} in {}",
                answer.head
            );
        }
    }
    assert!(running.ask("GET /v1/status", &[HOST, &cookie]).head.contains("no-store"));
}

#[test]
fn connections_without_a_request_end_and_give_their_place_to_others() {
    let running = running();
    let idle: Vec<_> = (0..MAX_CLIENTS).map(|_| running.connect()).collect();
    assert_eq!(running.ask("GET /", &[HOST]).status, 200);
    for mut stream in idle {
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
}

/// A configuration file may be large where it can be applied, not here.
#[test]
fn a_body_is_limited_before_it_has_a_route() {
    let running = running();
    let mut stream = running.connect();
    write!(stream, "POST /v1/config HTTP/1.1\r\n{HOST}\r\nContent-Length: 65537\r\n\r\n").unwrap();
    stream.write_all(&vec![b'a'; 65_537]).unwrap();
    let answer = read(stream);
    assert_eq!(answer.status, 413, "{}", answer.body);
}

#[test]
fn a_token_of_a_file_is_not_in_the_url() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let listen = || Page::listen("127.0.0.1:0".parse().unwrap(), Some(&path));
    let missing = listen().err().unwrap().to_string();
    assert!(missing.contains("cannot be read"), "{missing}");
    fs::write(&path, "0123456789abcdef0123456789abcdef\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let public = listen().err().unwrap().to_string();
    assert!(
        public.contains("every user of this machine has access to it") && public.contains("chmod"),
        "{public}"
    );
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let page = listen().unwrap();
    assert!(page.url.starts_with("http://127.0.0.1:") && page.url.ends_with('/'), "{}", page.url);
}

#[test]
fn an_address_in_use_is_an_error() {
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let error = Page::listen(held.local_addr().unwrap(), None).err().unwrap().to_string();
    assert!(error.contains("address for the web page 127.0.0.1:"), "{error}");
    assert!(error.contains("choose another address with `web` in [switch] or --web"), "{error}");
}
