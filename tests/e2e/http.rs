//! `linerate serve http`: curl and wrk in a namespace, at the other end of a TAP interface.

use std::path::Path;
use std::time::Duration;

use linerate_tests::binary;
use linerate_tests::data;
use linerate_tests::folder;
use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);
const CLIENT: [&str; 2] = ["10.9.0.1/24", "fd09::1/64"];
const SERVER: [&str; 2] = ["10.9.0.2/24", "fd09::2/64"];
const SITE: &str = "http://10.9.0.2";
const SITE6: &str = "http://[fd09::2]";
/// Length of the large file: 100 MB and a part of a block.
const LARGE: usize = 100_000_123;
/// Start of the summary.
const SUMMARY: &str = "{\n";

/// The server at the other end of interface `web0` of a namespace.
struct Server {
    process: Process,
    netns: Netns,
}

impl Server {
    fn start(folder: &Path, more: &[&str]) -> Server {
        let (netns, site) = (Netns::new(), folder.join("site"));
        let port = format!("kind=tap,interface=web0,netns={}", netns.name());
        let site = site.to_str().expect("a path in UTF-8");
        let words = ["serve", "http", site, "-o", "json", "--port", &port];
        let words = [&words[..], &["--address", SERVER[0], "--address", SERVER[1]], more].concat();
        // Each server of a folder has a log of its own.
        let name = more.last().copied().unwrap_or("http");
        let mut process = Process::spawn(folder, name, binary::linerate(), &words);
        process.wait_for("serves port 80", 0, LIMIT);
        netns.configure("web0", &CLIENT);
        Server { process, netns }
    }

    fn curl(&self, words: &[&str]) -> String {
        self.netns.run("curl", &[&["-sS", "-g", "--max-time", "60"], words].concat())
    }

    /// Ends the server and returns its summary.
    fn stop(mut self) -> Value {
        assert!(self.process.terminate(LIMIT).success());
        let output = self.process.output();
        let json = output.find(SUMMARY).and_then(|at| output.get(at..)).unwrap_or_default();
        serde_json::from_str(json).unwrap_or_else(|error| panic!("no summary in {output}: {error}"))
    }
}

/// A site with an index, a small file and one for each way of reading.
fn site(folder: &Path) {
    let site = folder.join("site");
    std::fs::create_dir_all(site.join("sub")).expect("a directory");
    let write = |name: &str, bytes: &[u8]| std::fs::write(site.join(name), bytes).expect("a file");
    write("index.html", b"<p>index</p>\n");
    write("sub/index.html", b"<p>sub</p>\n");
    write("small.bin", &data::bytes(0, 50_001));
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn curl_fetches_files_ranges_and_changes() {
    let folder = folder();
    site(folder.path());
    let server = Server::start(folder.path(), &[]);
    let saved = folder.path().join("saved");
    let saved_path = saved.to_str().expect("a path in UTF-8");
    for site in [SITE, SITE6] {
        assert_eq!(server.curl(&[&format!("{site}/")]), "<p>index</p>\n");
        assert_eq!(server.curl(&["-L", &format!("{site}/sub")]), "<p>sub</p>\n");
        let file = format!("{site}/small.bin");
        server.curl(&["-o", saved_path, &file]);
        assert!(std::fs::read(&saved).expect("a file") == data::bytes(0, 50_001), "{site}");
        server.curl(&["-o", saved_path, "-r", "1000-40000", &file]);
        assert!(std::fs::read(&saved).expect("a file") == data::bytes(0, 50_001)[1000..=40_000]);
        let code = ["-o", "/dev/null", "-w", "%{http_code} %{num_connects} "];
        assert_eq!(server.curl(&[&code[..], &[&format!("{site}/none")]].concat()), "404 1 ");
        assert_eq!(server.curl(&[&code[..], &["-r", "60000-", &file]].concat()), "416 1 ");
        assert_eq!(server.curl(&[&code[..], &["-X", "POST", "-d", "a=b", &file]].concat()), "405 1 ");
        // Two files by one connection.
        let index = format!("{site}/");
        let two = ["-o", "/dev/null", &file, "-o", "/dev/null", &index];
        assert_eq!(
            server.curl(&[&["-w", "%{http_code} %{num_connects} "], &two[..]].concat()),
            "200 1 200 0 "
        );
        let head = server.curl(&["-I", &file]);
        assert!(
            head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("Content-Length: 50001\r\n"),
            "{head}"
        );
        let etag = folder.path().join("etag");
        let etag = etag.to_str().expect("a path in UTF-8");
        server.curl(&["-o", "/dev/null", "--etag-save", etag, &file]);
        let again = server.curl(&[&code[..], &["--etag-compare", etag, &file]].concat());
        assert_eq!(again, "304 1 ");
        let since = server.curl(&[&code[..], &["-z", saved_path, &file]].concat());
        assert_eq!(since, "304 1 ", "the saved file is newer");
        let raw = server.curl(&[&code[..], &["--path-as-is", &format!("{site}/../saved")]].concat());
        assert_eq!(raw, "400 1 ");
    }
    let summary = server.stop();
    assert_eq!(summary["aborted"], 0, "{summary}");
    assert_eq!(summary["counters"]["HttpNotModified"], 4, "{summary}");
    assert_eq!(summary["counters"]["HttpReadErrors"], Value::Null, "{summary}");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn large_file_arrives_whole_in_each_mode() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory on a disk");
    site(folder.path());
    let bytes = data::bytes(0, LARGE);
    std::fs::write(folder.path().join("site/large.bin"), &bytes).expect("a file");
    let saved = folder.path().join("saved");
    let (path, file) = (saved.to_str().expect("a path in UTF-8"), format!("{SITE}/large.bin"));
    for mode in ["direct", "cached", "copy"] {
        let server = Server::start(folder.path(), &["--files", mode]);
        server.curl(&["-o", path, &file]);
        assert!(std::fs::read(&saved).expect("a file") == bytes, "{mode}");
        server.curl(&["-o", path, "-r", "4095-70000000", &file]);
        assert!(std::fs::read(&saved).expect("a file") == bytes[4095..=70_000_000], "{mode}");
        let summary = server.stop();
        assert_eq!(summary["aborted"], 0, "{summary}");
        let blocks = LARGE.div_ceil(128 << 10) + 70_000_001usize.div_ceil(128 << 10);
        assert_eq!(summary["counters"]["HttpBlocksRead"], blocks, "{mode}: {summary}");
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn wrk_sees_no_error() {
    let folder = folder();
    site(folder.path());
    let server = Server::start(folder.path(), &[]);
    let file = format!("{SITE}/small.bin");
    for url in [SITE, &file] {
        let output = server.netns.run("wrk", &["-t1", "-c32", "-d2s", url]);
        assert!(!output.contains("Socket errors") && !output.contains("Non-2xx"), "{output}");
        assert!(output.contains("Requests/sec"), "{output}");
    }
    let summary = server.stop();
    assert!(summary["counters"]["HttpRequests"].as_u64() > Some(100), "{summary}");
    assert_eq!(summary["counters"]["HttpErrors"], Value::Null, "{summary}");
}
