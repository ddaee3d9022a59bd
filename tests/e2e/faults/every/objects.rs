//! Changes of single objects of a running switch, with each call failing once: the configuration is that of before or of
//! after the change.

use linerate_tests::switch::Switch;

use super::super::{Held, Lab, is_well, mappings_remain, one_error, run, shown, walk};

/// Executes `verb` with each of its calls failing in turn, again after each that has had no effect, and then `undo`.
fn made_or_not(lab: &Lab, switch: &mut Switch, verb: &[&str], undo: &[&str]) {
    let [mut change, mut back] = [verb, undo].map(|words| switch.command(words));
    let old = shown(switch, "before");
    assert!(run(&mut change).status.success(), "{verb:?}");
    let new = shown(switch, "after");
    assert!(run(&mut back).status.success(), "{undo:?}");
    assert!(old != new && shown(switch, "undone") == old, "{verb:?}, {undo:?}");
    let (process, before) = (switch.pid(), Held::settled(switch.pid()));
    walk(&lab.faults, |what| {
        let what = &format!("{verb:?}: {what}");
        let output = run(&mut change);
        let has_failed = lab.faults.disarm();
        let is_done = one_error(&output, what);
        let text = shown(switch, what);
        // An error of the connection to the client may hide a success.
        assert!(text == new || !is_done && text == old, "{what}: {text}");
        lab.passes();
        is_well(switch, what);
        let again = if text == old { &mut [&mut change, &mut back][..] } else { &mut [&mut back][..] };
        for command in again {
            let output = run(command);
            assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
        }
        before.again(process, what);
        has_failed
    });
    mappings_remain(before, process);
}

/// [`made_or_not`] for an addition and a removal of the same object.
fn added_and_removed_or_not(lab: &Lab, switch: &mut Switch, add: &[&str], remove: &[&str]) {
    made_or_not(lab, switch, add, remove);
    switch.tell(add).unwrap_or_else(|error| panic!("{add:?}: {error}"));
    made_or_not(lab, switch, remove, add);
    switch.tell(remove).unwrap_or_else(|error| panic!("{remove:?}: {error}"));
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn a_port_is_added_and_removed_or_not() {
    let lab = Lab::new();
    let mut switch = lab.start();
    let socket = lab.folder.path().join("green").display().to_string();
    let add = ["ports", "add", "green", "--socket", &socket];
    added_and_removed_or_not(&lab, &mut switch, &add, &["ports", "remove", "green"]);
    switch.stop();
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn a_port_is_changed_or_not() {
    let lab = Lab::new();
    let mut switch = lab.start();
    // The first is a change of the running port, the second opens it again.
    for (key, value) in [("max_macs", "max_macs=4"), ("queue_pairs", "queue_pairs=2")] {
        let undo = ["ports", "set", "guest", "--unset", key];
        made_or_not(&lab, &mut switch, &["ports", "set", "guest", value], &undo);
    }
    switch.stop();
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn a_worker_is_added_changed_and_removed_or_not() {
    let lab = Lab::new();
    let mut switch = lab.start();
    added_and_removed_or_not(&lab, &mut switch, &["workers", "add"], &["workers", "remove", "1"]);
    let undo = ["workers", "set", "0", "--unset", "cpu"];
    made_or_not(&lab, &mut switch, &["workers", "set", "0", "cpu=1"], &undo);
    switch.stop();
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn a_bridge_is_added_changed_and_removed_or_not() {
    let lab = Lab::new();
    let mut switch = lab.start();
    added_and_removed_or_not(&lab, &mut switch, &["bridges", "add", "dmz"], &["bridges", "remove", "dmz"]);
    let undo = ["bridges", "set", "lan", "--unset", "ageing"];
    made_or_not(&lab, &mut switch, &["bridges", "set", "lan", "ageing=60s"], &undo);
    switch.stop();
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn a_bond_and_a_mirror_are_added_and_removed_or_not() {
    let mut lab = Lab::new();
    lab.add_guests(&["left", "right"]);
    let mut switch = lab.start();
    let add = ["bonds", "add", "uplink", "--ports", "left,right"];
    added_and_removed_or_not(&lab, &mut switch, &add, &["bonds", "remove", "uplink"]);
    let add = ["mirrors", "add", "watch", "--all", "--output-port", "left"];
    added_and_removed_or_not(&lab, &mut switch, &add, &["mirrors", "remove", "watch"]);
    switch.stop();
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn ports_of_other_kinds_are_added_and_removed_or_not() {
    let lab = Lab::new();
    lab.ends[0].cable("lan0", &lab.ends[1], "lan1");
    let mut switch = lab.start();
    let netns = format!("netns={}", lab.ends[0].name());
    let socket = format!("socket={}", lab.folder.path().join("memif").display());
    for (kind, settings) in [
        ("af_packet", &["--set", "interface=lan0", "--set", &netns][..]),
        ("af_xdp", &["--set", "interface=lan0", "--set", &netns]),
        ("memif", &["--set", &socket]),
    ] {
        let add = [&["ports", "add", "more", "--kind", kind][..], settings].concat();
        added_and_removed_or_not(&lab, &mut switch, &add, &["ports", "remove", "more"]);
    }
    switch.stop();
}
