//! What the fuzz targets of the protocol have found interesting, played again.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use port::vhost_user::fuzz::fuzz_session;
use port::virtio_user::fuzz::fuzz_back_end;

fn scripts(target: &str) -> Vec<Vec<u8>> {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let files = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let scripts: Vec<_> = files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
    assert!(!scripts.is_empty(), "there is a corpus");
    scripts
}

#[test]
fn sessions_survive_every_script() {
    for script in scripts("vhost_user") {
        fuzz_session(&script);
    }
}

#[test]
fn virtio_user_ports_survive_every_back_end() {
    for script in scripts("virtio_user") {
        fuzz_back_end(&script);
    }
}
