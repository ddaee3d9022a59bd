//! Properties of this machine: its CPUs, and the default path of the control socket.

use console::words::numbers;
use engine::machine::{self, Machine};
use std::path::{Path, PathBuf};

/// This machine, as visible to this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) machine: Machine,
}

impl Host {
    /// Reads the properties from the kernel.
    pub(crate) fn here() -> Self {
        Self { machine: Machine::here() }
    }

    /// Online CPUs.
    pub(crate) fn online(&self) -> Vec<usize> {
        self.machine.cpus.iter().map(|cpu| cpu.number).collect()
    }

    /// CPUs that this process may run on.
    pub(crate) fn allowed(&self) -> Vec<usize> {
        self.machine.allowed().map(|cpu| cpu.number).collect()
    }

    /// Why no thread of this process can run on `cpu`, as `is ...`, and the remedy; `None` if one can.
    pub(crate) fn unusable(&self, cpu: usize) -> Option<(&'static str, String)> {
        let allowed = self.allowed();
        let choose = format!("choose one of {}", numbers(&allowed));
        if !self.online().contains(&cpu) {
            Some(("is not online", choose))
        } else if !allowed.contains(&cpu) {
            let remedy = format!("{choose}, or start linerate with a wider mask (taskset)");
            Some(("is outside this process's affinity mask", remedy))
        } else {
            None
        }
    }

    /// NUMA node of the device behind an interface, if known.
    pub(crate) fn node_of(&self, interface: &str) -> Option<usize> {
        let node = machine::node_of_interface(Path::new("/sys"), interface)?;
        self.machine.nodes.iter().any(|known| known.number == node).then_some(node)
    }

    /// A machine whose CPUs are cores of one package and of node 0.
    #[cfg(test)]
    pub(crate) fn of(online: &[usize], allowed: &[usize]) -> Self {
        let cpu = |&number: &usize| machine::Cpu {
            number,
            core: number,
            allowed: allowed.contains(&number),
            ..Default::default()
        };
        let nodes = vec![machine::Node { number: 0, cpus: online.to_vec(), distances: Vec::new() }];
        Self { machine: Machine { cpus: online.iter().map(cpu).collect(), nodes, ..Machine::default() } }
    }
}

/// Raises the limit of open files to its maximum: each guest needs about a dozen descriptors, and the default limit
/// is 1024. On failure the limit stays unchanged.
pub(crate) fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Environment variable with the directory of a user's sockets.
pub(crate) const RUNTIME_DIRECTORY_VARIABLE: &str = "XDG_RUNTIME_DIR";

/// The default path of the control socket.
pub(crate) fn default_control() -> PathBuf {
    let uid = rustix::process::getuid();
    let runtime = std::env::var_os(RUNTIME_DIRECTORY_VARIABLE).filter(|dir| Path::new(dir).is_absolute());
    match runtime {
        _ if uid.is_root() => PathBuf::from("/run/linerate/control.sock"),
        Some(dir) => Path::new(&dir).join("linerate.sock"),
        None => PathBuf::from(format!("/tmp/linerate-{}/control.sock", uid.as_raw())),
    }
}

/// The identity of this host: its machine id, or its name if it has none.
pub(crate) fn id() -> String {
    let read = |path| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let found = ["/etc/machine-id", "/proc/sys/kernel/hostname"].into_iter().filter_map(read);
    found.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
}

/// Name of a thread, and the fields behind it in `stat` of its directory, from the third on (`proc_pid_stat(5)`). The
/// name is in parentheses and can contain any character.
pub(crate) fn thread_stat(folder: &Path) -> Option<(String, Vec<String>)> {
    let stat = String::from_utf8_lossy(&std::fs::read(folder.join("stat")).ok()?).into_owned();
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    Some((name.to_owned(), rest.split_whitespace().map(str::to_owned).collect()))
}

/// Path of the lock file of a control socket.
pub(crate) fn lock_path(control: &Path) -> PathBuf {
    let mut lock = control.as_os_str().to_owned();
    lock.push(".lock");
    PathBuf::from(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_may_run_on_some_cpu_that_is_online() {
        let host = Host::here();
        assert!(host.allowed().iter().any(|cpu| host.online().contains(cpu)), "{host:?}");
    }
}
