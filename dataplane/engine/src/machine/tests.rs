use super::recorded::{TWO_CORES, machine, server, tree, write};
use super::*;

#[test]
fn recorded_machine_is_read_completely() {
    let machine = machine(TWO_CORES, 2);
    assert_eq!(machine.inconsistencies, []);
    assert_eq!((machine.cpus.len(), machine.cores(), machine.nodes.len()), (2, 2, 1));
    assert!(machine.cpus.iter().all(|cpu| cpu.allowed && !cpu.isolated));
    let first: Vec<_> = machine.caches.iter().filter(|cache| cache.level == 1).collect();
    assert_eq!(first.len(), 4, "data and instructions for each core: {first:?}");
}

#[test]
fn reads_siblings_packages_nodes_and_caches_of_a_server() {
    let machine = machine(&server(2, 4), 16);
    assert_eq!((machine.inconsistencies.as_slice(), machine.cores(), machine.caches.len()), (&[][..], 8, 8));
    let expected = Cpu { number: 13, core: 5, package: 1, node: 1, isolated: false, allowed: true };
    assert_eq!(machine.cpu(13), Some(&expected));
    assert_eq!((machine.distance(0, 1), machine.distance(1, 1), machine.distance(7, 8)), (21, 10, 20));
    assert_eq!(machine.caches[1].cpus, [1, 9]);
}

#[test]
fn offline_isolated_and_forbidden_cpus_are_marked() {
    let root = tree(&server(1, 4));
    write(root.path(), "devices/system/cpu/online", "0-2,4-7");
    write(root.path(), "devices/system/cpu/offline", "3");
    write(root.path(), "devices/system/cpu/isolated", "2,6");
    let machine = Machine::read(root.path(), &[0, 1, 2]);
    assert_eq!((machine.inconsistencies.as_slice(), machine.offline.as_slice()), (&[][..], &[3][..]));
    let isolated: Vec<_> = machine.cpus.iter().filter(|cpu| cpu.isolated).map(|cpu| cpu.number).collect();
    let allowed: Vec<_> = machine.allowed().map(|cpu| cpu.number).collect();
    assert_eq!((isolated, allowed), (vec![2, 6], vec![0, 1, 2]));
    assert_eq!(machine.cpu(7).unwrap().core, 7, "its sibling is off, so it leads its core");
}

/// One file of a valid tree is corrupted: the machine still has both CPUs, and an inconsistency names the file and the
/// replacement.
#[test]
fn invalid_file_is_reported_and_replaced_by_a_default() {
    let cpu = "devices/system/cpu";
    for (file, content, reason, instead) in [
        (format!("{cpu}/online"), "all of them", "\"all of them\" is not a CPU's", "affinity mask"),
        (format!("{cpu}/online"), "", "it is empty", "affinity mask"),
        (format!("{cpu}/isolated"), "5-2", "runs backwards", "assumed to be empty"),
        (format!("{cpu}/cpu1/topology/thread_siblings_list"), "0", "does not list CPU 1", "a separate core"),
        (format!("{cpu}/cpu1/topology/physical_package_id"), "one", "\"one\" is not a number", "package 0"),
        (format!("{cpu}/cpu1/cache/index0/size"), "much", "it is not a size", "left out"),
        (format!("{cpu}/cpu1/cache/index0/level"), "\u{7}", "it is not a cache level", "left out"),
        ("devices/system/node/node0/distance".into(), "10 21", "each of 1 nodes", "equal distances"),
        ("devices/system/node/node0/cpulist".into(), "0", "no node has CPU 1", "using node 0"),
    ] {
        let root = tree(TWO_CORES);
        write(root.path(), &file, content);
        let machine = Machine::read(root.path(), &[0, 1]);
        assert_eq!((machine.cpus.len(), machine.allowed().count()), (2, 2), "{file}");
        let values = machine.inconsistencies.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(values.contains(reason) && values.contains(instead), "{file}: {values}");
        assert!(
            machine.inconsistencies.iter().all(|inconsistency| file.starts_with(&inconsistency.file)),
            "{file}: {values}"
        );
    }
}

#[test]
fn empty_tree_yields_the_cpus_of_the_affinity_mask() {
    let root = tempfile::tempdir().unwrap();
    let machine = Machine::read(root.path(), &[4, 5]);
    assert_eq!(machine.cpus.iter().map(|cpu| cpu.core).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(machine.inconsistencies[0].file, "devices/system/cpu/online");
    assert_eq!(Machine::read(root.path(), &[]).cpus.len(), 1);
}

#[test]
fn interface_node_is_read_from_its_device() {
    let root = tree("class/net/near/device/numa_node: 1\nclass/net/veth/device/numa_node: -1");
    let node = |name| node_of_interface(root.path(), name);
    assert_eq!((node("near"), node("veth"), node("none"), node("../net/near")), (Some(1), None, None, None));
}

#[test]
fn this_machine_has_an_allowed_cpu() {
    let machine = Machine::here();
    assert!(machine.allowed().count() > 0, "{machine:?}");
    let json = serde_json::to_string(&machine).unwrap();
    assert_eq!(serde_json::from_str::<Machine>(&json).unwrap(), machine);
}
