//! What this machine offers: its CPUs, and the usual place of the control socket.

use std::path::{Path, PathBuf};

/// The CPUs of this machine, as far as this process is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    /// CPUs that are switched on.
    pub(crate) online: Vec<usize>,
    /// CPUs that this process may run on.
    pub(crate) allowed: Vec<usize>,
}

impl Host {
    /// Asks the kernel.
    pub(crate) fn here() -> Self {
        let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let allowed = allowed();
        let online = cpu_list(&list).filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| allowed.clone());
        Self { online, allowed }
    }
}

fn allowed() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Reads the kernel's list format, such as `0-3,8`.
fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

/// Lets this process open as many files as it may: each guest brings about a dozen descriptors, and the usual limit
/// is 1024. Where that is refused, the usual limit stays.
pub(crate) fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Where the control socket is when nobody says otherwise.
pub(crate) fn default_control() -> PathBuf {
    let uid = rustix::process::getuid();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute());
    match runtime {
        _ if uid.is_root() => PathBuf::from("/run/linerate/control.sock"),
        Some(dir) => Path::new(&dir).join("linerate.sock"),
        None => PathBuf::from(format!("/tmp/linerate-{}/control.sock", uid.as_raw())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_of_cpus_is_read_with_ranges_and_single_numbers() {
        assert_eq!(cpu_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpu_list("\n"), Some(vec![]));
        assert_eq!(cpu_list("0-x"), None);
    }

    #[test]
    fn this_process_may_run_on_some_cpu_that_is_online() {
        let host = Host::here();
        assert!(host.allowed.iter().any(|cpu| host.online.contains(cpu)), "{host:?}");
    }
}
