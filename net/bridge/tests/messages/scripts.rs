//! Any messages in any order, from a new connection and from a guest in the middle of its frames.
//!
//! The scripts are those of the fuzz target (`dataplane/port/src/vhost_user/fuzz`), out of a generator of numbers whose seed is
//! told when a scenario fails; `SEED` in the environment plays another one.

use crate::stage::{Stage, play};
use mem::RegionSpec;
use port::PortId;
use port::vhost::message::{Code, Header, Reply};
use port::vhost_user::fuzz::{Ground, Script};
use port::virtio_user::FrontEnd;
use ring::driver::{DriverRing, Packed, Split};
use rustix::fd::AsFd;
use rustix::net::RecvFlags;
use std::cell::Cell;

/// Scripts for new connections.
const COLD: u64 = 1_500;
/// Scripts of guests whose frames flow, for each kind of ring.
const WARM: u64 = 250;
/// After so many scripts a guest that behaves has a turn.
const TURN: u64 = 50;

/// What memory may grow by over a scenario, in bytes: far less than if every script left a queue behind.
const GROWTH: u64 = 8 << 20;

/// What a named reason begins with.
const REASONS: [&str; 4] = [
    "the front end broke the vhost-user protocol: ",
    "the guest broke its virtqueue: ",
    "the kick descriptor is not usable: ",
    "the call descriptor is not usable: ",
];
const OUTSIDE: &str = "of a virtqueue lies outside the shared memory or is misaligned";

/// Where the seeds begin.
fn seed() -> u64 {
    std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// Up to `most` bytes that look random (xorshift).
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

/// Says which script it was, when a scenario fails.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to play this script first, set SEED={}", self.0);
        }
    }
}

/// What the back end said, which must be whole answers, and the connection's end if it has come.
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

/// Says all of a script, and does `meanwhile` between its messages.
fn speak(front: &impl AsFd, script: &[u8], ground: Ground<'_>, mut meanwhile: impl FnMut()) {
    let (mut script, mut heard) = (Script::new(script, ground), Vec::new());
    while !script.is_over() && script.send(front.as_fd()).is_ok() {
        meanwhile();
        listen(front, &mut heard);
    }
    check_answers(&heard);
}

/// Waits until the port `bad` is done with its last peer. A port that would rest before the next one is made anew.
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

fn ground(front: &FrontEnd, region: RegionSpec) -> Ground<'static> {
    let agreed = front.negotiated();
    Ground { region, file: None, features: agreed.features.0, protocol: agreed.protocol.0 }
}

/// A peer connects, sends anything and leaves.
fn cold(stage: &Stage<'_>, ground: Ground<'_>, port: &mut PortId, script: &[u8]) {
    let connects = stage.connects() + 1;
    let front = stage.connection();
    speak(&front, script, ground, || {});
    drop(front);
    part(stage, port, connects);
}

/// A guest whose frames flow says anything in the middle of them.
fn warm<R: DriverRing>(stage: &Stage<'_>, port: &mut PortId, script: &[u8]) {
    let mut guest = stage.guest::<R>();
    let connects = stage.connects();
    let memory = guest.memory.whole()[0];
    let file = memory.file.try_clone_to_owned().unwrap();
    let ground = Ground { file: Some(file.as_fd()), ..ground(&guest.front, memory.spec) };
    let mouth = guest.front.as_fd().try_clone_to_owned().unwrap();
    let mut step = || {
        guest.step(&[0, 1]);
        stage.calm.go_on(1);
    };
    speak(&mouth, script, ground, &mut step);
    (0..5).for_each(|_| step());
    drop((guest, mouth, file));
    part(stage, port, connects);
}

/// Plays `scripts` scripts of up to `most` bytes.
fn scenario<R: DriverRing>(
    packed: bool,
    scripts: u64,
    most: u64,
    say: impl Fn(&Stage<'_>, &mut PortId, &[u8]),
) {
    play::<R>(packed, |stage| {
        let mut port = PortId(stage.calm.rig.port("bad").unwrap().id);
        let mut before = 0;
        for n in 0..scripts {
            let seed = seed() + n;
            let _told = Told(seed);
            say(stage, &mut port, &bytes(seed, most));
            if n % TURN == 0 {
                stage.recover::<R>();
            }
            if n == TURN {
                before = heap();
            }
        }
        let after = heap();
        assert!(after < before + GROWTH, "private memory grew from {before} to {after} bytes");
    });
}

#[test]
fn any_messages_of_somebody_who_has_just_come() {
    let region = RegionSpec { guest: 0x1000, user: 0x7000_0000, len: 0x10_0000, offset: 0 };
    let agreed = Cell::new(None);
    scenario::<Split>(false, COLD, 400, |stage, port, script| {
        let learned = || {
            let guest = stage.guest::<Split>();
            let (ground, connects) = (ground(&guest.front, region), stage.connects());
            drop(guest);
            stage.parted(connects);
            ground
        };
        let ground = agreed.get().unwrap_or_else(learned);
        agreed.set(Some(ground));
        cold(stage, ground, port, script);
    });
}

#[test]
fn any_messages_of_a_guest_with_split_rings() {
    scenario::<Split>(false, WARM, 150, warm::<Split>);
}

#[test]
fn any_messages_of_a_guest_with_packed_rings() {
    scenario::<Packed>(true, WARM, 150, warm::<Packed>);
}
