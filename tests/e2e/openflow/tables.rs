//! Full tables, single buckets of groups, and connections, changed by `ovs-ofctl`.

use super::*;

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_full_table_reports_its_vacancy_and_evicts_the_least_important_flow() {
    let folder = folder();
    let lab = Lab::start(folder.path(), "max_flows = 4");
    let run = |words: &[&str]| lab.ofctl("OpenFlow14", words);
    let add = |port: u32, importance: u32| {
        let flow = format!("in_port={port},importance={importance},actions=drop");
        lab.attempt("OpenFlow14", &["add-flow", BRIDGE, &flow])
    };
    run(&["mod-table", BRIDGE, "0", "vacancy:30,60"]);
    let target = format!("unix:{}", folder.path().join("br0.mgmt").display());
    let words = ["--unixctl=none", "-O", "OpenFlow14", "monitor", &target, "128", "watch:"];
    let mut monitor = Process::spawn(folder.path(), "monitor", "ovs-ofctl", &words);
    monitor.wait_for("FLOW_MONITOR", 0, LIMIT);
    for (port, importance) in [(1, 5), (2, 3), (3, 4), (4, 5)] {
        add(port, importance).unwrap_or_else(|error| panic!("{error}"));
    }
    monitor.wait_for("VACANCY_DOWN", 0, LIMIT);
    let refused = add(5, 5).unwrap_err();
    assert!(refused.contains("OFPFMFC_TABLE_FULL"), "{refused}");
    run(&["mod-table", BRIDGE, "0", "evict"]);
    let described = run(&["dump-table-desc", BRIDGE]);
    assert!(described.contains("eviction=on") && described.contains("vacancy=on"), "{described}");
    add(5, 5).unwrap_or_else(|error| panic!("{error}"));
    let flows = run(&["dump-flows", BRIDGE]);
    assert!(flows.contains("in_port=5") && !flows.contains("in_port=2"), "{flows}");
    assert!(add(6, 1).is_err(), "less important than all others");
    run(&["del-flows", BRIDGE]);
    monitor.wait_for("VACANCY_UP", 0, LIMIT);
    monitor.terminate(LIMIT);
    lab.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn single_buckets_are_changed_and_counted() {
    let folder = folder();
    let lab = Lab::start(folder.path(), "");
    let run = |words: &[&str]| lab.ofctl("OpenFlow15", words);
    run(&[
        "add-group",
        BRIDGE,
        "group_id=1,type=all,bucket=bucket_id:7,actions=set_field:02:00:00:00:00:99->eth_dst",
    ]);
    run(&["insert-buckets", BRIDGE, "group_id=1,command_bucket_id=last,bucket=bucket_id:8,output:2"]);
    let groups = run(&["dump-groups", BRIDGE]);
    assert!(groups.contains("bucket_id:7") && groups.contains("bucket_id:8"), "{groups}");
    run(&["remove-buckets", BRIDGE, "group_id=1,command_bucket_id=7"]);
    let groups = run(&["dump-groups", BRIDGE]);
    assert!(!groups.contains("bucket_id:7"), "{groups}");
    let missing = lab.attempt("OpenFlow15", &["remove-buckets", BRIDGE, "group_id=1,command_bucket_id=7"]);
    assert!(missing.unwrap_err().contains("OFPGMFC_UNKNOWN_BUCKET"));
    run(&["add-flow", BRIDGE, "in_port=1,actions=group:1"]);
    run(&["add-flow", BRIDGE, "in_port=2,actions=output:1"]);
    lab.left.ping("10.9.0.2", 3, &[]);
    let counted = wait::until(LIMIT, || {
        let stats = run(&["dump-group-stats", BRIDGE]);
        let is_counted = !stats.contains("packet_count=0,") && stats.contains("bucket0:packet_count=");
        is_counted.then_some(())
    });
    assert!(counted.is_some(), "{}", run(&["dump-group-stats", BRIDGE]));
    lab.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn connections_of_a_zone_are_flushed() {
    let folder = folder();
    let lab = Lab::start(folder.path(), "");
    for zone in ["3", "4"] {
        let flow = format!("in_port=1,ip,actions=ct(commit,zone={zone}),output:2");
        lab.ofctl("OpenFlow13", &["add-flow", BRIDGE, &flow]);
        lab.ofctl("OpenFlow13", &["add-flow", BRIDGE, "priority=1,actions=NORMAL"]);
        lab.left.ping("10.9.0.2", 1, &[]);
    }
    let zones = || {
        let shown = lab.switch.ask(&["ct", "show"]).expect("the switch runs");
        let list = shown["connections"].as_array().expect("a list").clone();
        let mut zones: Vec<_> = list.iter().filter_map(|entry| entry["zone"].as_u64()).collect();
        zones.dedup();
        zones
    };
    assert!(zones().contains(&3) && zones().contains(&4), "{:?}", zones());
    lab.ofctl("OpenFlow13", &["ct-flush-zone", BRIDGE, "3"]);
    let flushed = wait::until(LIMIT, || (zones() == [4]).then_some(()));
    assert!(flushed.is_some(), "{:?}", zones());
    lab.switch.stop();
}
