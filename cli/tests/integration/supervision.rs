//! What a supervisor of the process is told: notices of systemd's protocol (`sd_notify(3)`), and requests for health.

use super::common::command;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_mins(1);

/// The next notice.
fn notice(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    let len = socket.recv(&mut bytes).expect("a notice before the limit");
    String::from_utf8(bytes[..len].to_vec()).unwrap().trim().to_owned()
}

/// Status line and body of the answer to a request.
fn get(mut stream: impl Read + Write, path: &str) -> (String, String) {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

#[test]
fn systemd_is_told_that_the_switch_runs_works_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let port = format!("[[port]]\nname = \"a\"\nsocket = \"{}\"\n", path("a.sock").display());
    let text = format!("[switch]\ncontrol = \"{}\"\n{port}", path("c.sock").display());
    fs::write(path("switch.toml"), text).unwrap();
    let socket = UnixDatagram::bind(path("notify")).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let mut switch = command(&["run", path("switch.toml").to_str().unwrap()])
        .env("NOTIFY_SOCKET", path("notify"))
        .env("WATCHDOG_USEC", "200000")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();

    // Whether the first look at the workers is before it or behind it is not defined.
    let first = [notice(&socket), notice(&socket)];
    assert!(first.contains(&"READY=1".to_owned()), "{first:?}");
    for _ in 0..3 {
        assert_eq!(notice(&socket), "WATCHDOG=1");
    }
    let control = || UnixStream::connect(path("c.sock")).unwrap();
    let healthy = get(control(), "/healthz");
    assert_eq!(healthy, ("HTTP/1.1 200 OK".to_owned(), r#"{"hung_workers":[]}"#.to_owned()));
    let ready = get(control(), "/readyz");
    assert_eq!(ready, ("HTTP/1.1 200 OK".to_owned(), r#"{"faulted_ports":{}}"#.to_owned()));

    let ended = Command::new("kill").arg(switch.id().to_string()).status().unwrap();
    assert!(ended.success());
    let last = std::iter::repeat_with(|| notice(&socket)).find(|notice| notice != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
    assert!(switch.wait().unwrap().success());
}

#[test]
fn metrics_are_read_over_tcp_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap();
    let switch = format!("[switch]\ncontrol = \"{}\"\nmetrics = \"{address}\"\n", path("c.sock").display());
    let port = format!("[[port]]\nname = \"a\"\nsocket = \"{}\"\n", path("a.sock").display());
    fs::write(path("switch.toml"), switch + &port).unwrap();
    let run = || command(&["run", path("switch.toml").to_str().unwrap()]);

    let refused = run().output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("address for metrics {address}: Address already in use")), "{said}");
    assert!(said.contains("choose another address with `metrics` in [switch]"), "{said}");
    assert!(!path("a.sock").exists());

    drop(held);
    let socket = UnixDatagram::bind(path("notify")).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let mut switch = run().env("NOTIFY_SOCKET", path("notify")).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(notice(&socket), "READY=1");
    let read = |path| get(TcpStream::connect(address).unwrap(), path);
    let (status, body) = read("/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(body.contains("linerate_port_state{port=\"a\",state=\"waiting\"} 1\n"), "{body}");
    assert_eq!(read("/readyz").0, "HTTP/1.1 200 OK");
    for path in ["/v1/status", "/v1/openapi.json", "/"] {
        assert_eq!(read(path).0, "HTTP/1.1 404 Not Found", "{path}");
    }
    let ended = Command::new("kill").arg(switch.id().to_string()).status().unwrap();
    assert!(ended.success() && switch.wait().unwrap().success());
    assert!(TcpStream::connect(address).is_err());
}
