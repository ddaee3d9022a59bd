//! Resolves `--profile`: the name of a built-in profile, or a file.

use console::Diagnostic;
use sim::Profile;
use sim::profiles;
use std::fs;
use std::path::Path;

/// The profile. Text that looks like a path or names a file is a file; all other text is a name.
pub(super) fn find(text: &str) -> Result<Profile, Diagnostic> {
    let is_path = text.contains('/') || Path::new(text).extension().is_some_and(|end| end == "toml");
    if is_path || Path::new(text).is_file() {
        return read(text);
    }
    profiles::find(text).map_err(|unknown| {
        let file = fs::read(text).err().map(|error| format!(": {error}")).unwrap_or_default();
        let reason = format!("neither a built-in profile nor a readable file{file}");
        let remedy = format!("use `{}`, or the path of a profile's file", unknown.nearest);
        Diagnostic::bad(format!("--profile {text}"), reason, remedy)
    })
}

fn read(path: &str) -> Result<Profile, Diagnostic> {
    let text = fs::read_to_string(path).map_err(|error| {
        let names: Vec<_> = profiles::names().collect();
        Diagnostic::bad(path, error, format!("name a file that can be read, or one of {}", names.join(", ")))
    })?;
    let remedy =
        "write each constant as { value = ..., source = \"...\" }, as in lab/sim/profiles/i9-7940x.toml";
    Profile::parse(&text).map_err(|error| Diagnostic::bad(path, error.to_string().trim_end(), remedy))
}
