//! Notices that a change is not in the configuration file, which a running switch never writes.

const UNCHANGED: &str = "the configuration file was not changed";

/// Text below that of an added object: the section that keeps it. `place`: where in the file, if that matters.
pub(super) fn section(noun: &str, place: &str, section: &str) -> String {
    format!("{UNCHANGED}; to keep this {noun}, add to it{place}:\n\n{section}")
}

/// Notice after a change without a section of its own.
pub(super) fn changed() {
    console::note(UNCHANGED);
}

/// Notice after an object was removed.
pub(super) fn removed(noun: &str) {
    console::note(&format!("{UNCHANGED}: a {noun} with a section there returns at the next start"));
}
