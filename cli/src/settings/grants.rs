//! `[[grant]]`: which users may obtain which ports from a running switch. The bridge and all limits of the port are
//! those of the section; a user chooses its name and number of queue pairs only.

use super::access;
use super::kinds::granted::Holder;
use super::policy::Policy;
use super::reader::fields::Fields;
use serde::Serialize;
use std::fmt;
use std::ops::RangeInclusive;

const PORTS: RangeInclusive<i128> = 1..=super::MAX_PORTS as i128;
const QUEUE_PAIRS: RangeInclusive<i128> = 1..=128;
/// At most what a port of an application may allocate, in MiB.
const MEMORY: RangeInclusive<i128> = 1..=(port::virtio_user::MAX_MEMORY >> 20) as i128;

/// One `[[grant]]` section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct GrantSettings {
    /// Users and groups whose processes may ask.
    pub(crate) users: Vec<u32>,
    pub(crate) groups: Vec<u32>,
    pub(crate) bridge: String,
    /// Maximum number of ports at one time.
    pub(crate) ports: usize,
    /// Maximum queue pairs of a port.
    pub(crate) queue_pairs: u16,
    /// Maximum memory that an application may share for a port, in MiB.
    pub(crate) memory: u32,
    #[serde(flatten)]
    pub(crate) policy: Policy,
}

impl GrantSettings {
    /// Reads the keys of a grant. Without `users` and `groups`, the user of this process may ask.
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Self {
        let user = |name: &str| access::user(name).ok_or_else(|| format!("there is no user \"{name}\""));
        let group =
            |name: &str| access::group_id(name).ok_or_else(|| format!("there is no group \"{name}\""));
        let mut users = fields.list("users", user, "[\"web\", \"1001\"]");
        let groups = fields.list("groups", group, "[\"web\", \"1001\"]");
        if users.is_empty() && groups.is_empty() {
            users.push(rustix::process::geteuid().as_raw());
        }
        Self {
            users,
            groups,
            bridge: fields.text("bridge").unwrap_or_default().to_owned(),
            ports: fields.number("ports", PORTS, "ports").unwrap_or(16),
            queue_pairs: fields.number("queue_pairs", QUEUE_PAIRS, "pairs").unwrap_or(1),
            memory: fields.number("memory", MEMORY, "MiB").unwrap_or(64),
            policy: Policy::read(fields),
        }
    }

    /// Whether a process of this user and group may ask.
    pub(crate) fn admits(&self, holder: &Holder) -> bool {
        self.users.contains(&holder.uid) || self.groups.contains(&holder.gid)
    }

    /// Maximum memory in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.memory) << 20
    }
}

impl fmt::Display for GrantSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { users, groups, bridge, ports, queue_pairs, memory, .. } = self;
        let listed = |what: &str, ids: &[u32]| {
            let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
            if ids.is_empty() { String::new() } else { format!(" {what} {}", ids.join(", ")) }
        };
        write!(f, "grants to{}{}", listed("users", users), listed("groups", groups))?;
        write!(f, ": bridge {bridge}, at most {ports} ports of {queue_pairs} queue pairs and {memory} MiB")?;
        self.policy.fmt(f)
    }
}
