//! SIGKILL in front of each call of `apply` and of `config save`.

use std::fs;
use std::process::Command;

use linerate_tests::faults::Fault;
use linerate_tests::guest::Guest;
use linerate_tests::switch::Switch;
use linerate_tests::wait;

use super::super::{LIMIT, Lab, run, shown};
use super::{resave, toggled};

/// More calls than an operation makes.
const MOST: u64 = 2000;

/// Calls `one` with each number of a call, until it returns false because no call was reached.
pub(super) fn each(mut one: impl FnMut(u64) -> bool) {
    let killed = (1..=MOST).take_while(|&n| one(n)).count() as u64;
    println!("killed at {killed} calls");
    assert!(killed > 10 && killed < MOST, "killed at {killed} calls");
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn a_switch_killed_while_it_applies_a_file_starts_again() {
    let lab = Lab::new();
    lab.start().stop();
    let new = lab.write("new.toml", &lab.texts[1]).display().to_string();
    let socket = lab.folder.path().join("guest");
    // It connects to each switch that comes.
    let words = ["--mode", "rxonly"];
    let mut guest = Guest::endless(lab.folder.path(), "guest", "--connect", &[&socket], &words);
    each(|n| {
        // Also after the switch before was killed, from the file that this one had started from.
        let started = Switch::restart_as(lab.folder.path(), &lab.faults.command());
        let mut switch = started.unwrap_or_else(|output| panic!("call {n}: {output}"));
        assert_eq!(shown(&switch, "started").trim_end(), lab.texts[0].trim_end(), "call {n}");
        switch.wait_state("guest", "connected", LIMIT);
        assert!(!guest.has_ended(), "call {n}: the guest has ended");
        lab.faults.arm("*", n, Fault::Kill);
        let output = run(&mut switch.command(&["apply", &new]));
        let was_killed = lab.faults.disarm();
        // It may also end after its answer.
        assert!(was_killed || output.status.success(), "call {n}: {output:?}");
        let has_ended = wait::until(LIMIT, || (switch.is_running() != was_killed).then_some(()));
        assert!(has_ended.is_some(), "call {n}: killed {was_killed}");
        switch.kill();
        was_killed
    });
    guest.end();
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn a_client_killed_while_it_saves_leaves_the_old_or_the_new_file() {
    let lab = Lab::new();
    lab.write("switch.toml", &lab.texts[0]);
    let switch = Switch::restart(lab.folder.path());
    let file = lab.folder.path().join("switch.toml");
    let socket = lab.folder.path().join("green").display().to_string();
    let mut save: Command = lab.client(&switch, &["config", "save"]);
    let mut is_there = false;
    each(|n| {
        toggled(&switch, is_there, &socket);
        is_there = !is_there;
        let (old, new) = (fs::read_to_string(&file).expect("a file"), shown(&switch, "changed"));
        lab.faults.arm("*", n, Fault::Kill);
        let output = run(&mut save);
        let was_killed = lab.faults.disarm();
        assert!(was_killed != output.status.success(), "call {n}: {output:?}");
        let text = fs::read_to_string(&file).expect("a file");
        assert!(text == old && was_killed || text.trim_end() == new.trim_end(), "call {n}: {text}");
        let path = file.display().to_string();
        switch.tell(&["check", &path]).unwrap_or_else(|error| panic!("call {n}: {error}"));
        resave(&switch, &file, &format!("call {n}"));
        was_killed
    });
    switch.stop();
}
