//! `linerate run --keep-ports` with each call failing once: of the switch that stores its ports at its end, and of the
//! one that continues them. A switch starts in any case, with the ports of the one before or with new ones.

use std::fs;
use std::os::fd::OwnedFd;

use linerate_tests::switch::Switch;
use linerate_tests::wait;

use super::super::{LIMIT, Lab, is_well, walk_in};
use super::started::greeted;
use crate::keep_ports::{Supervisor, start_as};

/// What the log has if stored ports do not continue, and if one of them does not.
const OPENED: [&str; 2] = ["ports are opened again", "\"stopped\""];

/// A supervisor of the switches of a test, and what it has stored.
struct Supervised {
    lab: Lab,
    supervisor: Supervisor,
    stored: Option<OwnedFd>,
}

impl Supervised {
    fn new() -> Self {
        let lab = Lab::new();
        lab.write("switch.toml", &lab.texts[0]);
        let supervisor = Supervisor::new(lab.folder.path());
        Self { lab, supervisor, stored: None }
    }

    /// Starts a switch. Returns it, and whether it continues the stored ports.
    fn start(&mut self, what: &str) -> Result<(Switch, bool), String> {
        let folder = self.lab.folder.path();
        // It is there after the first start.
        let _ = fs::remove_file(folder.join("linerate.log"));
        let started = start_as(folder, self.stored.as_ref(), &self.lab.faults.command());
        let was_taken = self.supervisor.notices().iter().any(|notice| notice.contains("FDSTOREREMOVE=1"));
        if was_taken {
            self.stored = None;
        }
        let switch = greeted(started?, what)?;
        let continues = was_taken && !OPENED.iter().any(|words| switch.log().contains(words));
        Ok((switch, continues))
    }

    /// Asserts that packets pass, without other addresses of the interfaces if the ports `continue`.
    fn check(&self, (mut switch, continues): (Switch, bool), what: &str) -> Switch {
        if !continues {
            // Not before: an interface that is there may be that of a process that is ending.
            for name in ["red", "blue"] {
                switch.wait_running(name, 1, LIMIT);
            }
            self.lab.configure();
        }
        self.lab.passes();
        is_well(&mut switch, what);
        switch
    }
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn a_switch_that_ends_stores_its_ports_or_has_one_error() {
    let mut test = Supervised::new();
    let mut continued = 0;
    walk_in(|(function, n), fault, what| {
        let started = test.start(what).unwrap_or_else(|output| panic!("{what}: {output}"));
        continued += u32::from(started.1);
        let mut switch = test.check(started, what);
        test.lab.faults.arm(function, n, fault);
        test.stored = test.supervisor.end(&mut switch).0;
        let has_failed = test.lab.faults.disarm();
        let log = switch.log();
        let is_told = log.contains(OPENED[0]) && log.matches("remedy").count() == 1;
        assert!(!log.contains("panicked") && (test.stored.is_some() || is_told), "{what}: {log}");
        has_failed
    });
    assert!(continued > 10, "{continued} switches have continued ports");
}

#[test]
#[ignore = "needs root and a build of its own: run by `cargo xtask test --all`"]
fn a_switch_continues_stored_ports_or_opens_them() {
    let mut test = Supervised::new();
    let (mut continued, mut running) = (0, None);
    walk_in(|(function, n), fault, what| {
        // As systemd does, again after an error: the kernel closes descriptors of dropped ports later.
        let before = running.take().or_else(|| wait::until(LIMIT, || test.start(what).ok()));
        let before = before.unwrap_or_else(|| panic!("{what}: no switch starts"));
        let mut before = test.check(before, what);
        test.stored = test.supervisor.end(&mut before).0;
        assert!(test.stored.is_some(), "{what}: {}", before.log());
        test.lab.faults.arm(function, n, fault);
        let started = test.start(what);
        let has_failed = test.lab.faults.disarm();
        match started {
            Ok((started, continues)) => {
                continued += u32::from(continues);
                running = Some((test.check((started, continues), what), true));
            }
            Err(output) => {
                assert!(output.contains("remedy: ") && !output.contains("panicked"), "{what}: {output}");
            }
        }
        has_failed
    });
    assert!(continued > 10, "{continued} switches have continued ports");
}
