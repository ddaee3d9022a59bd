//! Random messages in random order, on new connections and from guests with running traffic.
//!
//! Scripts are those of the fuzz target (`dataplane/port/src/vhost_user/fuzz`), from a random generator. The seed is
//! printed on failure; set `SEED` to select it.

use crate::scope::pick;
use crate::stage::{Stage, play};
use mem::RegionSpec;
use port::PortId;
use port::vhost::message::{Code, Header, Reply};
use port::vhost_user::fuzz::{Environment, Script};
use port::virtio_user::FrontEnd;
use ring::driver::{DriverRing, Packed, Split};
use rustix::fd::AsFd;
use rustix::net::RecvFlags;
use std::cell::Cell;

/// A well-behaved guest connects after this many scripts.
const SCRIPTS_PER_GUEST: u64 = 50;

/// Maximum growth of private memory per scenario, in bytes: far less than a leak of one queue per script.
const MAX_GROWTH: u64 = 8 << 20;

/// Prefixes of named fault reasons.
const REASONS: [&str; 4] = [
    "the front end violated the vhost-user protocol: ",
    "the guest violated the virtqueue protocol: ",
    "the kick descriptor is not usable: ",
    "the call descriptor is not usable: ",
];
const OUTSIDE: &str = "of a virtqueue lies outside the shared memory or is misaligned";

/// Number of scripts for new connections.
fn cold_scripts() -> u64 {
    pick(1_500, 300)
}

/// Number of scripts from guests with running traffic, per ring format.
fn warm_scripts() -> u64 {
    pick(250, 60)
}

/// First seed.
fn seed() -> u64 {
    std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// One to `most` pseudo-random bytes (xorshift).
fn bytes(seed: u64, most: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 24
    };
    let n = next() % most + 1;
    (0..n).map(|_| next() as u8).collect()
}

/// Private memory of this process, in bytes (`RssAnon` in `/proc/self/status`).
fn heap() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Prints the seed of the current script on panic.
struct PrintSeed(u64);

impl Drop for PrintSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to play this script first, set SEED={}", self.0);
        }
    }
}

/// Reads available replies into `heard`, until the socket is empty or closed.
fn listen(front: &impl AsFd, heard: &mut Vec<u8>) {
    let mut bytes = [0; 4096];
    while let Ok((n @ 1.., _)) = rustix::net::recv(front, &mut bytes, RecvFlags::DONTWAIT) {
        heard.extend_from_slice(&bytes[..n]);
    }
}

fn check_answers(heard: &[u8]) {
    let mut answers = heard.chunks_exact(Header::BYTES + Reply::BYTES as usize);
    for answer in answers.by_ref() {
        let (header, payload) = answer.split_at(Header::BYTES);
        let header = Header::decode(header.try_into().unwrap()).unwrap().expect_reply().unwrap();
        assert!(Reply::decode(header.code, payload).is_ok());
        assert_ne!(header.code, Code::SetBackendReqFd);
    }
    assert!(answers.remainder().is_empty(), "half an answer");
}

/// Sends all messages of a script, calling `meanwhile` between them; the replies must be complete.
fn speak(front: &impl AsFd, script: &[u8], environment: Environment<'_>, mut meanwhile: impl FnMut()) {
    let (mut script, mut heard) = (Script::new(script, environment), Vec::new());
    while !script.is_over() && script.send(front.as_fd()).is_ok() {
        meanwhile();
        listen(front, &mut heard);
    }
    check_answers(&heard);
}

/// Waits until port `bad` has released its last peer. After a fault, the port is replaced, because it would back off
/// before the next connection.
fn part(stage: &Stage<'_>, port: &mut PortId, connects: u64) {
    let Some(fault) = stage.parted(connects) else { return };
    let named = REASONS.iter().any(|reason| fault.starts_with(reason)) || fault.ends_with(OUTSIDE);
    assert!(named, "{fault}");
    stage.calm.rig.remove(*port);
    *port = stage.calm.rig.add("bad");
}

fn port_of(stage: &Stage<'_>) -> PortId {
    PortId(stage.calm.rig.port("bad").unwrap().id)
}

fn environment(front: &FrontEnd, region: RegionSpec) -> Environment<'static> {
    let agreed = front.negotiated();
    Environment { region, file: None, features: agreed.features.0, protocol: agreed.protocol.0 }
}

/// Connects, sends a script and disconnects.
fn cold(stage: &Stage<'_>, environment: Environment<'_>, port: &mut PortId, script: &[u8]) {
    let connects = stage.connects() + 1;
    let front = stage.connection();
    speak(&front, script, environment, || {});
    drop(front);
    part(stage, port, connects);
}

/// Sends a script from a guest with running traffic.
fn warm<R: DriverRing>(stage: &Stage<'_>, port: &mut PortId, script: &[u8]) {
    let mut guest = stage.guest::<R>();
    let connects = stage.connects();
    let memory = guest.memory.whole()[0];
    let file = memory.file.try_clone_to_owned().unwrap();
    let environment = Environment { file: Some(file.as_fd()), ..environment(&guest.front, memory.spec) };
    let mouth = guest.front.as_fd().try_clone_to_owned().unwrap();
    let mut step = || {
        guest.step(&[0, 1]);
        stage.calm.go_on(1);
    };
    speak(&mouth, script, environment, &mut step);
    (0..5).for_each(|_| step());
    drop((guest, mouth, file));
    part(stage, port, connects);
}

/// Runs `scripts` scripts of up to `most` bytes.
fn scenario<R: DriverRing>(
    packed: bool,
    scripts: u64,
    most: u64,
    perform: impl Fn(&Stage<'_>, &mut PortId, &[u8]),
) {
    play::<R>(packed, |stage| {
        let mut port = PortId(stage.calm.rig.port("bad").unwrap().id);
        let mut before = 0;
        for n in 0..scripts {
            let seed = seed() + n;
            let _told = PrintSeed(seed);
            perform(stage, &mut port, &bytes(seed, most));
            if n % SCRIPTS_PER_GUEST == 0 {
                stage.recover::<R>();
            }
            if n == SCRIPTS_PER_GUEST {
                before = heap();
            }
        }
        let after = heap();
        assert!(after < before + MAX_GROWTH, "private memory grew from {before} to {after} bytes");
    });
}

#[test]
fn random_messages_of_a_new_connection() {
    let region = RegionSpec { guest: 0x1000, user: 0x7000_0000, len: 0x10_0000, offset: 0 };
    let agreed = Cell::new(None);
    scenario::<Split>(false, cold_scripts(), 400, |stage, port, script| {
        let learned = || {
            let guest = stage.guest::<Split>();
            let (environment, connects) = (environment(&guest.front, region), stage.connects());
            drop(guest);
            stage.parted(connects);
            environment
        };
        let environment = agreed.get().unwrap_or_else(learned);
        agreed.set(Some(environment));
        cold(stage, environment, port, script);
    });
}

#[test]
fn random_messages_of_a_guest_with_split_rings() {
    scenario::<Split>(false, warm_scripts(), 150, warm::<Split>);
}

#[test]
fn random_messages_of_a_guest_with_packed_rings() {
    scenario::<Packed>(true, warm_scripts(), 150, warm::<Packed>);
}
