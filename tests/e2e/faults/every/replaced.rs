//! `linerate upgrade` with SIGKILL in front of each call of one of both processes, and with each of their calls failing
//! once. There is never more than one switch; there is none only if the process was killed that had all ports.

mod stream;

use std::fs;
use std::process::Output;

use linerate_tests::faults::{Fault, Victims};
use linerate_tests::guest::Guest;
use linerate_tests::switch::Switch;
use linerate_tests::wait;

use super::super::{Held, LIMIT, Lab, is_well, one_error, run, walk_in};
use super::killed::each;
use stream::{GUESTS, Streams};

/// A switch that is replaced under load, step by step.
struct Replaced {
    lab: Lab,
    switch: Switch,
    streams: Option<Streams>,
    /// It connects to each switch that comes.
    guest: Guest,
    held: Held,
}

impl Replaced {
    fn new() -> Replaced {
        let mut lab = Lab::new();
        lab.add_guests(&GUESTS);
        let switch = lab.start();
        let socket = lab.folder.path().join("guest");
        let words = ["--mode", "rxonly"];
        let guest = Guest::endless(lab.folder.path(), "guest", "--connect", &[&socket], &words);
        switch.wait_state("guest", "connected", LIMIT);
        let held = Held::by(switch.pid());
        Replaced { lab, switch, streams: None, guest, held }
    }

    /// Upgrades while the `n`-th call of `function` of these processes ends so. Returns the output of the command, and
    /// whether the call was reached.
    fn upgrade(&mut self, victims: Victims, (function, n): (&str, u64), fault: Fault) -> (Output, bool) {
        if self.streams.as_mut().is_some_and(Streams::are_over) {
            self.streams.take().expect("streams run").complete(&format!("before call {n} of {function}"));
        }
        if self.streams.is_none() {
            self.streams = Some(Streams::start(&self.lab, &self.switch));
            self.held = Held::settled(self.switch.pid());
        }
        self.lab.faults.arm_in(victims, function, n, fault);
        let output = run(&mut self.switch.command(&["upgrade"]));
        let was_reached = self.lab.faults.disarm();
        (output, was_reached)
    }

    /// Waits until one process is the switch, or none is. Asserts that its ports pass packets, that their peers have
    /// noticed nothing, and that nothing is left of the other process. Returns the switch.
    #[track_caller]
    fn one(&mut self, what: &str) -> Option<u32> {
        let one = wait::until(LIMIT, || match self.processes()[..] {
            [] => Some(None),
            [process] => self.switch.get("/v1/status").is_ok().then_some(Some(process)),
            _ => None,
        });
        let log = || self.switch.log().lines().rev().take(20).collect::<Vec<_>>().join("\n");
        let one = one.unwrap_or_else(|| panic!("{what}: switches {:?}: {}", self.processes(), log()));
        let process = one?;
        let streams = self.streams.as_mut().expect("streams run");
        streams.unaware(what);
        if process == self.switch.pid() {
            // The generator has descriptors until its end.
            let is_same = || (self.held.is_by(process) || streams.are_over()).then_some(());
            let same = wait::until(LIMIT, is_same);
            assert!(same.is_some(), "{what}: {:?}, before {:?}", Held::by(process), self.held);
        } else {
            self.switch.adopt(process);
            self.held = Held::settled(self.switch.pid());
        }
        self.lab.passes();
        is_well(&mut self.switch, what);
        Some(process)
    }

    /// Processes that run the file of the test.
    fn processes(&self) -> Vec<u32> {
        let control = self.lab.folder.path().join("control.sock").display().to_string();
        let is_one = |process: &u32| {
            let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            let words: Vec<_> = words.split(|byte| *byte == 0).collect();
            words.contains(&control.as_bytes()) && words.contains(&b"run".as_slice())
        };
        let processes = fs::read_dir("/proc").expect("processes").flatten();
        let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        processes.filter(is_one).collect()
    }

    /// Starts the switch again after it has ended. The same guest connects again.
    #[track_caller]
    fn restart(&mut self, what: &str) {
        drop(self.streams.take());
        let started = Switch::restart_as(self.lab.folder.path(), &self.lab.faults.command());
        self.switch = started.unwrap_or_else(|output| panic!("{what}: {output}"));
        self.lab.configure();
        self.lab.passes();
        self.switch.wait_state("guest", "connected", LIMIT);
        assert!(!self.guest.has_ended(), "{what}: the guest has ended");
    }

    fn end(mut self) {
        if let Some(streams) = self.streams.take() {
            streams.complete("at the end");
        }
        self.guest.end();
        self.switch.stop();
    }
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn a_successor_killed_at_any_call_is_the_switch_or_leaves_it_as_it_was() {
    let mut replaced = Replaced::new();
    each(|n| {
        let what = format!("call {n} of the successor");
        let old = replaced.switch.pid();
        let (output, was_killed) = replaced.upgrade(Victims::AllBut(old), ("*", n), Fault::Kill);
        let is_done = one_error(&output, &what);
        if let Some(process) = replaced.one(&what) {
            assert_eq!(process == old, !is_done, "{what}: {output:?}");
        } else {
            let errors = String::from_utf8_lossy(&output.stderr);
            let is_told = errors.contains("ended before it confirmed that the ports run");
            assert!(was_killed && (is_done || is_told), "{what}: {output:?}");
            replaced.restart(&what);
        }
        was_killed
    });
    replaced.end();
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn a_switch_killed_at_any_call_of_its_upgrade_is_replaced_or_starts_again() {
    let mut replaced = Replaced::new();
    let (mut survived, mut restarted) = (0, 0);
    each(|n| {
        let what = format!("call {n} of the old process");
        let old = replaced.switch.pid();
        let (output, was_killed) = replaced.upgrade(Victims::Process(old), ("*", n), Fault::Kill);
        assert!(was_killed || output.status.success(), "{what}: {output:?}");
        if let Some(process) = replaced.one(&what) {
            assert!(process != old || !was_killed, "{what}");
            survived += 1;
        } else {
            replaced.restart(&what);
            restarted += 1;
        }
        was_killed
    });
    println!("{survived} successors survived, {restarted} switches started again");
    assert!(survived > 1 && restarted > 10, "{survived}, {restarted}");
    replaced.end();
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn an_upgrade_succeeds_or_has_one_error_if_a_call_of_the_successor_fails() {
    upgraded_or_not(Victims::AllBut);
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn an_upgrade_succeeds_or_has_one_error_if_a_call_of_the_old_process_fails() {
    upgraded_or_not(Victims::Process);
}

/// Upgrades with each call of one of both processes failing in turn.
fn upgraded_or_not(victims: impl Fn(u32) -> Victims) {
    let mut replaced = Replaced::new();
    walk_in(|call, fault, what| {
        // The step before may have failed.
        if replaced.processes().is_empty() {
            replaced.restart(what);
        }
        let old = replaced.switch.pid();
        let (output, has_failed) = replaced.upgrade(victims(old), call, fault);
        let is_done = one_error(&output, what);
        let process = replaced.one(what);
        // An error of the connection to the client may hide a success.
        assert!(
            process == Some(old) && !is_done || process.is_some_and(|new| new != old),
            "{what}: {output:?}"
        );
        has_failed
    });
    replaced.end();
}
