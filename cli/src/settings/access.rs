//! Which users may connect to a Unix socket that this process creates: `socket_mode`, `socket_owner` and `socket_group`
//! of a port, and `--mode`, `--owner` and `--group` of a service. A port has its own, `[switch]` those of ports that
//! have none. Without any, the process's umask and user decide about a port.

use super::reader::fields::Fields;
use super::reader::key::{Key, optional};
use super::reader::validation::Validation;
use console::Diagnostic;
use nix::unistd::{Group, User};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, chownat, fstat};
use rustix::process::{Gid, Uid};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Form of a permission.
const OCTAL: &str = "a permission in octal";

/// Permission, owner and group of a socket. `None` leaves what the process makes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Access {
    /// Permission in octal, such as `0660`.
    #[serde(rename = "socket_mode", default, skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    /// Name or number of a user.
    #[serde(rename = "socket_owner", default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// Name or number of a group.
    #[serde(rename = "socket_group", default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
}

impl Access {
    pub(crate) const MODE: Key = optional(
        "socket_mode",
        "as in `[switch]`, or by the umask",
        "Permission of the socket's file in octal, such as `\"0660\"`.",
    );
    pub(crate) const OWNER: Key = optional(
        "socket_owner",
        "as in `[switch]`, or the user of the process",
        "Name or number of the user that owns the socket's file.",
    );
    pub(crate) const GROUP: Key = optional(
        "socket_group",
        "as in `[switch]`, or the group of the process",
        "Name or number of the group of the socket's file.",
    );
    /// Every key that [`Access::read`] reads.
    const KEYS: [&str; 3] = [Self::MODE.name, Self::OWNER.name, Self::GROUP.name];

    /// Reads the keys, and finds users and groups on this machine.
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Self {
        let mode = fields.text(Self::MODE.name).and_then(|text| {
            if octal(text).is_some() {
                return Some(text.to_owned());
            }
            let remedy = "write it as \"0660\"".to_owned();
            fields.invalid(Self::MODE.name, format_args!("\"{text}\""), OCTAL, remedy)
        });
        let owner = known(fields, Self::OWNER.name, valid_owner, "write the name or number of a user");
        let group = known(fields, Self::GROUP.name, valid_group, "write the name or number of a group");
        Self { mode, owner, group }
    }

    /// Valid values, of a command line.
    pub(crate) fn new(mode: Option<String>, owner: Option<String>, group: Option<String>) -> Self {
        Self { mode, owner, group }
    }

    /// Takes from `default` what is not set here.
    pub(crate) fn complete(&mut self, default: &Access) {
        for (own, default) in [
            (&mut self.mode, &default.mode),
            (&mut self.owner, &default.owner),
            (&mut self.group, &default.group),
        ] {
            if own.is_none() {
                own.clone_from(default);
            }
        }
    }

    /// Only a socket file that the switch creates has them.
    pub(crate) fn validate(&self, validation: &mut Validation<'_>, creates_file: bool) {
        let set = [&self.mode, &self.owner, &self.group].into_iter().zip(Self::KEYS);
        for (_, key) in set.filter(|(value, _)| value.is_some() && !creates_file) {
            let reason = format!("`{key}` is not supported: the port creates no socket file");
            validation.wrong(key, reason, "remove it, or write mode = \"server\" and a path");
        }
    }

    /// Whether the group may connect.
    pub(crate) fn has_group(&self) -> bool {
        self.group.is_some() && self.mode.as_deref().and_then(octal).is_some_and(|mode| mode & 0o020 != 0)
    }

    /// Applies them to the socket at `path` of the port called `name`. Its listener exists, but with the default umask
    /// only the process's own user can connect before.
    pub(crate) fn apply_to_port(&self, path: &Path, name: &str) -> Result<(), Diagnostic> {
        let remedy =
            "run the switch as root or as a member of the group, or remove `socket_owner` and `socket_group`";
        self.apply(path, format_args!("port \"{name}\""), remedy)
    }

    /// Applies them to the listening socket at `path`. `place` and `remedy` are those of the error.
    pub(crate) fn apply(&self, path: &Path, place: impl Display, remedy: &str) -> Result<(), Diagnostic> {
        let (owner, group) = (self.owner.as_deref().and_then(user), self.group.as_deref().and_then(group_id));
        let mode = self.mode.as_deref().and_then(octal);
        if (owner, group, mode) == (None, None, None) {
            return Ok(());
        }
        set(path, (owner, group), mode).map_err(|error| {
            let reason = format!("owner or permission of {} cannot be set: {error}", path.display());
            Diagnostic::bad(place, reason, remedy)
        })
    }
}

/// Sets owner, group and mode of a socket. Links are not followed: in a directory that other users can write to, one
/// may have taken the place of the socket.
fn set(path: &Path, (owner, group): (Option<u32>, Option<u32>), mode: Option<u32>) -> io::Result<()> {
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::Socket {
        return Err(io::Error::other("it was replaced by another file"));
    }
    let (owner, group) = (owner.map(Uid::from_raw), group.map(Gid::from_raw));
    chownat(&file, "", owner, group, AtFlags::EMPTY_PATH)?;
    match mode {
        Some(mode) => std::fs::set_permissions(proc_path(&file), Permissions::from_mode(mode)),
        None => Ok(()),
    }
}

/// The path of an open file in `/proc`, which leads to it wherever it is now.
fn proc_path(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Reads a text that `check` accepts, such as the name or number of a user or group.
pub(super) fn known(
    fields: &mut Fields<'_, '_>,
    key: &'static str,
    check: impl FnOnce(&str) -> Result<String, String>,
    remedy: &str,
) -> Option<String> {
    match check(fields.text(key)?) {
        Ok(name) => Some(name),
        Err(reason) => fields.wrong(key, reason, remedy.to_owned()),
    }
}

/// A permission in octal.
pub(crate) fn valid_mode(text: &str) -> Result<String, String> {
    octal(text).map(|_| text.to_owned()).ok_or_else(|| format!("expected {OCTAL}"))
}

/// Name or number of a user on this machine.
pub(crate) fn valid_owner(text: &str) -> Result<String, String> {
    user(text).map(|_| text.to_owned()).ok_or_else(|| format!("there is no user \"{text}\" on this machine"))
}

/// Name or number of a group on this machine.
pub(crate) fn valid_group(text: &str) -> Result<String, String> {
    group_id(text)
        .map(|_| text.to_owned())
        .ok_or_else(|| format!("there is no group \"{text}\" on this machine"))
}

fn octal(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777)
}

pub(super) fn user(text: &str) -> Option<u32> {
    text.parse().ok().or_else(|| Some(User::from_name(text).ok()??.uid.as_raw()))
}

pub(super) fn group_id(text: &str) -> Option<u32> {
    text.parse().ok().or_else(|| Some(Group::from_name(text).ok()??.gid.as_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::os::unix::net::UnixListener;

    fn access(mode: &str, group: &str) -> Access {
        Access { mode: Some(mode.into()), owner: None, group: Some(group.into()) }
    }

    #[test]
    fn users_groups_and_permissions_are_found() {
        assert_eq!((user("root"), user("12"), user("no such user")), (Some(0), Some(12), None));
        assert_eq!((group_id("root"), group_id("no such group")), (Some(0), None));
        assert_eq!(
            (octal("0660"), octal("770"), octal("9"), octal("1777")),
            (Some(0o660), Some(0o770), None, None)
        );
        assert!(access("0660", "root").has_group() && !access("0600", "root").has_group());
    }

    #[test]
    fn access_of_a_port_is_completed_by_that_of_the_switch() {
        let mut own = Access { mode: Some("0600".into()), ..Access::default() };
        own.complete(&access("0660", "kvm"));
        assert_eq!(own, access("0600", "kvm"));
    }

    #[test]
    fn socket_gets_permission_and_group_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [path, link] = ["socket", "link"].map(|name| folder.path().join(name));
        let _listener = UnixListener::bind(&path).unwrap();
        symlink(&path, &link).unwrap();
        let metadata = || path.metadata().unwrap();
        let (before, group) = (metadata().mode(), metadata().gid().to_string());
        assert!(access("0660", &group).apply_to_port(&link, "a").is_err());
        assert_eq!(metadata().mode(), before);
        access("0660", &group).apply_to_port(&path, "a").unwrap();
        assert_eq!(metadata().mode() & 0o777, 0o660);
        let error = access("0660", &group)
            .apply_to_port(Path::new("/nonexistent/socket"), "a")
            .unwrap_err()
            .to_string();
        assert!(error.contains("port \"a\"") && error.contains("/nonexistent/socket"), "{error}");
    }
}
