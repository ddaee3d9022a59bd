//! Two switches that are connected to each other: a guest at the first one moves to the second one, where its peer is.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::switch::Switch;
use linerate_tests::udp::Numbered;
use linerate_tests::vm::{GuestNic, Image, Vm, command};
use linerate_tests::{folder, wait};
use tempfile::TempDir;

pub(super) const LIMIT: Duration = Duration::from_mins(2);
const REACTION: Duration = Duration::from_secs(30);
pub(super) const PEER: &str = "10.0.0.9";
pub(super) const GUEST: &str = "10.0.0.1";
const PAGE: usize = 4096;
/// As a network with 4 Gbit/s.
const BANDWIDTH: &str = "migrate_set_parameter max-bandwidth 400M";
/// Interval of the numbered datagrams.
const INTERVAL: Duration = Duration::from_millis(2);

/// How memory is copied.
pub(super) struct Pace {
    /// The guest is stopped when the rest takes no longer, in milliseconds.
    pub(super) downtime: u32,
    /// Whether copying almost stops while the test does its step.
    pub(super) holds: bool,
}

/// A guest that can move.
pub(super) struct Moving {
    pub(super) guest: Vm,
    /// Of the peer, which has the interface `peer0`.
    pub(super) netns: Netns,
    pub(super) folder: TempDir,
    packed: bool,
    image: Image,
    pub(super) switches: [Switch; 2],
}

/// A switch with a port for the guest, and an uplink to the other switch.
fn switch(folder: &Path, uplink: &str, more: &str) -> Switch {
    fs::create_dir_all(folder).expect("a folder of the test");
    let guest = folder.join("guest");
    let text = format!(
        "[[worker]]\ncpu = 0\n[[port]]\nname = \"guest\"\nsocket = \"{}\"\n\
         [[port]]\nname = \"uplink\"\nkind = \"stream\"\n{uplink}\ntrusted = true\n{more}",
        guest.display()
    );
    Switch::start_from(folder, &text)
}

/// The folder of each switch.
fn folders(folder: &Path) -> [PathBuf; 2] {
    ["here", "there"].map(|name| folder.join(name))
}

/// A card of the guest at the port of one switch.
fn card(socket: &Path, packed: bool) -> GuestNic<'_> {
    GuestNic { socket, server: false, packed, number: 1 }
}

fn say(monitor: &Path, line: &str) -> String {
    command(monitor, line).expect("the monitor answers")
}

impl Moving {
    /// Starts both switches, and a guest with `programs` at the first one, which its peer can reach.
    pub(super) fn start(packed: bool, programs: &[&str]) -> Moving {
        let (folder, netns) = (folder(), Netns::new());
        let image = Image::with(&[&["nc"], programs].concat(), &[]);
        let ([here, there], cable) = (folders(folder.path()), folder.path().join("cable"));
        let cable = cable.display();
        let peer = format!(
            "[[port]]\nname = \"peer\"\nkind = \"tap\"\ninterface = \"peer0\"\nnetns = \"{}\"\n",
            netns.name()
        );
        let second = switch(&there, &format!("socket = \"{cable}\"\nmode = \"server\""), &peer);
        let first = switch(&here, &format!("socket = \"{cable}\"\nmode = \"client\""), "");
        netns.wait_link("peer0", true, REACTION);
        netns.configure("peer0", &[&format!("{PEER}/24")]);
        let monitor = folder.path().join("source.mon");
        let mut guest =
            Vm::movable(folder.path(), &image, &card(&here.join("guest"), packed), &monitor, None);
        guest.ready();
        netns.ping(GUEST, 1, &["-w", "20"]);
        Moving { guest, netns, folder, packed, image, switches: [first, second] }
    }

    /// Runs a server in the peer's namespace that listens on `port`.
    pub(super) fn server(&self, port: u16, program: &str, words: &[&str]) -> Process {
        let server = self.netns.spawn(self.folder.path(), program, program, words);
        self.netns.await_listener(port, &server);
        server
    }

    /// Starts numbered datagrams from the peer to the guest and back.
    pub(super) fn numbered(&mut self) -> Numbered {
        let echo = "mkfifo /tmp/echo; (/usr/bin/nc -u -l 7 0<>/tmp/echo >&0) & \
                    while ! grep -q ':0007 ' /proc/net/udp; do sleep 0.1; done";
        self.guest.succeed(echo, REACTION);
        Numbered::start(&self.netns, format!("{GUEST}:7").parse().expect("an address"), INTERVAL)
    }

    /// Moves the guest at this `pace`, and calls `meanwhile` when most of its memory was copied. Its QEMU at the
    /// target lets it run only after `arrived` has seen both, the source first. Returns the report of the source.
    pub(super) fn go(
        &mut self,
        pace: &Pace,
        meanwhile: impl FnOnce(&Moving),
        arrived: Option<fn(&Vm, &Vm)>,
    ) -> String {
        let [_, there] = folders(self.folder.path());
        let [source, target] = ["source.mon", "target.mon"].map(|name| self.folder.path().join(name));
        let incoming = self.folder.path().join("incoming");
        let socket = there.join("guest");
        let nic = card(&socket, self.packed);
        let other = Vm::movable(self.folder.path(), &self.image, &nic, &target, Some(&incoming));
        let is_there = wait::until(REACTION, || incoming.exists().then_some(()));
        assert!(is_there.is_some(), "the target listens");
        if arrived.is_some() {
            say(&target, "stop");
        }
        start(&source, &incoming, pace);
        let is_copied = |report: &str| number(report, "remaining ram") < number(report, "total ram") / 4;
        let report = await_report(&source, is_copied);
        if pace.holds {
            assert!(report.contains("Migration status: active"), "it has ended before the step: {report}");
            say(&source, "migrate_set_parameter max-bandwidth 1M");
        }
        meanwhile(self);
        say(&source, BANDWIDTH);
        let report = await_report(&source, |report| report.contains("Migration status: completed"));
        let came =
            wait::until(REACTION, || (!say(&target, "info status").contains("inmigrate")).then_some(()));
        assert!(came.is_some(), "the target has the guest");
        if let Some(arrived) = arrived {
            arrived(&self.guest, &other);
            say(&target, "cont");
        }
        self.guest.continue_as(other);
        let line =
            |name: &str| report.lines().find(|line| line.starts_with(name)).unwrap_or(name).trim().to_owned();
        ["total time", "downtime", "dirty sync"].map(line).join("; ")
    }

    /// Ends the guest and both switches, which have carried its traffic.
    pub(super) fn end(self) {
        let [first, second] = self.switches;
        assert!(!second.has_feature("guest", "log-all"), "the target logs nothing");
        let (before, after) = (first.counters("guest").tx_packets, second.counters("guest").tx_packets);
        assert!(
            before > 0 && after > 0,
            "both switches have carried the stream: {before} and {after} packets"
        );
        drop(self.guest);
        first.stop();
        second.stop();
    }
}

/// Starts the migration from the QEMU of this monitor.
fn start(monitor: &Path, to: &Path, pace: &Pace) {
    say(monitor, if pace.holds { "migrate_set_parameter max-bandwidth 40M" } else { BANDWIDTH });
    say(monitor, &format!("migrate_set_parameter downtime-limit {}", pace.downtime));
    say(monitor, &format!("migrate -d unix:{}", to.display()));
}

/// Waits until a report on the migration fulfils a condition.
fn await_report(monitor: &Path, condition: impl Fn(&str) -> bool) -> String {
    let report = wait::until(LIMIT, || {
        let report = say(monitor, "info migrate");
        assert!(!report.contains("failed"), "{report}");
        (condition(&report) || report.contains("completed")).then_some(report)
    });
    report.unwrap_or_else(|| panic!("the migration does not converge: {}", say(monitor, "info migrate")))
}

/// A number of a report, or `u64::MAX` if it is not there yet.
fn number(report: &str, name: &str) -> u64 {
    let line = report.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or(u64::MAX)
}

/// Panics if the memory of two guests that do not run differs.
pub(super) fn is_same_memory(source: &Vm, target: &Vm) {
    const PIECE: usize = 1 << 20;
    let files = [source.memory(), target.memory()];
    let len = |file: &File| file.metadata().expect("memory has a length").len();
    assert_eq!(len(&files[0]), len(&files[1]));
    let (mut used, mut different) = (0, Vec::new());
    for at in (0..len(&files[0])).step_by(PIECE) {
        let pieces = files.each_ref().map(|file| {
            let mut bytes = vec![0; PIECE];
            file.read_exact_at(&mut bytes, at).expect("memory can be read");
            bytes
        });
        for (number, pages) in pieces[0].chunks(PAGE).zip(pieces[1].chunks(PAGE)).enumerate() {
            used += usize::from(*pages.0 != [0; PAGE]);
            if pages.0 != pages.1 {
                different.push(at + (number * PAGE) as u64);
            }
        }
    }
    assert!(different.is_empty(), "{} pages differ, at {different:x?}", different.len());
    println!("{used} pages that are not empty are the same");
}
