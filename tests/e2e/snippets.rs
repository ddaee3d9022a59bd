//! Output of `linerate snippet`, used as intended: in QEMU's command line, in a libvirt domain, and in a shell that
//! starts DPDK's testpmd.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use linerate_tests::switch::Switch;
use linerate_tests::testpmd::Testpmd;
use linerate_tests::vm::{Image, Vm};
use linerate_tests::{folder, need, wait};

const PING: Duration = Duration::from_mins(1);
const REACTION: Duration = Duration::from_secs(30);

/// Starts a switch with a listening port, whose path must be quoted in shell and XML, and a connecting port with two
/// queue pairs and an MTU.
fn switch(folder: &Path) -> Switch {
    let port = |name: &str, socket: &str, more: &str| {
        let socket = folder.join(socket);
        format!("[[port]]\nname = \"{name}\"\nsocket = \"{}\"\n{more}\n", socket.display())
    };
    let text = port("red", "it's red & <odd>", "")
        + &port("blue", "blue", "mode = \"client\"\nqueue_pairs = 2\nmtu = 2000");
    let file = folder.join("switch.toml");
    fs::write(&file, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
    Switch::restart(folder)
}

#[test]
#[ignore = "needs QEMU and a kernel: run by `cargo xtask test`"]
fn qemu_guests_with_the_printed_options_talk_in_large_frames() {
    let folder = folder();
    let (switch, image) = (switch(folder.path()), Image::make());
    let mut guests = [("red", 1), ("blue", 2)].map(|(port, number)| {
        // Linux uses at most as many queue pairs as it has CPUs.
        let options = format!("-smp 2 {}", adapted(&switch.snippet(port, "qemu"), &image));
        Vm::pasted(folder.path(), port, &image, number, &options)
    });
    guests.iter_mut().for_each(Vm::ready);
    let [red, blue] = &mut guests;
    let again = "(for i in $(seq 30); do ping -c 1 -W 1 10.0.0.2 && exit 0; sleep 1; done; exit 1)";
    red.succeed(again, PING);
    assert_eq!(blue.succeed("cat /sys/class/net/eth0/mtu", PING), "2000");
    red.succeed("ip link set eth0 mtu 2000", PING);
    red.succeed("ping -c 3 -s 1900 -W 5 10.0.0.2", PING);
    assert_eq!(blue.succeed("ls -d /sys/class/net/eth0/queues/rx-* | wc -l", PING), "2");
    drop(guests);
    switch.stop();
}

/// Applies the hint printed with the options, and disables MSI-X vectors: with them, QEMU 7.2 without KVM crashes with
/// a segmentation fault when the guest's driver starts a vhost-user card.
fn adapted(options: &str, image: &Image) -> String {
    let options = options.replacen(",vectors=6", "", 1).replacen("mac=", "vectors=0,mac=", 1);
    if image.is_of_qemu_9_2() { options.replacen("reconnect=1", "reconnect-ms=1000", 1) } else { options }
}

#[test]
#[ignore = "needs libvirt's schema: run by `cargo xtask test`"]
fn libvirt_snippet_is_valid_domain_xml() {
    let folder = folder();
    let switch = switch(folder.path());
    for port in ["red", "blue"] {
        let printed = switch.snippet(port, "libvirt");
        let Output { status, stdout, stderr } = validated(folder.path(), &printed);
        let said = [stdout, stderr].concat();
        assert!(status.success(), "{printed}{}", String::from_utf8_lossy(&said));
        // The schema rejects invalid elements.
        let wrong = printed.replacen("vhostuser", "vhostloser", 1);
        assert!(!validated(folder.path(), &wrong).status.success(), "{wrong}");
    }
    switch.stop();
}

#[test]
#[ignore = "needs libvirt's schema: run by `cargo xtask test`"]
fn domain_of_the_documents_is_valid() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/libvirt/domain.xml");
    let Output { status, stdout, stderr } = validated_file(&file);
    assert!(status.success(), "{}", String::from_utf8_lossy(&[stdout, stderr].concat()));
}

fn validated(folder: &Path, elements: &str) -> Output {
    let file = folder.join("domain.xml");
    let domain = format!(
        "<domain type='kvm'>\n<name>guest</name>\n<memory unit='GiB'>1</memory>\n\
         <os><type arch='x86_64' machine='q35'>hvm</type></os>\n{elements}</domain>\n"
    );
    fs::write(&file, domain).unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
    validated_file(&file)
}

fn validated_file(file: &Path) -> Output {
    need::program("virt-xml-validate");
    let output = Command::new("virt-xml-validate").arg(file).arg("domain").output();
    output.unwrap_or_else(|error| panic!("cannot run virt-xml-validate: {error}"))
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn testpmd_starts_as_printed_and_its_frames_arrive() {
    let folder = folder();
    let switch = switch(folder.path());
    for (port, pairs) in [("red", 1), ("blue", 2)] {
        let printed = switch.snippet(port, "testpmd");
        // Applies the printed hint.
        let line = printed.replacen("--single-file-segments", "--no-huge -m 512", 1);
        assert_ne!(line, printed);
        let mut guest = Testpmd::pasted(folder.path(), port, &line);
        guest.ready();
        switch.wait_running(port, pairs, REACTION);
        guest.say("start tx_first");
        let arrived = wait::until(REACTION, || (switch.counters(port).rx_packets >= 32).then_some(()));
        assert!(arrived.is_some(), "nothing arrived: {}", guest.output());
        guest.say("stop");
        guest.quit();
    }
    switch.stop();
}
