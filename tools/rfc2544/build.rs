//! Fingerprints the sources that decide the results of benchmarks. The page that shows results is left out.

#[path = "../measure/build/provenance.rs"]
mod provenance;

const FOLDERS: [&str; 4] = ["src", "../measure/src", "../gen/src", "../guest/src"];

fn main() -> std::io::Result<()> {
    provenance::emit(&FOLDERS, |file| file.components().any(|part| part.as_os_str() == "page"))
}
