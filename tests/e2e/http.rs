//! `linerate serve http`: curl and wrk in a namespace, at the other end of a TAP interface.

use std::path::Path;

use linerate_tests::stack_server::StackServer;
use linerate_tests::{data, folder, scope};
use serde_json::Value;

const SITE: &str = "http://10.9.0.2";
const SITE6: &str = "http://[fd09::2]";

/// Writes a site with an index and a small file, and returns its path.
fn site(folder: &Path) -> String {
    let site = folder.join("site");
    std::fs::create_dir_all(site.join("sub")).expect("a directory");
    let write = |name: &str, bytes: &[u8]| std::fs::write(site.join(name), bytes).expect("a file");
    write("index.html", b"<p>index</p>\n");
    write("sub/index.html", b"<p>sub</p>\n");
    write("small.bin", &data::bytes(0, 50_001));
    site.to_str().expect("a path in UTF-8").to_owned()
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn curl_fetches_files_ranges_and_changes() {
    let folder = folder();
    let server = StackServer::start(&["http", &site(folder.path())]);
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
    assert_eq!(summary["counters"]["http_not_modified"], 4, "{summary}");
    assert_eq!(summary["counters"]["http_read_errors"], Value::Null, "{summary}");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn large_file_arrives_whole_in_each_mode() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory on a disk");
    let site = site(folder.path());
    // A part of a block is left.
    let bytes = data::bytes(0, scope::pick(100_000_123, 10_000_123));
    std::fs::write(folder.path().join("site/large.bin"), &bytes).expect("a file");
    let last = bytes.len() / 10 * 7;
    let saved = folder.path().join("saved");
    let (path, file) = (saved.to_str().expect("a path in UTF-8"), format!("{SITE}/large.bin"));
    let modes: [(&str, &[&str]); 4] =
        [("direct", &[]), ("cached", &[]), ("copy", &[]), ("direct", &["--sqpoll"])];
    for (mode, more) in modes {
        let server = StackServer::start(&[&["http", &site, "--files", mode], more].concat());
        server.curl(&["-o", path, &file]);
        assert!(std::fs::read(&saved).expect("a file") == bytes, "{mode}");
        server.curl(&["-o", path, "-r", &format!("4095-{last}"), &file]);
        assert!(std::fs::read(&saved).expect("a file") == bytes[4095..=last], "{mode}");
        let summary = server.stop();
        assert_eq!(summary["aborted"], 0, "{summary}");
        let blocks = bytes.len().div_ceil(128 << 10) + (last + 1).div_ceil(128 << 10);
        assert_eq!(summary["counters"]["http_blocks_read"], blocks, "{mode}: {summary}");
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn curl_fetches_files_in_every_thread_model() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory on a disk");
    let site = site(folder.path());
    let bytes = data::bytes(0, 10_000_123);
    std::fs::write(folder.path().join("site/large.bin"), &bytes).expect("a file");
    let saved = folder.path().join("saved");
    let saved_path = saved.to_str().expect("a path in UTF-8");
    for more in [&["--threads", "split"][..], &["--threads", "merge", "--cpus", "0"]] {
        let server = StackServer::start(&[&["http", &site][..], more].concat());
        for site in [SITE, SITE6] {
            assert_eq!(server.curl(&[&format!("{site}/")]), "<p>index</p>\n", "{more:?}");
            server.curl(&["-o", saved_path, &format!("{site}/large.bin")]);
            assert!(std::fs::read(&saved).expect("a file") == bytes, "{more:?}");
            // Connections that are reused, and one that curl closes before the end.
            let (small, large) = (format!("{site}/small.bin"), format!("{site}/large.bin"));
            let two = ["-o", "/dev/null", &small, "-o", "/dev/null", &small];
            let codes = ["-w", "%{http_code} %{num_connects} "];
            assert_eq!(server.curl(&[&codes[..], &two].concat()), "200 1 200 0 ", "{more:?}");
            let cancelled = ["-s", "-o", "/dev/null", "--max-filesize", "1000000", &large];
            assert!(server.netns.attempt("curl", &cancelled).is_err(), "{more:?}");
        }
        let summary = server.stop();
        assert_eq!(summary["connections"], 8, "{summary}");
        assert_eq!(summary["counters"]["HttpReadErrors"], Value::Null, "{summary}");
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn wrk_sees_no_error() {
    let folder = folder();
    let server = StackServer::start(&["http", &site(folder.path())]);
    let file = format!("{SITE6}/small.bin");
    for url in [SITE, &file] {
        let output = server.netns.run("wrk", &["-t1", "-c32", "-d1s", url]);
        assert!(!output.contains("Socket errors") && !output.contains("Non-2xx"), "{output}");
        assert!(output.contains("Requests/sec"), "{output}");
    }
    let summary = server.stop();
    assert!(summary["counters"]["http_requests"].as_u64() > Some(100), "{summary}");
    assert_eq!(summary["counters"]["http_errors"], Value::Null, "{summary}");
}
