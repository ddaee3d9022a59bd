//! Scripts in the language of packetdrill (<https://github.com/google/packetdrill>) over one stack.
//!
//! Each file of `tests/scripts` is a test. Outbound packets are compared with all their fields, as packetdrill does it,
//! except that options may have any order and padding, and that a packet may have any window or options where the script
//! writes none or `<...>`. Settings follow the names of Linux; `*` stands for any acknowledgement, timestamp or cookie.

mod calls;
mod flow;
mod host;
mod parse;
mod run;
mod syntax;
mod token;

/// Folder of the scripts.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts");

fn run_file(name: &str) {
    let path = format!("{FOLDER}/{name}.pkt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    if let Err((line, error)) = run::run(&text) {
        panic!("{name}.pkt:{line}: {error}");
    }
}

/// Declares a test for each script.
macro_rules! scripts {
    ($($name:ident)+) => {
        $(#[test]
        fn $name() {
            run_file(stringify!($name));
        })+

        #[test]
        fn every_script_is_a_test() {
            let files = std::fs::read_dir(FOLDER).unwrap().map(|file| file.unwrap().file_name());
            let mut files: Vec<_> = files.map(|name| name.into_string().unwrap()).collect();
            files.sort();
            let mut names = vec![$(concat!(stringify!($name), ".pkt")),+];
            names.sort_unstable();
            assert_eq!(files, names);
        }
    };
}

scripts! {
    handshake_passive
}
