//! The protocol against programs that others wrote: DPDK's virtio-user and vhost drivers and QEMU.
//!
//! Only the control side is under test; the queues move nothing. Run with `--ignored` where the programs are.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

mod common;

use common::{Guest, PATIENCE, Switch};
use port::vhost_user::Options;
use port::virtio_user::{Features, FrontEnd, FrontEndError, FrontEndListener};
use port::{PortState, PortStatus};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program that is ended with the test.
struct Program(Child);

impl Program {
    fn run(command: &mut Command) -> Self {
        let log = || std::fs::File::create("/dev/null").unwrap();
        Self(command.stdin(Stdio::piped()).stdout(log()).stderr(log()).spawn().unwrap())
    }

    fn testpmd(device: &str, pairs: usize) -> Self {
        let prefix = format!("--file-prefix=linerate{}", std::process::id());
        let eal = ["--lcores=(0,1)@0", "--no-pci", "--no-telemetry", "--single-file-segments", "-m", "64"];
        let queues = [format!("--rxq={pairs}"), format!("--txq={pairs}")];
        let options = ["--", "-i", "--total-num-mbufs=8192", "--auto-start"];
        Self::run(
            Command::new("dpdk-testpmd")
                .args(eal)
                .arg(prefix)
                .arg(format!("--vdev={device}"))
                .args(options)
                .args(queues),
        )
    }

    fn quit(mut self) {
        self.0.stdin.take().unwrap().write_all(b"stop\nquit\n").unwrap();
        let start = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < PATIENCE, "the program does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn runs(pairs: usize) -> impl Fn(&PortStatus) -> bool {
    move |status| {
        assert_eq!(status.last_fault, None);
        status.queues.iter().filter(|q| q.rx_running && q.tx_running).count() == pairs
    }
}

fn is_quiet(status: &PortStatus) -> bool {
    assert_eq!(status.last_fault, None);
    status.state == PortState::Waiting
}

const KINDS: [(&str, &[&str]); 4] = [
    ("", &["version-1"]),
    (",mrg_rxbuf=0,in_order=1", &["version-1", "in-order"]),
    (",packed_vq=1", &["version-1", "ring-packed"]),
    (",packed_vq=1,mrg_rxbuf=0,in_order=1,vectorized=1", &["version-1", "ring-packed", "in-order"]),
];

#[test]
#[ignore = "needs dpdk-testpmd and huge pages"]
fn dpdk_virtio_user_connects_in_every_ring_kind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let switch = Switch::listen(&path, Options { queue_pairs: 2, ..Options::default() });
    for (kind, features) in KINDS {
        for pairs in [1, 2] {
            let device =
                format!("net_virtio_user0,path={},queues={pairs},queue_size=256{kind}", path.display());
            let guest = Program::testpmd(&device, pairs);
            let status = switch.wait("DPDK's rings", runs(pairs));
            assert!(features.iter().all(|f| status.features.contains(f)), "{kind}: {:?}", status.features);
            guest.quit();
            switch.wait("DPDK's end", is_quiet);
        }
    }
}

#[test]
#[ignore = "needs dpdk-testpmd and huge pages"]
fn dpdk_virtio_user_in_server_mode_outlives_the_switch() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    for (kind, _) in KINDS {
        let device = format!("net_virtio_user0,path={},server=1,queue_size=256{kind}", path.display());
        let guest = Program::testpmd(&device, 1);
        for _ in 0..3 {
            let switch = Switch::connect(&path, Options::default());
            switch.wait("DPDK's rings", runs(1));
        }
        let switch = Switch::connect(&path, Options::default());
        switch.wait("DPDK's rings", runs(1));
        guest.quit();
        switch.wait("DPDK's end", is_quiet);
        let _ = std::fs::remove_file(&path);
    }
}

fn guest_life(mut front: FrontEnd, packed: bool) {
    let wanted = Features(if packed { u64::MAX } else { !Features::RING_PACKED });
    let agreed = front.negotiate(wanted).unwrap();
    assert_eq!(agreed.features.has(Features::RING_PACKED), packed);
    let guest = Guest::new();
    front.share(&[guest.region()]).unwrap();
    let mut bases = vec![front.fresh_base(); 2];
    for _ in 0..3 {
        front.start(&[guest.ring(0, bases[0]), guest.ring(1, bases[1])]).unwrap();
        bases = front.stop().unwrap();
        assert_eq!(bases, [front.fresh_base(); 2], "nothing was sent");
    }
    front.start(&[guest.ring(0, bases[0]), guest.ring(1, bases[1])]).unwrap();
}

fn connect(path: &Path) -> FrontEnd {
    let start = Instant::now();
    loop {
        match FrontEnd::connect(path, PATIENCE) {
            Err(FrontEndError::NoBackEnd(..)) if start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            front => return front.unwrap(),
        }
    }
}

#[test]
#[ignore = "needs dpdk-testpmd and huge pages"]
fn our_guest_lives_with_the_dpdk_vhost_driver() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let back = Program::testpmd(&format!("net_vhost0,iface={},queues=1", path.display()), 1);
    guest_life(connect(&path), false);
    guest_life(connect(&path), true);
    back.quit();
    let _ = std::fs::remove_file(&path);
    let listener = FrontEndListener::bind(&path).unwrap();
    let back = Program::testpmd(&format!("net_vhost0,iface={},queues=1,client=1", path.display()), 1);
    guest_life(listener.accept(PATIENCE).unwrap(), true);
    guest_life(listener.accept(PATIENCE).unwrap(), false);
    back.quit();
}

#[test]
#[ignore = "needs qemu-system-x86_64"]
fn qemu_connects_and_its_firmware_starts_the_rings() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let switch = Switch::listen(&path, Options { queue_pairs: 2, mtu: Some(1500), ..Options::default() });
    for pairs in ["queues=2", "queues=1"] {
        let vm = Program::run(
            Command::new("qemu-system-x86_64")
                .args(["-machine", "q35,accel=tcg", "-m", "64", "-display", "none", "-monitor", "stdio"])
                .args(["-object", "memory-backend-memfd,id=m,size=64M,share=on", "-numa", "node,memdev=m"])
                .arg("-chardev")
                .arg(format!("socket,id=c,path={}", path.display()))
                .args(["-netdev", &format!("vhost-user,id=n,chardev=c,{pairs}")])
                .args(["-device", "virtio-net-pci,netdev=n,mq=on,host_mtu=1500", "-boot", "n"]),
        );
        switch.wait("the firmware's rings", runs(1));
        vm.quit();
        switch.wait("QEMU's end", is_quiet);
    }
}
