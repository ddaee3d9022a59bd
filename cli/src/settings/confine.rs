//! Keys of confinement in `[switch]`: whether the process gives up what it does not need, and where files may be. What
//! a port needs is in `needs`.

use super::kinds;
use super::reader::fields::Fields;
use console::words::one_of;
use serde::Serialize;
use std::path::PathBuf;

/// The word for ports in other network namespaces, in `runtime_kinds`.
pub(super) const NETNS: &str = "netns";

/// Keys of confinement in `[switch]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ConfineSettings {
    /// Whether the process gives up what it does not need.
    pub(crate) confine: bool,
    /// Kinds of ports that may be added to the running switch; `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runtime_kinds: Option<Vec<String>>,
    /// Directories below which files of requests are; empty: by the client.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) paths: Vec<PathBuf>,
}

impl Default for ConfineSettings {
    fn default() -> Self {
        Self { confine: true, runtime_kinds: None, paths: Vec::new() }
    }
}

impl ConfineSettings {
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Self {
        let confine = fields.flag("confine").unwrap_or(true);
        let is_set = fields.peek("runtime_kinds").is_some();
        let kinds = fields.texts("runtime_kinds", "kinds of ports, such as [\"vhost-user\", \"tap\"]");
        let known: Vec<&str> = kinds::all().map(|(name, _)| name).chain([NETNS]).collect();
        if let Some(unknown) = kinds.iter().find(|kind| !known.contains(&kind.as_str())) {
            let remedy = format!("list {}", one_of(&known));
            fields.invalid::<()>("runtime_kinds", format!("\"{unknown}\""), "kinds of ports", remedy);
        }
        let paths = fields.list("paths", directory, "[\"/run/linerate\"]");
        Self { confine, runtime_kinds: is_set.then_some(kinds), paths }
    }
}

fn directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let reason = match (path.is_absolute(), path.is_dir()) {
        (false, _) => "which is not an absolute path",
        (true, false) => "which is not a directory",
        (true, true) => return Ok(path),
    };
    Err(format!("`paths` lists \"{text}\", {reason}"))
}
