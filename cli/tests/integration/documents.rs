//! Examples of the documents: every block of TOML in the README and the guide is a configuration that `linerate check`
//! accepts. A block that is not a whole configuration of the switch is marked as `toml,fragment`.

use super::common::command;
use std::fs;
use std::path::{Path, PathBuf};

/// The README and the pages of the guide.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let guide = fs::read_dir(root.join("docs/guide")).unwrap().map(|entry| entry.unwrap().path());
    guide
        .chain([root.join("README.md")])
        .filter(|path| path.extension().is_some_and(|kind| kind == "md"))
        .collect()
}

/// Blocks of whole configurations.
fn configurations(text: &str) -> impl Iterator<Item = &str> {
    let blocks = text.split("\n```toml\n").skip(1);
    blocks.map(|rest| rest.split_once("\n```").unwrap().0)
}

/// The block with what depends on the machine replaced: directories, CPUs, and the capture that is replayed.
fn adapted(block: &str, dir: &Path) -> String {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/pcap/pcap-microseconds");
    let is_portable = |line: &&str| !line.starts_with("cpu =");
    let lines: Vec<&str> = block.lines().filter(is_portable).collect();
    let text = ["/run/linerate", "/run", "/tmp"].iter().fold(lines.join("\n"), |text, place| {
        text.replace(&format!("\"{place}/"), &format!("\"{}/", dir.display()))
    });
    // Last, because the repository itself may be in one of these directories.
    text.replace(&dir.join("in.pcap").display().to_string(), &capture.display().to_string())
}

#[test]
fn every_configuration_of_the_documents_is_valid() {
    let mut seen = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for block in configurations(&text) {
            let dir = tempfile::tempdir_in("/var/tmp").unwrap();
            let file = dir.path().join("example.toml");
            fs::write(&file, adapted(block, dir.path())).unwrap();
            let output = command(&["check"]).arg(&file).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}:\n{block}\n{errors}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 10, "only {seen} configurations were found");
}

#[test]
fn the_configuration_file_has_a_man_page() {
    let dir = tempfile::tempdir().unwrap();
    assert!(command(&["man", "--out"]).arg(dir.path()).status().unwrap().success());
    let page = fs::read_to_string(dir.path().join("linerate.toml.5")).unwrap();
    for text in [".TH linerate.toml 5", ".SH EXAMPLES", ".SS VLANs", ".SS Limits"] {
        assert!(page.contains(text), "{text}");
    }
}
