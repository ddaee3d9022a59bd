//! The switch of a soak, and what happens to it.
//!
//! Ports of bridge `lan` stay, so that their sums can be checked; those of bridge `guests` come and go.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_tests::binary;
use linerate_tests::guest::Guest;
use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::switch::Switch;
use serde_json::Value;

use super::{ECHO, Random};

const LIMIT: Duration = Duration::from_secs(20);
/// Ports that come and go.
const GUESTS: u64 = 4;
/// Ports whose sums must agree at any time of rest.
const STABLE: [&str; 6] = ["red", "blue", "left", "right", "probe", "cable"];

/// A running switch under changes.
pub(super) struct Soak {
    folder: PathBuf,
    pub(super) switch: Switch,
    /// Names and numbers of actions.
    pub(super) done: BTreeMap<&'static str, u64>,
    /// Packets of the generator, of which none was lost.
    pub(super) generated: u64,
    guests: Vec<Guest>,
    captures: Vec<Process>,
}

type Action = fn(&mut Soak, &mut Random);

const ACTIONS: [(&str, Action); 12] = [
    ("port added", Soak::add),
    ("port removed", Soak::remove),
    ("guest connected", Soak::connect),
    ("guest killed", Soak::kill),
    ("file applied", Soak::apply),
    ("configuration saved", Soak::save),
    ("capture begun", Soak::capture),
    ("capture killed", Soak::end_capture),
    ("queues rebalanced", Soak::rebalance),
    ("mirror changed", Soak::mirror),
    ("flows changed", Soak::flows),
    ("process replaced", Soak::upgrade),
];

impl Soak {
    pub(super) fn start(folder: &Path, ends: &[Netns; 2]) -> Soak {
        let switch = Switch::start_from(folder, &text(folder, &ends.each_ref().map(Netns::name), 0));
        for (k, (netns, name)) in ends.iter().zip(["red0", "blue0"]).enumerate() {
            netns.wait_link(name, true, LIMIT);
            netns.disable_ipv6();
            netns.configure(name, &[&format!("10.9.0.{}/24", k + 1)]);
        }
        ends[0].ping(ECHO, 1, &[]);
        fs::write(folder.join("names"), ends.each_ref().map(Netns::name).join(" ")).expect("a file");
        let (guests, captures) = (Vec::new(), Vec::new());
        Soak { folder: folder.into(), switch, done: BTreeMap::new(), generated: 0, guests, captures }
    }

    /// Does something. Returns its name. An action that is refused in the present state is one, too.
    pub(super) fn act(&mut self, random: &mut Random) -> &'static str {
        let (name, action) = ACTIONS[random.below(ACTIONS.len() as u64) as usize];
        action(self, random);
        *self.done.entry(name).or_default() += 1;
        assert!(self.switch.is_running(), "the switch ended after \"{name}\"");
        name
    }

    /// Returns to the configuration of the start, and checks sums and the pair that no action touches.
    pub(super) fn rest(&mut self) {
        self.guests.clear();
        self.captures.clear();
        // Those that do not exist are refused.
        let _ = self.switch.tell(&["flows", "remove", "", "--bridge", "flows"]);
        self.apply_text(0);
        self.generate();
        // The echo stream never rests, so the sums of one moment need not agree.
        let log = self.switch.log();
        assert!(!log.contains("panicked"), "{log}");
    }

    /// Ends it. All packets have come to rest.
    pub(super) fn end(self) {
        self.switch.assert_sums_agree(&STABLE);
        self.switch.stop();
    }

    /// Two ports that no action touches lose no packet.
    fn generate(&mut self) {
        let socket = |name: &str| format!("kind=virtio-user,socket={}", self.folder.join(name).display());
        let ports = [socket("left"), socket("right")];
        // Packets of the warm-up find queues that the switch has not started yet.
        let words = ["gen", "--port", &ports[0], "--port", &ports[1], "--warm-up", "200ms", "--no-baseline"];
        let report = self.switch.ask(&[&words[..], &["--rate", "5kpps", "--duration", "1s"]].concat());
        let report = report.unwrap_or_else(|error| panic!("no generator: {error}"));
        let ends = || ["left", "right"].map(|name| self.switch.counters(name));
        assert_eq!(report["lost"].as_u64(), Some(0), "{:?}: {report}", ends());
        self.generated += report["sent"].as_u64().unwrap_or_default();
    }

    fn add(&mut self, random: &mut Random) {
        let name = format!("guest{}", random.below(GUESTS));
        let socket = self.folder.join(&name).display().to_string();
        let _ = self.switch.tell(&["ports", "add", &name, "--socket", &socket, "--set", "bridge=guests"]);
    }

    fn remove(&mut self, random: &mut Random) {
        let _ = self.switch.tell(&["ports", "remove", &format!("guest{}", random.below(GUESTS))]);
    }

    fn connect(&mut self, random: &mut Random) {
        let name = format!("guest{}", random.below(GUESTS));
        let ring = ["split", "packed", "split-inorder"][random.below(3) as usize];
        let words = ["--ring", ring, "--in-flight", "4", "--size", "mix"];
        let socket = self.folder.join(&name);
        if socket.exists() && self.guests.len() < 2 {
            self.guests.push(Guest::endless(&self.folder, "guests", "--connect", &[&socket], &words));
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// SIGKILL, by the end of the process that holds it.
    fn kill(&mut self, random: &mut Random) {
        if !self.guests.is_empty() {
            drop(self.guests.swap_remove(random.below(self.guests.len() as u64) as usize));
        }
    }

    fn apply(&mut self, random: &mut Random) {
        self.apply_text(1 + random.below(GUESTS));
    }

    fn apply_text(&self, guests: u64) {
        let names = fs::read_to_string(self.folder.join("names")).expect("a file");
        let names: Vec<&str> = names.split(' ').collect();
        let file = self.folder.join("applied.toml");
        fs::write(&file, text(&self.folder, &[names[0], names[1]], guests)).expect("a file");
        let applied = self.switch.tell(&["apply", &file.display().to_string()]);
        applied.unwrap_or_else(|error| panic!("a valid file is not applied: {error}"));
    }

    fn save(&mut self, _: &mut Random) {
        self.switch.tell(&["config", "save"]).unwrap_or_else(|error| panic!("not saved: {error}"));
    }

    fn capture(&mut self, random: &mut Random) {
        if self.captures.len() < 2 {
            let control = self.folder.join("control.sock").display().to_string();
            let ports = ["red", "all", "left"][random.below(3) as usize];
            let words = ["--control", &control, "capture", ports, "--limit", "300", "-w", "/dev/null"];
            self.captures.push(Process::spawn(&self.folder, "captures", binary::linerate(), &words));
        }
    }

    fn end_capture(&mut self, _: &mut Random) {
        self.captures.pop();
    }

    fn rebalance(&mut self, _: &mut Random) {
        let moved = self.switch.tell(&["rebalance", "--duration", "50ms", "--threshold", "0.01"]);
        moved.unwrap_or_else(|error| panic!("not rebalanced: {error}"));
    }

    fn mirror(&mut self, _: &mut Random) {
        let is_there =
            self.switch.ask(&["mirrors", "show"]).is_ok_and(|list| list != Value::Array(Vec::new()));
        let words =
            ["mirrors", "add", "m", "--bridge", "lan", "--source-ports", "red", "--output-port", "probe"];
        let changed = self.switch.tell(if is_there { &["mirrors", "remove", "m"] } else { &words });
        changed.unwrap_or_else(|error| panic!("the mirror is not changed: {error}"));
    }

    /// All ports continue.
    fn upgrade(&mut self, _: &mut Random) {
        let upgraded = self.switch.upgrade(&[]);
        upgraded.unwrap_or_else(|error| panic!("not replaced: {error}"));
    }

    fn flows(&mut self, random: &mut Random) {
        let address = format!("10.{}.0.0/16", random.below(4));
        let flow = format!("priority=5,ip,nw_dst={address},actions=drop");
        let condition = format!("ip,nw_dst={address}");
        let words = [["flows", "add", &flow], ["flows", "remove", &condition]];
        let [verb, change, what] = words[random.below(2) as usize];
        let changed = self.switch.tell(&[verb, change, what, "--bridge", "flows"]);
        changed.unwrap_or_else(|error| panic!("flows are not changed: {error}"));
    }
}

/// The configuration with ports for some guests.
fn text(folder: &Path, [red, blue]: &[&str; 2], guests: u64) -> String {
    let socket = |name: &str| folder.join(name).display().to_string();
    let mut text =
        "[[worker]]\n\n[[worker]]\n\n[[bridge]]\nname = \"lan\"\n\n[[bridge]]\nname = \"guests\"\n\n\
                    [[bridge]]\nname = \"flows\"\npipeline = \"openflow\"\n"
            .to_owned();
    let mut port = |name: &str, bridge: &str, keys: &str| {
        write!(text, "\n[[port]]\nname = \"{name}\"\nbridge = \"{bridge}\"\n{keys}\n").expect("a string");
    };
    for (name, netns) in [("red", red), ("blue", blue)] {
        port(name, "lan", &format!("kind = \"tap\"\ninterface = \"{name}0\"\nnetns = \"{netns}\""));
    }
    for name in ["left", "right"] {
        port(name, "lan", &format!("socket = \"{}\"", socket(name)));
    }
    port("probe", "lan", "kind = \"null\"");
    port("cable", "lan", "kind = \"patch\"\npeer = \"end\"");
    port("end", "flows", "kind = \"patch\"\npeer = \"cable\"");
    let memif = format!("kind = \"memif\"\nsocket = \"{}\"", socket("memif"));
    port("memif", "guests", &memif);
    for k in 0..guests {
        let name = format!("guest{k}");
        port(&name, "guests", &format!("socket = \"{}\"\nvlan = {guests}", socket(&name)));
    }
    text
}
