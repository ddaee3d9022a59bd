//! Sockets of the control API: permission and group of the control socket, and a socket for reading only.

use super::access::{Access, known, valid_group, valid_mode};
use super::reader::fields::Fields;
use super::reader::notes::{Findings, Section};
use super::reader::paths;
use console::Diagnostic;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Permission and group of the control socket. `None`: only the user of the switch may connect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ControlAccess {
    #[serde(rename = "control_mode", skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(rename = "control_group", skip_serializing_if = "Option::is_none")]
    group: Option<String>,
}

/// A socket at which the switch can be read and not be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ReadSocket {
    #[serde(rename = "read_socket", skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<PathBuf>,
    #[serde(rename = "read_mode", skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(rename = "read_group", skip_serializing_if = "Option::is_none")]
    group: Option<String>,
}

const REMEDY: &str =
    "run the switch as root or as a member of the group, or choose another group in [switch]";

impl ControlAccess {
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Self {
        Self { mode: mode(fields, "control_mode"), group: group(fields, "control_group") }
    }

    /// Applies them to the control socket at `path`.
    pub(crate) fn apply(&self, path: &Path) -> Result<(), Diagnostic> {
        let access = Access::new(self.mode.clone(), None, self.group.clone());
        access.apply(path, format_args!("control socket {}", path.display()), REMEDY)
    }
}

impl ReadSocket {
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Self {
        let path = fields.text("read_socket").map(PathBuf::from);
        let (mode, group) = (mode(fields, "read_mode"), group(fields, "read_group"));
        if path.is_none() {
            for (key, _) in
                [("read_mode", &mode), ("read_group", &group)].iter().filter(|(_, set)| set.is_some())
            {
                let reason = format!("`{key}` has no effect without `read_socket`");
                fields.wrong::<()>(key, reason, "add a `read_socket`, or remove it".to_owned());
            }
        }
        Self { path, mode, group }
    }

    pub(crate) fn validate(&self, control: &Path, notes: &mut Findings) {
        let Some(path) = &self.path else { return };
        let place = (Section::Switch, "read_socket");
        paths::socket(place, path, notes);
        if path == control {
            notes.taken(place, "`read_socket` is the control socket", "give it a path of its own");
        }
    }

    /// Applies permission and group to the socket. By default, every user may read.
    pub(crate) fn apply(&self, path: &Path) -> Result<(), Diagnostic> {
        let default = if self.group.is_some() { "0660" } else { "0666" };
        let mode = self.mode.clone().unwrap_or_else(|| default.to_owned());
        let access = Access::new(Some(mode), None, self.group.clone());
        access.apply(path, format_args!("read socket {}", path.display()), REMEDY)
    }
}

fn mode(fields: &mut Fields<'_, '_>, key: &'static str) -> Option<String> {
    checked(fields, key, valid_mode, "write it as \"0660\"")
}

fn group(fields: &mut Fields<'_, '_>, key: &'static str) -> Option<String> {
    checked(fields, key, valid_group, "write the name or number of a group")
}

/// As [`known`], with the key in the error.
fn checked(
    fields: &mut Fields<'_, '_>,
    key: &'static str,
    check: fn(&str) -> Result<String, String>,
    remedy: &str,
) -> Option<String> {
    let check = |text: &str| check(text).map_err(|reason| format!("invalid value for `{key}`: {reason}"));
    known(fields, key, check, remedy)
}
