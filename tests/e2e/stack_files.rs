//! Files over faulty links: curl and a server of the kernel are the peers of `linerate serve http`, and of both sides
//! of `linerate serve proxy`.

use std::net::TcpStream;

use linerate_tests::process::Process;
use linerate_tests::stack_server::{LIMIT, StackServer};
use linerate_tests::{data, folder, scope, wait};
use serde_json::Value;
use tempfile::TempDir;

/// A faulty link.
struct Link {
    faults: &'static str,
    /// Whether the packets of the stack are captured unchanged.
    is_intact: bool,
    /// Server of the kernel, for a proxy.
    kernel: &'static str,
}

/// Without flipped bits packets are as long as the offloads permit, and with them as the MTU does.
const LINKS: [Link; 2] = [
    Link {
        faults: "drop=0.02,duplicate=0.02,reorder=0.02,delay=[\"100us\",\"1ms\"]",
        is_intact: true,
        kernel: "10.9.0.1:8000",
    },
    Link {
        faults: "drop=0.01,duplicate=0.01,reorder=0.01,corrupt=0.01,delay=[\"100us\",\"1ms\"]",
        is_intact: false,
        kernel: "[fd09::1]:8000",
    },
];
const LOSSY: Link = Link { faults: "drop=0.2", is_intact: true, kernel: "[fd09::1]:8000" };
const SITES: [&str; 2] = ["http://10.9.0.2", "http://[fd09::2]"];

/// Bytes of a file.
fn len() -> usize {
    scope::pick(8_000_001, 600_001)
}

impl Link {
    fn start(&self, words: &[&str]) -> StackServer {
        StackServer::start_with(&format!(",fault={{seed=7,{}}}", self.faults), words).without_offloads()
    }

    /// Ends the server. Its packets must be valid if the link leaves them unchanged, and some were lost otherwise.
    fn end(&self, mut server: StackServer) -> Value {
        if self.is_intact {
            return server.finish();
        }
        let summary = server.end();
        assert_ne!(summary["counters"]["TcpRetransSegs"], Value::Null, "{summary}");
        assert_ne!(summary["counters"]["TcpInCsumErrors"], Value::Null, "{summary}");
        summary
    }
}

/// A folder with `www/file`, and places for copies.
struct Files {
    folder: TempDir,
    bytes: Vec<u8>,
}

impl Files {
    fn new(len: usize) -> Files {
        let (folder, bytes) = (folder(), data::bytes(1, len));
        let files = Files { folder, bytes };
        std::fs::create_dir(files.path("www")).expect("a writable folder");
        std::fs::write(files.path("www/file"), &files.bytes).expect("a writable folder");
        files
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("a path in UTF-8").to_owned()
    }

    /// Compares a copy, and removes it.
    fn check(&self, name: &str) {
        let copy = std::fs::read(self.path(name)).expect("a copy");
        assert!(copy == self.bytes, "{name}: {} of {} bytes, or others", copy.len(), self.bytes.len());
        std::fs::remove_file(self.path(name)).expect("a copy");
    }

    fn download(&self, server: &StackServer, url: &str) {
        server.curl(&["--fail", "-o", &self.path("copy"), url]);
        self.check("copy");
    }

    /// Serves downloads and uploads in the namespace.
    fn serve(&self, server: &StackServer) -> Process {
        let process = server.netns.spawn(
            self.folder.path(),
            "python",
            "python3",
            &["-c", KERNEL_SERVER, &self.path("www")],
        );
        server.netns.enter(|| {
            let there = wait::until(LIMIT, || TcpStream::connect("10.9.0.1:8000").ok());
            assert!(there.is_some(), "the server of the kernel did not start");
        });
        process
    }
}

/// Serves the files of a directory, and stores what clients send.
const KERNEL_SERVER: &str = r#"
import http.server, os, socket, socketserver, sys
class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_PUT(self):
        with open(self.path.strip("/"), "wb") as file:
            file.write(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()
class Server(socketserver.ThreadingTCPServer):
    address_family = socket.AF_INET6
    allow_reuse_address = True
os.chdir(sys.argv[1])
Server(("::", 8000), Handler).serve_forever()
"#;

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn http_server_sends_files_over_faulty_links() {
    let files = Files::new(len());
    for link in LINKS {
        let server = link.start(&["http", &files.path("www")]);
        for site in SITES {
            files.download(&server, &format!("{site}/file"));
        }
        assert_eq!(link.end(server)["connections"], 2);
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn files_arrive_although_a_fifth_of_the_packets_is_lost() {
    let files = Files::new(scope::pick(200_001, 20_001));
    let server = LOSSY.start(&["http", &files.path("www")]);
    for site in SITES {
        files.download(&server, &format!("{site}/file"));
    }
    assert_eq!(LOSSY.end(server)["connections"], 2);
    let proxy = LOSSY.start(&["proxy", "--to", LOSSY.kernel]);
    let _server = files.serve(&proxy);
    files.download(&proxy, &format!("{}:8080/file", SITES[0]));
    assert_eq!(LOSSY.end(proxy)["connections"], 1);
}

/// Each byte crosses the link twice.
#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn proxy_forwards_downloads_and_uploads_over_faulty_links() {
    let files = Files::new(len());
    for link in LINKS {
        let proxy = link.start(&["proxy", "--to", link.kernel]);
        let _server = files.serve(&proxy);
        for site in SITES {
            files.download(&proxy, &format!("{site}:8080/file"));
            proxy.curl(&["--fail", "-T", &files.path("www/file"), &format!("{site}:8080/upload")]);
            files.check("www/upload");
        }
        let summary = link.end(proxy);
        assert_eq!((&summary["connections"], &summary["counters"]["TcpActiveOpens"]), (&4.into(), &4.into()));
    }
}
