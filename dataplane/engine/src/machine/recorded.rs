//! Machines for tests: sysfs files in a temporary directory.

use super::Machine;
use std::fmt::Write;
use std::path::Path;
use tempfile::TempDir;

/// A virtual machine with two CPUs, recorded from its kernel (6.x, x86-64).
pub(crate) const TWO_CORES: &str = include_str!("recorded/two-cores.txt");

/// Creates files from lines such as `devices/system/cpu/online: 0-1`.
pub(crate) fn tree(text: &str) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (file, content) in text.lines().filter_map(|line| line.split_once(": ").or(line.split_once(':'))) {
        write(root.path(), file, content);
    }
    root
}

/// Overwrites one file of a tree.
pub(crate) fn write(root: &Path, file: &str, content: &str) {
    let path = root.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("{content}\n")).unwrap();
}

/// Packages that are nodes, with `cores` cores of two threads each, numbered as on x86 servers: the first threads of
/// all cores, then all siblings.
pub(crate) fn server(packages: usize, cores: usize) -> String {
    let all = packages * cores;
    let mut text = format!("devices/system/cpu/online: 0-{}\n", 2 * all - 1);
    let _ = writeln!(text, "devices/system/node/online: 0-{}", packages - 1);
    for node in 0..packages {
        let (first, last) = (node * cores, (node + 1) * cores - 1);
        let cpus = format!("{first}-{last},{}-{}", first + all, last + all);
        let far: Vec<_> = (0..packages).map(|other| if other == node { "10" } else { "21" }).collect();
        let _ = writeln!(text, "devices/system/node/node{node}/cpulist: {cpus}");
        let _ = writeln!(text, "devices/system/node/node{node}/distance: {}", far.join(" "));
    }
    for cpu in 0..2 * all {
        let (core, folder) = (cpu % all, format!("devices/system/cpu/cpu{cpu}"));
        let _ = writeln!(text, "{folder}/topology/thread_siblings_list: {core},{}", core + all);
        let _ = writeln!(text, "{folder}/topology/physical_package_id: {}", core / cores);
        let _ = writeln!(text, "{folder}/cache/index0/level: 1\n{folder}/cache/index0/type: Data");
        let _ = writeln!(text, "{folder}/cache/index0/size: 48K");
        let _ = writeln!(text, "{folder}/cache/index0/shared_cpu_list: {core},{}", core + all);
    }
    text
}

/// The machine of a tree, for a process that may use CPUs `0..allowed`.
pub(crate) fn machine(text: &str, allowed: usize) -> Machine {
    Machine::read(tree(text).path(), &(0..allowed).collect::<Vec<_>>())
}
