//! The cache laboratory from the user's side: experiments are run and stored, and their report opens in a browser, from
//! disk and without network access.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use linerate_tests::{binary, folder, need};

/// Figures of a result set with base, a, d and a+d.
const FIGURES: [&str; 8] = [
    "scatter-packet",
    "scatter-kilo-instruction",
    "factors",
    "combinations",
    "synergy",
    "waterfall",
    "cycles",
    "lines",
];

/// Figures of a result set of the copy study.
const COPIES: [&str; 4] =
    ["copies-to-guest", "copies-from-guest", "copies-to-guest-warm", "copies-from-guest-warm"];

fn lab(folder: &Path, words: &str) -> Output {
    let words = words.split_whitespace();
    let output = Command::new(binary::linerate()).arg("lab").args(words).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run linerate: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Returns the browser's standard output and standard error; its profile is deleted with the end-to-end test.
fn browser(folder: &Path, words: &[&str]) -> (String, String) {
    need::program("chromium");
    let home = folder.join("home");
    let page = format!("file://{}", folder.join("report.html").display());
    let output = Command::new("timeout")
        .args([
            "120",
            "chromium",
            "--headless",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--hide-scrollbars",
        ])
        // The sandbox is not supported for root; the page is our own.
        .arg("--no-sandbox")
        .arg(format!("--user-data-dir={}", home.display()))
        .args(words)
        .arg(page)
        .env("HOME", &home)
        .current_dir(folder)
        .output();
    let output = output.unwrap_or_else(|error| panic!("cannot run chromium: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

/// The laboratory, which is no part of the switch.
mod every {
    use super::*;

    #[test]
    #[ignore = "needs Chromium: run by `cargo xtask test --all`"]
    fn report_opens_in_a_browser_without_requests() {
        let folder = folder();
        let run =
            "run --config base --config a --config d --config a+d --packets 5000 --keep f.json --resume";
        lab(folder.path(), run);
        let kept = fs::read(folder.path().join("f.json")).expect("results are kept");
        // The second call has nothing to run, and leaves the file unchanged.
        let again = lab(folder.path(), run);
        assert!(String::from_utf8_lossy(&again.stderr).contains("4 of 4 experiments are complete already"));
        assert_eq!(fs::read(folder.path().join("f.json")).ok(), Some(kept));

        lab(folder.path(), "copies --variant read-only warm-sse --size 64 256 1518 --out c.json");
        lab(folder.path(), "report f.json c.json --out report.html --out figures/");
        let page = fs::read_to_string(folder.path().join("report.html")).expect("the page is written");
        let named = page.replace("http://www.w3.org/2000/svg", "");
        for address in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!named.contains(address), "the page asks for {address}");
        }

        let (document, said) = browser(folder.path(), &["--dump-dom"]);
        // The script completed, without blocked requests or exceptions.
        assert!(document.contains("data-ready=\"yes\""), "{said}");
        for trouble in ["Uncaught", "CONSOLE", "Refused", "Failed to load"] {
            assert!(!said.contains(trouble), "{said}");
        }
        for figure in FIGURES {
            assert!(document.contains(&format!("id=\"figure-1-simulated-{figure}\"")), "no {figure}");
            assert!(
                folder.path().join(format!("figures/1-simulated-{figure}.svg")).is_file(),
                "no file of {figure}"
            );
        }
        for figure in COPIES {
            assert!(document.contains(&format!("id=\"figure-2-simulated-{figure}\"")), "no {figure}");
            assert!(
                folder.path().join(format!("figures/2-simulated-{figure}.svg")).is_file(),
                "no file of {figure}"
            );
        }
        assert!(
            document.contains("id=\"table-orders-2\"")
                && document.contains("data-tip=\"read-only, 64 bytes: ")
        );
        // Titles of the drawn elements became tooltips.
        assert!(document.contains("data-tip=\"base: ") && document.contains("id=\"table-published\""));
        assert!(!document.contains("id=\"table-shapley\"") && document.contains("need all 64 combinations"));

        browser(folder.path(), &["--window-size=1100,5000", "--screenshot=shot.png"]);
        let picture = fs::read(folder.path().join("shot.png")).expect("the browser draws the page");
        assert!(
            picture.starts_with(b"\x89PNG") && picture.len() > 100_000,
            "an empty page: {}",
            picture.len()
        );
    }
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn one_server_is_measured_over_the_kernel_a_tap_interface_and_a_ring() {
    need::root("a TAP interface");
    let folder = folder();
    let run = "stack --only transports --requests 200 --rounds 1 --keep t.json -o json";
    let results = lab(folder.path(), run).stdout;
    let results: serde_json::Value = serde_json::from_slice(&results).expect("results in JSON");
    let readings = results["readings"].as_array().expect("readings");
    for (variant, has_frames) in [("kernel", false), ("tap", true), ("ring", true)] {
        let mut of: Vec<_> = readings.iter().filter(|reading| reading["variant"] == variant).collect();
        assert_eq!(of.len(), 2, "{readings:?}");
        // A request and a reply.
        of.retain(|reading| reading["more"][0].as_f64().is_some_and(|frames| frames >= 2.0) == has_frames);
        assert_eq!(of.len(), 2, "{readings:?}");
    }
}
