//! System calls of the control path that fail: each call of an operation in turn, with each error that the kernel may
//! return. An operation succeeds, or it has one error and the switch runs as before; in both cases packets pass and
//! nothing is left behind.

mod calls;
mod every;

use std::fmt::Write as _;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use linerate_tests::faults::{Fault, Faults};
use linerate_tests::netns::Netns;
use linerate_tests::switch::Switch;
use linerate_tests::{folder, need, wait};

use calls::CALLS;

const LIMIT: Duration = Duration::from_secs(20);
/// Calls of one function that fail in turn: more than an operation makes, and a limit where others make them too.
const MOST: u64 = 60;
/// Wrong cases after which a test ends.
const TOO_MANY: usize = 10;
/// Mappings that may come and go: stacks of threads and arenas of the allocator.
const MAPPINGS: usize = 12;

/// Two namespaces behind TAP ports, between which packets pass, and a port for guests.
struct Lab {
    folder: tempfile::TempDir,
    faults: Faults,
    ends: [Netns; 2],
    /// Configurations of before and after a change.
    texts: [String; 2],
}

impl Lab {
    fn new() -> Lab {
        need::root("a TAP interface");
        let (folder, ends) = (folder(), [Netns::new(), Netns::new()]);
        let tap = |name: &str, netns: &Netns| {
            let netns = netns.name();
            format!(
                "[[port]]\nname = \"{name}\"\nkind = \"tap\"\ninterface = \"{name}0\"\nnetns = \"{netns}\"\n"
            )
        };
        let taps = tap("red", &ends[0]) + &tap("blue", &ends[1]);
        let guest = |name: &str, more: &str| {
            let socket = folder.path().join(name);
            format!("[[port]]\nname = \"{name}\"\nsocket = \"{}\"\n{more}", socket.display())
        };
        let text = |guests: &str| format!("[[worker]]\n\n[[bridge]]\nname = \"lan\"\n\n{taps}\n{guests}");
        let faults = Faults::new(folder.path());
        let texts = [
            text(&guest("guest", "")),
            text(&(guest("guest", "max_macs = 4\n") + &guest("green", "vlan = 7\n"))),
        ];
        Lab { folder, faults, ends, texts }
    }

    /// Adds ports for guests to the configuration of before.
    fn add_guests(&mut self, names: &[&str]) {
        for name in names {
            let socket = self.folder.path().join(name);
            write!(self.texts[0], "[[port]]\nname = \"{name}\"\nsocket = \"{}\"\n", socket.display())
                .expect("a string");
        }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("a file of the test");
        path
    }

    /// Starts the switch with the configuration of before, without failing calls.
    fn start(&self) -> Switch {
        self.write("switch.toml", &self.texts[0]);
        let switch = Switch::restart_as(self.folder.path(), &self.faults.command());
        let switch = switch.unwrap_or_else(|output| panic!("{output}"));
        self.configure();
        self.passes();
        switch
    }

    /// Sets the addresses of the interfaces that a switch has created. Those of before had other MAC addresses.
    fn configure(&self) {
        for (k, (netns, name)) in self.ends.iter().zip(["red0", "blue0"]).enumerate() {
            netns.wait_link(name, true, LIMIT);
            netns.disable_ipv6();
            netns.configure(name, &[&format!("10.0.0.{}/24", k + 1)]);
            netns.ip("neighbour flush all");
        }
    }

    /// Lets all calls pass while `work` runs, without losing what is armed.
    fn calmly(&self, work: impl FnOnce()) {
        let armed = self.faults.pause();
        work();
        self.faults.resume(armed);
    }

    /// A verb of a client whose calls fail.
    fn client(&self, switch: &Switch, verb: &[&str]) -> Command {
        let words = self.faults.command();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(switch.command(verb).get_args());
        command
    }

    /// Packets pass between the ports that no operation changes.
    #[track_caller]
    fn passes(&self) {
        let once = || self.ends[0].attempt("ping", &["-c1", "-W1", "-q", "10.0.0.2"]).ok();
        assert!(wait::until(LIMIT, once).is_some(), "no packet passes");
    }
}

/// Descriptors, threads and mappings of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    threads: usize,
    mappings: usize,
}

impl Held {
    fn by(process: u32) -> Held {
        let count = |name: &str| fs::read_dir(format!("/proc/{process}/{name}")).map_or(0, Iterator::count);
        let mappings = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        Held { descriptors: count("fd"), threads: count("task"), mappings: mappings.lines().count() }
    }

    /// What a process holds when no request is open.
    fn settled(process: u32) -> Held {
        wait::settled(Duration::from_millis(200), LIMIT, || Held::by(process))
    }

    /// Waits until a process holds as many descriptors and threads as before.
    #[track_caller]
    fn again(self, process: u32, what: &str) {
        let same = wait::until(LIMIT, || self.is_by(process).then_some(()));
        assert!(same.is_some(), "{what}: {:?}, before {self:?}", Held::by(process));
    }

    /// Whether a process holds as many descriptors and threads.
    fn is_by(self, process: u32) -> bool {
        let now = Held::by(process);
        (now.descriptors, now.threads) == (self.descriptors, self.threads)
    }
}

/// Makes each call of an operation fail in turn, until the operation makes no further one. `one` executes and checks
/// it, and returns what [`Faults::disarm`] has returned in between. Panics at the end, with all cases that failed.
fn walk(faults: &Faults, mut one: impl FnMut(&str) -> bool) {
    walk_in(|(function, n), fault, what| {
        faults.arm(function, n, fault);
        one(what)
    });
}

/// [`walk`] with calls that `one` makes fail.
fn walk_in(mut one: impl FnMut((&str, u64), Fault, &str) -> bool) {
    let (mut cases, mut wrong) = (0, Vec::new());
    for (function, error) in CALLS.iter().flat_map(|(name, errors)| errors.iter().map(move |e| (name, e))) {
        for n in 1..=MOST {
            let what = format!("call {n} of {function} fails with error {error}");
            let fault = Fault::Error(*error);
            match panic::catch_unwind(AssertUnwindSafe(|| one((function, n), fault, &what))) {
                Ok(false) => break,
                Ok(true) => cases += 1,
                Err(_) => wrong.push(what),
            }
            assert!(wrong.len() < TOO_MANY, "{wrong:#?}");
        }
    }
    println!("{cases} calls failed");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(cases > 10, "only {cases} calls failed: the library does not replace them");
}

/// Asserts that a command has succeeded, or has failed with one error. Returns whether it has succeeded.
#[track_caller]
fn one_error(output: &Output, what: &str) -> bool {
    let errors = String::from_utf8_lossy(&output.stderr);
    let is_clear = errors.matches("remedy: ").count() == 1 && !errors.contains("panicked");
    let code = output.status.code();
    assert!(
        code == Some(0) || matches!(code, Some(1 | 2)) && is_clear,
        "{what}: {}: {errors}",
        output.status
    );
    code == Some(0)
}

fn run(command: &mut Command) -> Output {
    command.output().expect("linerate runs")
}

/// The running configuration, after the operation of `what`.
#[track_caller]
fn shown(switch: &Switch, what: &str) -> String {
    let shown = switch.tell(&["config", "show"]);
    String::from_utf8(shown.unwrap_or_else(|error| panic!("{what}: {error}"))).expect("text")
}

/// Asserts that the log has no panic and that the switch runs.
#[track_caller]
fn is_well(switch: &mut Switch, what: &str) {
    assert!(switch.is_running(), "{what}: the switch has ended: {}", switch.log());
    assert!(!switch.log().contains("panicked"), "{what}: {}", switch.log());
}

/// Asserts that failed calls left no mappings behind.
#[track_caller]
fn mappings_remain(before: Held, process: u32) {
    let now = Held::by(process);
    assert!(now.mappings <= before.mappings + MAPPINGS, "{now:?}, before {before:?}");
}
