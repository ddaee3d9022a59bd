//! Live migration of a guest in QEMU from a port of one switch to a port of another, while it receives a TCP stream and
//! answers numbered packets.

use std::fs;
use std::path::Path;
use std::time::Duration;

use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::switch::Switch;
use linerate_tests::vm::{GuestNic, Image, Vm, command};
use linerate_tests::{data, folder, scope, wait};

const LIMIT: Duration = Duration::from_mins(2);
const REACTION: Duration = Duration::from_secs(30);
/// Rate of the stream, which lasts longer than the migration.
const RATE: &str = "tbf rate 60mbit burst 64k latency 50ms";
const PEER: &str = "10.0.0.9";
const GUEST: &str = "10.0.0.1";

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

/// The longest time between two replies, and the number of lost packets, of `ping -D`.
fn gap(output: &str) -> (f64, u64) {
    let replies: Vec<(f64, u64)> = output
        .lines()
        .filter_map(|line| {
            let time = line.strip_prefix('[')?.split(']').next()?.parse().ok()?;
            let number = line.split("icmp_seq=").nth(1)?.split(' ').next()?.parse().ok()?;
            line.contains("bytes from").then_some((time, number))
        })
        .collect();
    let longest = replies.windows(2).map(|pair| pair[1].0 - pair[0].0).fold(0.0, f64::max);
    let numbers = replies.iter().map(|reply| reply.1);
    let sent = numbers.clone().max().unwrap_or(0) - numbers.clone().min().unwrap_or(1) + 1;
    (longest, sent - replies.len() as u64)
}

/// Waits until the migration has ended, and returns the report of the source.
fn migrate(monitor: &Path, to: &Path) -> String {
    let say = |line: &str| command(monitor, line).expect("the monitor answers");
    say("migrate_set_parameter max-bandwidth 400M");
    say(&format!("migrate -d unix:{}", to.display()));
    let report = wait::until(LIMIT, || {
        let report = say("info migrate");
        assert!(!report.contains("failed"), "{report}");
        report.contains("Migration status: completed").then_some(report)
    });
    report.unwrap_or_else(|| panic!("the migration does not converge: {}", say("info migrate")))
}

fn moves_without_loss(packed: bool) {
    let folder = folder();
    let (here, there, cable) =
        (folder.path().join("here"), folder.path().join("there"), folder.path().join("cable"));
    let cable = cable.display();
    let (netns, image) = (Netns::new(), Image::make());
    let peer = format!(
        "[[port]]\nname = \"peer\"\nkind = \"tap\"\ninterface = \"peer0\"\nnetns = \"{}\"\n",
        netns.name()
    );
    let second = switch(&there, &format!("socket = \"{cable}\"\nmode = \"server\""), &peer);
    let first = switch(&here, &format!("socket = \"{cable}\"\nmode = \"client\""), "");
    netns.wait_link("peer0", true, REACTION);
    netns.configure("peer0", &[&format!("{PEER}/24")]);
    netns.run("tc", &format!("qdisc add dev peer0 root {RATE}").split(' ').collect::<Vec<_>>());

    let nic = |socket| GuestNic { socket, server: false, packed, number: 1 };
    let sockets = [here.join("guest"), there.join("guest")];
    let monitors = ["source", "target"].map(|name| folder.path().join(format!("{name}.mon")));
    let mut guest = Vm::movable(folder.path(), &image, &nic(&sockets[0]), &monitors[0], None);
    guest.ready();
    netns.ping(GUEST, 1, &["-w", "20"]);

    let noise = folder.path().join("noise");
    fs::write(&noise, data::bytes(1, scope::pick(96 << 20, 48 << 20))).expect("a file of the test");
    let served = folder.path().display().to_string();
    let server =
        netns.spawn(folder.path(), "httpd", "busybox", &["httpd", "-f", "-p", "8080", "-h", &served]);
    netns.await_listener(8080, &server);
    let mut pings = netns.spawn(folder.path(), "ping", "ping", &["-D", "-n", "-i", "0.01", GUEST]);
    guest.succeed(&format!("(wget -q -O - http://{PEER}:8080/noise | sha256sum >/tmp/sum) & sleep 1"), LIMIT);

    let incoming = folder.path().join("incoming");
    let target = Vm::movable(folder.path(), &image, &nic(&sockets[1]), &monitors[1], Some(&incoming));
    let is_there = wait::until(REACTION, || incoming.exists().then_some(()));
    assert!(is_there.is_some(), "the target listens");
    let report = migrate(&monitors[0], &incoming);
    let mut guest = guest.continued_by(target);
    let sum = guest.succeed("wait; while ! [ -s /tmp/sum ]; do sleep 0.2; done; cat /tmp/sum", LIMIT);
    let (longest, lost) = ended(&mut pings);
    let rounds = |name: &str| report.lines().find(|line| line.starts_with(name)).unwrap_or(name).to_owned();
    println!(
        "longest gap {longest:.3} s, {lost} packets lost; {}; {}",
        rounds("downtime"),
        rounds("dirty sync")
    );

    let expected = netns.run("sha256sum", &[&noise]);
    assert_eq!(sum.split(' ').next(), expected.split(' ').next(), "the stream is complete and unchanged");
    assert!(!second.has_feature("guest", "log-all"), "the target logs nothing");
    let (before, after) = (first.counters("guest").tx_packets, second.counters("guest").tx_packets);
    assert!(before > 0 && after > 0, "both switches have carried the stream: {before} and {after} packets");
    drop((guest, server));
    first.stop();
    second.stop();
}

/// The longest gap and the lost packets of a running `ping`.
fn ended(pings: &mut Process) -> (f64, u64) {
    let output = pings.output();
    pings.kill();
    gap(&output)
}

#[test]
#[ignore = "needs QEMU, a kernel and root: run by `cargo xtask test`"]
fn a_guest_moves_to_another_switch_under_traffic() {
    moves_without_loss(false);
}

mod every {
    #[test]
    #[ignore = "needs QEMU, a kernel and root: run by `cargo xtask test --all`"]
    fn a_guest_with_packed_rings_moves_to_another_switch_under_traffic() {
        super::moves_without_loss(true);
    }
}
