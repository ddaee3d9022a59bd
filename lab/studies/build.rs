//! Fingerprints the sources that decide the results of studies. Those that only draw results are left out.

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
