//! Fingerprints the sources that determine study results. Sources that only draw results are excluded.

#[path = "../../tools/measure/build/provenance.rs"]
mod provenance;

const FOLDERS: [&str; 7] = [
    "src",
    "measured",
    "../sim/src",
    "../sim/profiles",
    "../real/src",
    "../../tools/measure/src",
    "../../tools/gen/src",
];

fn main() -> std::io::Result<()> {
    provenance::emit(&FOLDERS, |_| false)
}
