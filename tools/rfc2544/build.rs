//! Fingerprints the sources that determine benchmark results. The page that displays them is excluded.

#[path = "../measure/build/provenance.rs"]
mod provenance;

const FOLDERS: [&str; 4] = ["src", "../measure/src", "../gen/src", "../guest/src"];

fn main() -> std::io::Result<()> {
    provenance::emit(&FOLDERS, |file| file.components().any(|part| part.as_os_str() == "page"))
}
