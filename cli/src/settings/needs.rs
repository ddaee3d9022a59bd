//! What a confined process keeps for ports in its file and for those that may be added later.
//!
//! [`NEEDS`] is the table of what each kind of port needs. Nothing here changes the process.

use super::confine::NETNS;
use super::topology::{PortSettings, Topology};
use confine::{CapabilitySet, Features, FileRules, LogForm, Plan};
use console::Diagnostic;
use std::path::{Path, PathBuf};

/// Sockets and files in directories of other users, and their owners. Only root has these.
const FILES: CapabilitySet =
    CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::CHOWN).union(CapabilitySet::FOWNER);
/// Memory that is locked for the kernel, on kernels that count it against a limit.
const LOCKED: CapabilitySet = CapabilitySet::IPC_LOCK;
const NONE: CapabilitySet = CapabilitySet::empty();

/// Capabilities that a kind of port uses, now or when it is opened again.
const NEEDS: &[(&str, CapabilitySet)] = &[
    ("vhost-user", FILES),
    ("virtio-user", FILES),
    ("null", NONE),
    ("pcap", FILES),
    ("stream", FILES.union(CapabilitySet::NET_BIND_SERVICE)),
    ("tap", CapabilitySet::NET_ADMIN.union(LOCKED)),
    ("memif", FILES),
    ("patch", NONE),
    // CAP_PERFMON: without it, the verifier makes BPF programs slower.
    (
        "af_xdp",
        CapabilitySet::NET_ADMIN
            .union(CapabilitySet::NET_RAW)
            .union(CapabilitySet::BPF)
            .union(CapabilitySet::PERFMON)
            .union(LOCKED),
    ),
    // CAP_NET_ADMIN: buffers of sockets above the limit of the machine.
    ("af_packet", CapabilitySet::NET_RAW.union(CapabilitySet::NET_ADMIN)),
    ("tunnel", NONE),
    ("grant", FILES),
    ("granted", NONE),
    // CAP_SYS_PTRACE: namespaces by the path of a process of another user, below /proc.
    (NETNS, CapabilitySet::SYS_ADMIN.union(CapabilitySet::SYS_PTRACE).union(CapabilitySet::DAC_OVERRIDE)),
];

/// What a confined process keeps for ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) capabilities: CapabilitySet,
    pub(crate) features: Features,
}

impl Default for Kept {
    fn default() -> Self {
        Self { capabilities: NONE, features: Features { io_uring: false, bpf: false, namespaces: false } }
    }
}

impl Kept {
    /// What the ports of `topology` need, and those of kinds that may be added later. `None`: the process keeps all.
    pub(crate) fn of(topology: &Topology) -> Option<Self> {
        let settings = &topology.switch.confine;
        if !settings.confine {
            return None;
        }
        let mut kept =
            topology.ports.iter().fold(Self::default(), |kept, port| kept.and(Self::of_port(port)));
        let all = || NEEDS.iter().map(|(name, _)| *name).collect();
        let later: Vec<&str> = settings
            .runtime_kinds
            .as_ref()
            .map_or_else(all, |kinds| kinds.iter().map(String::as_str).collect());
        kept = later.into_iter().fold(kept, |kept, kind| kept.and(Self::of_kind(kind)));
        // Controllers may be awaited at a port below 1024.
        let listens = topology.bridges.iter().any(|bridge| bridge.openflow.is_some());
        kept.capabilities.set(CapabilitySet::NET_BIND_SERVICE, kept.binds() || listens);
        if renews(topology) {
            kept.capabilities |= CapabilitySet::DAC_OVERRIDE;
        }
        Some(kept)
    }

    fn binds(self) -> bool {
        self.capabilities.contains(CapabilitySet::NET_BIND_SERVICE)
    }

    fn of_kind(kind: &str) -> Self {
        let needs = NEEDS.iter().find(|(name, _)| *name == kind).map_or(NONE, |(_, needs)| *needs);
        let features = Features { io_uring: kind == "tap", bpf: kind == "af_xdp", namespaces: kind == NETNS };
        Self { capabilities: needs, features }
    }

    fn of_port(port: &PortSettings) -> Self {
        let own = Self::of_kind(port.kind.name());
        let own = if port.kind.namespaces().is_empty() { own } else { own.and(Self::of_kind(NETNS)) };
        let files = if port.wrappers.files().next().is_some() { FILES } else { NONE };
        own.and(Self { capabilities: files, ..Self::default() })
    }

    fn and(self, other: Self) -> Self {
        let (one, two) = (self.features, other.features);
        Self {
            capabilities: self.capabilities | other.capabilities,
            features: Features {
                io_uring: one.io_uring | two.io_uring,
                bpf: one.bpf | two.bpf,
                namespaces: one.namespaces | two.namespaces,
            },
        }
    }

    /// The error for a port that needs what was given up.
    pub(crate) fn refusal(self, port: &PortSettings) -> Option<Diagnostic> {
        let needed = Self::of_port(port);
        if self.and(needed) == self {
            return None;
        }
        let missing = confine::names(needed.capabilities - self.capabilities);
        let (kind, has_netns) = (port.kind.name(), !port.kind.namespaces().is_empty());
        let what = if has_netns {
            format!("a port of kind \"{kind}\" with `netns`")
        } else {
            format!("a port of kind \"{kind}\"")
        };
        let missing = if missing.is_empty() { "system calls".to_owned() } else { missing.join(", ") };
        let words = if has_netns { format!("\"{kind}\" and \"{NETNS}\"") } else { format!("\"{kind}\"") };
        Some(Diagnostic::bad(
            format!("port \"{}\"", port.name),
            format!("{what} needs {missing}, which the switch gave up at its start"),
            format!("add {words} to `runtime_kinds` in [switch], and restart the switch"),
        ))
    }
}

/// Whether connections read renewed keys, certificates and tokens, which other users may own.
fn renews(topology: &Topology) -> bool {
    let mut flows = topology.bridges.iter().filter_map(|bridge| bridge.openflow.as_ref());
    topology.switch.remote.is_some() || flows.any(|own| own.tls.is_some())
}

/// What the process of `topology` keeps; `None` if it is not confined.
pub(crate) fn plan(topology: &Topology, control: &Path, log: LogForm) -> Option<Plan> {
    let Kept { capabilities, features } = Kept::of(topology)?;
    let files = (!topology.switch.confine.paths.is_empty())
        .then(|| FileRules { writable: writable(topology, control), program: std::env::current_exe().ok() });
    Some(Plan { capabilities, features, files, log, inherited: Vec::new() })
}

/// The directories of `paths`, and those of all files that the configuration names.
fn writable(topology: &Topology, control: &Path) -> Vec<PathBuf> {
    let mut directories = topology.switch.confine.paths.clone();
    directories.extend(own_directories(topology, control));
    directories
}

/// Directories of the sockets and written files that the configuration names. A directory is not opened to writers by a
/// file that is only read there, and the root directory is none for files.
pub(crate) fn own_directories(topology: &Topology, control: &Path) -> Vec<PathBuf> {
    let switch = &topology.switch;
    let sockets = [Some(control), switch.read.path.as_deref(), switch.grants.as_deref()];
    let flows = topology.bridges.iter().filter_map(|bridge| bridge.openflow.as_ref());
    let flows = flows.flat_map(|own| {
        own.management
            .as_deref()
            .into_iter()
            .chain(own.controllers.iter().filter_map(|target| target.created()))
    });
    let ports = topology.ports.iter().flat_map(PortSettings::files);
    let ports = ports.filter(|(key, _)| *key != "read").map(|(_, path)| path);
    let files = sockets.into_iter().flatten().chain(flows).chain(ports);
    let directories = files.filter_map(Path::parent).filter(|path| path.parent().is_some());
    directories.map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests;
