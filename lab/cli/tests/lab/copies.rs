//! `lab copies` and `lab paths`.

use super::{json, lab, refused, stderr, stdout, succeeded};
use std::fs;

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn copies_are_stored_printed_by_order_and_part_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let some = ["--variant", "read-only", "warm-libc", "--size", "64", "256"];
    let words = [&["copies", "--out", "c.json"][..], &some].concat();
    let first = succeeded(folder.path(), &words);
    for said in ["Simulated: two sockets", "edited > read-only", "both copies", "other node >> same node"] {
        assert!(stdout(&first).contains(said), "{}", stdout(&first));
    }
    let run = ["run", "--config", "base", "--packets", "256", "--out", "f.json"];
    succeeded(folder.path(), &run);
    let report = ["report", "c.json", "f.json", "--out", "r.html", "--out", "figures/", "-o", "json"];
    let findings = json(&lab(folder.path(), &report));
    assert_eq!(findings["copies"][0]["memory"], "simulated");
    assert_eq!(findings["sets"][0]["memory"], "simulated");
    let page = fs::read_to_string(folder.path().join("r.html")).unwrap();
    assert!(page.contains("id=\"table-orders-2\"") && page.contains("id=\"set-1\""));
    assert!(folder.path().join("figures/2-simulated-copies-from-guest.svg").is_file());
}

#[test]
fn copies_on_real_memory_name_omissions_or_the_reason_of_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["copies", "--memory", "real", "--size", "64", "--variant", "other-node", "-o", "json"];
    let short = [&words[..], &["--rounds", "6", "--batches", "4"]].concat();
    let output = lab(folder.path(), &short);
    // A machine with one CPU rejects it.
    if output.status.code() == Some(2) {
        assert!(stderr(&output).contains("two or more"), "{}", stderr(&output));
        return;
    }
    let results = json(&output);
    assert_eq!(results["memory"], "real");
    assert_eq!(results["orders"].as_array().unwrap().len(), 24);
    let notes = results["notes"].to_string();
    assert!(notes.contains("other-node is left out"), "{notes}");
}

#[test]
fn invalid_copies_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let case = |words: &[&str], said: &[&str]| refused(folder.path(), &[&["copies"], words].concat(), said);
    case(&["--variant", "warm-lib"], &["nearest is `warm-libc`", "remedy"]);
    case(&["--profile", "two-socket"], &["No such file", "use `two-sockets`"]);
    case(&["--size", "63"], &["63"]);
    case(&["--memory", "counted"], &["counted"]);
    case(&["--memory", "real", "--rounds", "2"], &["2 rounds are too few", "remedy"]);
    fs::write(folder.path().join("bad.json"), "{\"study\": \"copies\"}").unwrap();
    refused(folder.path(), &["report", "bad.json"], &["bad.json", "remedy"]);
}

#[test]
fn invalid_paths_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    refused(folder.path(), &["paths", "--profile", "i9-7940"], &["No such file", "use `i9-7940x`"]);
    refused(folder.path(), &["paths", "--out", "none/f.json"], &["none/f.json", "remedy"]);
    fs::write(folder.path().join("other.json"), "{}").unwrap();
    refused(folder.path(), &["paths", "--measured", "other.json"], &["other.json", "bench peers", "remedy"]);
}

#[test]
fn paths_are_a_table_data_and_a_part_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["paths", "--packets", "256", "--out", "p.json", "-o", "json"];
    let output = succeeded(folder.path(), &words);
    let results = json(&output);
    assert_eq!(results["paths"].as_array().unwrap().len(), 4);
    assert_eq!(results["paths"][0]["ring"], "split");
    assert!(results["paths"][0]["linerate"]["lines_moved"].as_f64().unwrap() > 1.0);
    assert_eq!(results["measured"]["ratio"][0]["median"], 0.93);
    let report = succeeded(folder.path(), &["report", "p.json", "--out", "r.html"]);
    assert!(stdout(&report).contains("split 64"), "{}", stdout(&report));
    let page = fs::read_to_string(folder.path().join("r.html")).unwrap();
    for part in ["id=\"table-paths\"", "id=\"figure-paths-1-simulated-packed-64\"", "Measured: AMD EPYC"] {
        assert!(page.contains(part), "{part}");
    }
}
