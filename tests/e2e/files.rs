//! Captures that are played, written, and taken at other ports: the switch plays files written by other tools, other
//! tools read files written by the switch, and no packet is added, lost or changed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use linerate_tests::guest::Guest;
use linerate_tests::switch::{Switch, assert_sums_agree};
use linerate_tests::{folder, need, scope, wait};
use tempfile::TempDir;

const SWITCH_CPU: usize = 0;
const REACTION: Duration = Duration::from_secs(30);
/// Formats written by editcap, under its names for them.
const FORMATS: [&str; 4] = ["pcap", "nsecpcap", "pcapng", "modpcap"];

/// A switch and its files.
struct Stage {
    folder: TempDir,
    switch: Switch,
}

impl Stage {
    /// Starts a switch of one worker with these port sections; DIR stands for the folder.
    fn new(worker: &str, ports: &[&str], prepare: impl FnOnce(&Path)) -> Stage {
        let folder = folder();
        prepare(folder.path());
        let mut text = format!("[[worker]]\ncpu = {SWITCH_CPU}\n{worker}\n");
        for port in ports {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n[[port]]\n{port}\n");
        }
        let text = text.replace("DIR", &folder.path().display().to_string());
        fs::write(folder.path().join("switch.toml"), text).expect("a folder can be written to");
        let switch = Switch::restart(folder.path());
        Stage { folder, switch }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn detail(&self, port: &str, name: &str) -> String {
        self.switch.port(port)["details"][name].as_str().unwrap_or("none").to_owned()
    }

    /// Waits until a port reports this detail.
    fn wait_detail(&self, port: &str, name: &str, wanted: &str) {
        let reached = wait::until(REACTION, || (self.detail(port, name) == wanted).then_some(()));
        assert!(reached.is_some(), "{name} of {port} is not {wanted}: {}", self.switch.port(port));
    }
}

/// Returns a tool's output; panics with its error output if it fails.
fn tool(program: &str, words: &[&str]) -> String {
    need::program(program);
    let output = Command::new(program).args(words).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {words:?} failed: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns every packet's bytes, as printed by tcpdump.
fn dump(file: &Path) -> String {
    // Under its own user tcpdump may not enter the end-to-end test's folder.
    tool("tcpdump", &["-Z", "root", "-n", "-t", "-xx", "-r", &file.display().to_string()])
}

/// Returns fields of every packet that matches `filter`, as printed by tshark.
fn fields(file: &Path, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let file = file.display().to_string();
    let wanted = fields.iter().flat_map(|field| ["-e", field]);
    let words: Vec<_> = ["-n", "-r", &file, "-Y", filter, "-T", "fields"].into_iter().chain(wanted).collect();
    let printed = tool("tshark", &words);
    printed.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// A frame from station 1 to station 2 that contains its number.
fn frame(number: usize, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    frame.extend((number as u32).to_be_bytes());
    frame.extend((frame.len()..len).map(|at| (at * 7 + number) as u8));
    frame
}

/// Writes a capture of `n` frames, `gap` microseconds apart.
fn capture(file: &Path, n: usize, gap: usize) {
    let mut bytes = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat();
    for number in 0..n {
        let (at, frame) = (number * gap, frame(number, [60, 64, 590, 1514][number % 4]));
        let len = frame.len() as u32;
        let header = [1_700_000_000 + (at / 1_000_000) as u32, (at % 1_000_000) as u32, len, len];
        bytes.extend(header.map(u32::to_le_bytes).concat());
        bytes.extend(frame);
    }
    fs::write(file, bytes).expect("a folder can be written to");
}

#[test]
#[ignore = "needs tcpdump and tshark: cargo xtask test"]
fn captures_are_exchanged_with_other_tools() {
    for format in scope::sample(&FORMATS) {
        println!("{format}");
        let ports = [
            "name = \"from\"\nkind = \"pcap\"\nread = \"DIR/in\"\npace = \"fast\"\nafter = \"1s\"",
            "name = \"to\"\nkind = \"pcap\"\nwrite = \"DIR/out.pcapng\"",
        ];
        let stage = Stage::new("queue_full = \"wait\"", &ports, |dir| {
            capture(&dir.join("raw"), 3_000, 7);
            let (raw, played) = (dir.join("raw").display().to_string(), dir.join("in").display().to_string());
            tool("editcap", &["-F", format, &raw, &played]);
        });
        stage.wait_detail("to", "written", "3000");
        assert_eq!(stage.detail("from", "playing"), "ended");
        // Readable while the switch runs.
        assert_eq!(dump(&stage.path("out.pcapng")), dump(&stage.path("in")));
        let lengths = |file: &str| fields(&stage.path(file), "frame", &["frame.number", "frame.len"]);
        assert_eq!(lengths("out.pcapng"), lengths("in"));
        stage.switch.assert_sums_agree(&["from", "to"]);
        let (out, played) = (stage.path("out.pcapng"), stage.path("in"));
        stage.switch.stop();
        assert_eq!(dump(&out), dump(&played));
    }
}

#[test]
#[ignore = "needs tcpdump and tshark: cargo xtask test"]
fn played_frames_return_and_capture_has_both_directions() {
    // Fewer than the ring's entries, so that a guest that is not scheduled for a while loses none.
    const N: usize = 500;
    let port = "name = \"guest\"\nsocket = \"DIR/guest.sock\"\ntrace = \"DIR/guest.log\"\n\
                capture = { file = \"DIR/guest.pcapng\", snap = 128 }";
    let stage = Stage::new("queue_full = \"wait\"", &[port], |dir| capture(&dir.join("in"), N, 20));
    let socket = stage.path("guest.sock");
    let guest = Guest::endless(stage.folder.path(), "swap", "--connect", &[&socket], &["--mode", "macswap"]);
    stage.switch.wait_running("guest", 1, REACTION);
    let file = |key: &str, name: &str| format!("{key}={}", stage.path(name).display());
    let (read, write) = (file("read", "in"), file("write", "out.pcapng"));
    let add = ["ports", "add", "files", "--kind", "pcap", "--set", &read, "--set", &write];
    stage.switch.tell(&add).expect("a port can be added");
    let n = N.to_string();
    stage.wait_detail("files", "written", &n);
    stage.wait_detail("guest", "captured", &(2 * N).to_string());
    stage.wait_detail("guest", "traced", &(2 * N).to_string());
    let ours = stage.switch.settled(&["files", "guest"]);
    assert_sums_agree(&ours);
    assert!(ours.iter().all(|port| port.other_drops + port.queue_full == 0), "{ours:?}");
    // Every frame came back as sent, with exchanged addresses.
    let bytes = |file: &str| fields(&stage.path(file), "frame", &["frame.len", "data.data"]);
    assert_eq!(bytes("out.pcapng"), bytes("in"));
    assert_eq!(fields(&stage.path("out.pcapng"), "eth.src == 02:00:00:00:00:02", &["frame.len"]).len(), N);
    // The capture contains both directions, the port's name, and whole lengths with 128 captured bytes.
    let shown = ["frame.len", "frame.cap_len", "frame.interface_name", "eth.src"];
    let way = |direction: u8| {
        let filter = format!("frame.packet_flags_direction == {direction}");
        fields(&stage.path("guest.pcapng"), &filter, &shown)
    };
    let (came, left) = (way(1), way(2));
    assert_eq!((came.len(), left.len()), (N, N));
    for (packets, station) in [(&left, "02:00:00:00:00:01"), (&came, "02:00:00:00:00:02")] {
        for (number, packet) in packets.iter().enumerate() {
            let len = frame(number, [60, 64, 590, 1514][number % 4]).len();
            let kept = len.min(128);
            assert_eq!(*packet, [&len.to_string(), &kept.to_string(), "guest", station], "packet {number}");
        }
    }
    let times = fields(&stage.path("guest.pcapng"), "frame", &["frame.time_epoch"]);
    let times: Vec<f64> = times.iter().map(|time| time[0].parse().expect("a time")).collect();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time after 1970");
    assert!(times.is_sorted(), "in order of time");
    assert!(times.iter().all(|time| (now.as_secs_f64() - time).abs() < 600.0), "by the time of day");
    assert_eq!(dump(&stage.path("guest.pcapng")).lines().filter(|line| line.contains(" > ")).count(), 2 * N);
    let trace = fs::read_to_string(stage.path("guest.log")).expect("a trace");
    let lines = |way: &str, end: &str| trace.lines().filter(|l| l.contains(way) && l.ends_with(end)).count();
    assert_eq!((lines(" guest in ", "type 0x88b5"), lines(" guest out ", ", sent")), (N, N), "{trace}");
    guest.end();
    stage.switch.stop();
}

#[test]
#[ignore = "needs tcpdump and tshark: cargo xtask test"]
fn recorded_timing_keeps_the_order_and_wakes_a_sleeping_switch() {
    let ports = [
        "name = \"from\"\nkind = \"pcap\"\nread = \"DIR/in\"\nrepeat = 2\nafter = \"1s\"",
        "name = \"to\"\nkind = \"pcap\"\nwrite = \"DIR/out.pcapng\"",
    ];
    let stage = Stage::new("", &ports, |dir| capture(&dir.join("in"), 40, 20_000));
    stage.wait_detail("to", "written", "80");
    let numbers = fields(&stage.path("out.pcapng"), "frame", &["data.data"]);
    let numbers: Vec<_> = numbers.iter().map(|data| data[0][..8].to_owned()).collect();
    let pass: Vec<_> = (0..40).map(|number| format!("{number:08x}")).collect();
    assert_eq!(numbers, [pass.clone(), pass].concat());
    let workers = stage.switch.ask(&["workers", "show"]).expect("workers");
    assert!(workers["workers"][0]["sleeps"].as_u64().is_some_and(|sleeps| sleeps > 10), "{workers}");
    stage.switch.stop();
}

#[test]
#[ignore = "needs tcpdump and tshark: cargo xtask test"]
fn equal_seeds_inject_equal_faults() {
    /// Fits into the queue of the writer, whose disk may be slow.
    const N: u64 = 5_000;
    let run = |seed: u64| {
        let fault = format!("fault = {{ seed = {seed}, drop = 0.1, corrupt = 0.05, direction = \"in\" }}");
        let from = format!("name = \"from\"\nkind = \"pcap\"\nread = \"DIR/in\"\nafter = \"1s\"\n{fault}");
        let ports = [&from, "name = \"to\"\nkind = \"pcap\"\nwrite = \"DIR/out.pcapng\""];
        let stage =
            Stage::new("queue_full = \"wait\"", &ports, |dir| capture(&dir.join("in"), N as usize, 30));
        stage.wait_detail("from", "playing", "ended");
        let counters = stage.switch.settled(&["from", "to"]);
        assert_sums_agree(&counters);
        assert_eq!(counters[1].queue_full, 0, "the disk was too slow for this test");
        stage.wait_detail("to", "written", &counters[1].tx_packets.to_string());
        let port = stage.switch.port("from");
        let lost = port["drops"]["injected"].as_u64().unwrap_or(0);
        assert_eq!(stage.detail("from", "fault_in_dropped"), lost.to_string());
        let dumped = dump(&stage.path("out.pcapng"));
        stage.switch.stop();
        (lost, dumped)
    };
    let (lost, packets) = run(7);
    // Six standard deviations of a binomial distribution.
    let (mean, deviation) = (N as f64 * 0.1, (N as f64 * 0.1 * 0.9).sqrt());
    assert!((lost as f64 - mean).abs() < 6.0 * deviation, "{lost} of {N} lost");
    assert!((lost, packets) == run(7), "the same seed did something else");
    assert_ne!(run(8).0, 0);
}

#[test]
#[ignore = "needs tcpdump and tshark, and root to mount: cargo xtask test"]
fn full_disk_stops_only_the_writing_port() {
    let ports = [
        "name = \"from\"\nkind = \"pcap\"\nread = \"DIR/in\"\npace = \"fast\"\nafter = \"1s\"\nrepeat = \"forever\"\n\
         capture = \"DIR/small/from.pcapng\"",
        "name = \"full\"\nkind = \"pcap\"\nwrite = \"DIR/small/out.pcapng\"",
        "name = \"null\"\nkind = \"null\"",
    ];
    let mount = std::cell::RefCell::new(None);
    let stage = Stage::new("", &ports, |dir| {
        capture(&dir.join("in"), 1_000, 1);
        mount.replace(Some(Mount::small(&dir.join("small"))));
    });
    stage.switch.wait_state("full", "faulted", REACTION);
    let fault = stage.switch.port("full")["reason"].to_string();
    assert!(fault.contains("the file cannot be written: No space left on device"), "{fault}");
    let before = stage.switch.counters("null").tx_packets;
    let others_forward = || (stage.switch.counters("null").tx_packets > before + 10_000).then_some(());
    assert!(wait::until(REACTION, others_forward).is_some(), "others stopped: {}", stage.switch.port("null"));
    // A capture without space ends, and its port continues.
    let ended = wait::until(REACTION, || (stage.detail("from", "capture_ended") != "none").then_some(()));
    assert!(ended.is_some(), "{}", stage.switch.port("from"));
    assert_eq!(stage.switch.port("from")["state"], "connected");
    stage.switch.wait_logged(&["\"port\":\"full\"", "stopped", "No space left on device"], REACTION);
    stage.switch.wait_logged(&["\"port\":\"from\"", "capture ended", "No space left"], REACTION);
    // The written parts can be read.
    for file in ["small/out.pcapng", "small/from.pcapng"] {
        fields(&stage.path(file), "frame", &["frame.number"]);
    }
    assert!(fs::metadata(stage.path("small/out.pcapng")).expect("the file").len() > 24);
    stage.switch.stop();
}

/// A file system with little space.
struct Mount(PathBuf);

impl Mount {
    fn small(at: &Path) -> Mount {
        fs::create_dir(at).expect("a folder can be made");
        tool("mount", &["-t", "tmpfs", "-o", "size=8m", "linerate-small", &at.display().to_string()]);
        Mount(at.to_owned())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: open files stay until they are closed.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
