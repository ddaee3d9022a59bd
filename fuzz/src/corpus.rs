//! The corpus of a fuzz target, for tests that replay it. Such a test is in a crate two folders below the root, and
//! includes this file by its path.

/// Scripts of one fuzz target, in the order of their names.
pub(crate) fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{target} has a corpus");
    // Under Miri a script takes seconds, so only every sixteenth one runs.
    paths.iter().step_by(if cfg!(miri) { 16 } else { 1 }).map(|path| std::fs::read(path).unwrap()).collect()
}
