//! What the fuzz target of the protocol has found interesting, played again.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use port::vhost_user::fuzz::fuzz_session;

#[test]
fn sessions_survive_every_script() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/vhost_user");
    let files = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let scripts: Vec<_> = files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
    assert!(!scripts.is_empty(), "there is a corpus");
    for script in scripts {
        fuzz_session(&script);
    }
}
