//! A guest whose frames flow says what it must not, or says it at the wrong time.

use crate::guest::{Guest, Limit};
use crate::rig::MTU;
use crate::stage::{Stage, ask, flow, play, tell};
use mem::RegionSpec;
use port::vhost_user::Features;
use port::vhost_user::fuzz::{event, memory};
use port::vhost_user::message::{
    Code, Header, MAX_DESCRIPTORS, Reply, Request, VringAddress, VringFile, VringState,
};
use ring::driver::{DriverRing, Packed, Split};
use rustix::fd::{AsFd, OwnedFd};

/// What becomes of the port.
enum End {
    /// The connection is ended, with a reason that says this.
    Fault(&'static str),
    /// Frames flow on.
    Flows,
    /// The rings stand still, and the port answers.
    Stands,
    /// Any of these: it depends on what lies at the wrong place.
    Any,
}

use End::{Any, Fault, Flows, Stands};

type Say<R> = fn(&mut Guest<R>);

fn state(index: u32, num: u32) -> VringState {
    VringState { index, num }
}

fn file(index: u8) -> VringFile {
    VringFile { index, has_descriptor: true }
}

/// All memory of a guest.
fn whole<R>(guest: &Guest<R>) -> RegionSpec {
    guest.memory.whole()[0].spec
}

fn table<R>(guest: &Guest<R>, regions: Vec<RegionSpec>) {
    let files = vec![guest.memory.whole()[0].file; regions.len()];
    tell(&guest.front, &Request::SetMemTable(regions), &files);
}

/// Ring `index` lies where `places` says, with its used area as far off as `used` says.
fn address<R>(guest: &Guest<R>, index: u32, places: u64, used: u64) {
    let layout = guest.memory.layout(places);
    let (descriptor, available) = (layout.descriptors, layout.driver);
    let place =
        VringAddress { index, descriptor, available, used: layout.device + used, ..Default::default() };
    tell(&guest.front, &Request::SetVringAddr(place), &[]);
}

fn rings<R: DriverRing>() -> Vec<(&'static str, Say<R>, End)> {
    vec![
        (
            "another size",
            |g| tell(&g.front, &Request::SetVringNum(state(1, 64)), &[]),
            Fault("SET_VRING_NUM came"),
        ),
        ("no size", |g| tell(&g.front, &Request::SetVringNum(state(9, 0)), &[]), Fault("ring 9 was named")),
        (
            "another base",
            |g| tell(&g.front, &Request::SetVringBase(state(0, 7)), &[]),
            Fault("SET_VRING_BASE came"),
        ),
        ("rings outside", |g| address(g, 0, 1 << 40, 0), Fault("lies outside the shared memory")),
        ("a used area astride", |g| address(g, 1, 1, 2), Fault("misaligned")),
        ("the other ring's place", |g| address(g, 1, 0, 0), Any),
        ("the next pair's place", |g| address(g, 0, 2, 0), Any),
        ("the same place", |g| address(g, 1, 1, 0), Flows),
        ("stopped twice", stop_twice, Flows),
        (
            "neither on nor off",
            |g| tell(&g.front, &Request::SetVringEnable(state(0, 2)), &[]),
            Fault("neither 0 nor 1"),
        ),
        ("on and off", flap, Flows),
        ("a log", log, Fault("a log of writes")),
    ]
}

fn stop_twice<R: DriverRing>(guest: &mut Guest<R>) {
    for index in 0..4 {
        let base = guest.front.stop_ring(index).unwrap();
        guest.step(&[0, 1]);
        assert_eq!(guest.front.stop_ring(index).unwrap(), base);
        let kick = event().unwrap();
        guest.front.set_kick(index as u8, Some(kick.as_fd())).unwrap();
        // It has no other kick now; without any, the port polls.
        guest.front.set_kick(index as u8, None).unwrap();
    }
}

fn flap<R: DriverRing>(guest: &mut Guest<R>) {
    for n in 0..200 {
        guest.front.enable(n / 2 % 4, n % 2 == 1).unwrap();
        guest.step(&[0, 1]);
    }
}

fn log<R: DriverRing>(guest: &mut Guest<R>) {
    let place = VringAddress { index: 1, flags: VringAddress::LOG, ..Default::default() };
    tell(&guest.front, &Request::SetVringAddr(place), &[]);
}

fn memories<R: DriverRing>() -> Vec<(&'static str, Say<R>, End)> {
    vec![
        ("no table", |g| table(g, vec![]), Fault("outside the shared memory")),
        (
            "a smaller table",
            |g| table(g, vec![RegionSpec { len: 4096, ..whole(g) }]),
            Fault("outside the shared"),
        ),
        ("a table twice", |g| table(g, vec![whole(g); 2]), Fault("overlap")),
        (
            "a table past the file",
            |g| table(g, vec![RegionSpec { len: 1 << 30, ..whole(g) }]),
            Fault("is refused"),
        ),
        (
            "a table of far more",
            |g| table(g, vec![RegionSpec { len: 1 << 62, ..whole(g) }]),
            Fault("TiB together"),
        ),
        ("others' memory", foreign, Any),
        ("shifted memory", |g| table(g, vec![RegionSpec { guest: whole(g).guest + 4096, ..whole(g) }]), Any),
        ("refused and told so", refused, Flows),
        (
            "no region",
            |g| tell(&g.front, &Request::RemMemReg(whole(g)), &[]),
            Fault("outside the shared memory"),
        ),
        ("a region that is not there", |g| tell(&g.front, &Request::RemMemReg(elsewhere(g)), &[]), Flows),
    ]
}

fn elsewhere<R>(guest: &Guest<R>) -> RegionSpec {
    RegionSpec { guest: 1 << 50, ..whole(guest) }
}

/// The same places, but nothing there.
fn foreign<R: DriverRing>(guest: &mut Guest<R>) {
    let empty = memory(whole(guest).len).unwrap();
    tell(&guest.front, &Request::SetMemTable(vec![whole(guest)]), &[empty.as_fd()]);
}

/// The back end says no and changes nothing.
fn refused<R: DriverRing>(guest: &mut Guest<R>) {
    let small = memory(4096).unwrap();
    let overlap = RegionSpec { guest: whole(guest).guest + 4096, ..elsewhere(guest) };
    for request in [Request::SetMemTable(vec![whole(guest)]), Request::AddMemReg(elsewhere(guest))] {
        assert_ne!(ask(&guest.front, &request, &[small.as_fd()]), Reply::U64(0), "{request:?}");
    }
    let file = guest.memory.whole()[0].file;
    assert_ne!(ask(&guest.front, &Request::AddMemReg(overlap), &[file]), Reply::U64(0));
}

fn others<R: DriverRing>() -> Vec<(&'static str, Say<R>, End)> {
    vec![
        ("other features", features, Fault("changes the features while a ring is running")),
        (
            "features never offered",
            |g| tell(&g.front, &Request::SetFeatures(u64::MAX), &[]),
            Fault("not offered"),
        ),
        ("no protocol features", |g| tell(&g.front, &Request::SetProtocolFeatures(0), &[]), Flows),
        ("the owner's reset", |g| tell(&g.front, &Request::ResetOwner, &[]), Stands),
        ("the device's reset", |g| tell(&g.front, &Request::ResetDevice, &[]), Stands),
        ("status 0", |g| tell(&g.front, &Request::SetStatus(0), &[]), Stands),
        ("every status", |g| (1..256).for_each(|n| tell(&g.front, &Request::SetStatus(n), &[])), Flows),
        ("a long status", |g| tell(&g.front, &Request::SetStatus(256), &[]), Fault("eight bits")),
        ("a flood of announcements", announce, Flows),
        (
            "an impossible address",
            |g| tell(&g.front, &Request::SendRarp([0xff; 6]), &[]),
            Fault("no guest can have"),
        ),
        ("an MTU", |g| tell(&g.front, &Request::NetSetMtu(MTU.into()), &[]), Flows),
        (
            "a larger MTU",
            |g| tell(&g.front, &Request::NetSetMtu(u64::from(MTU) + 1), &[]),
            Fault("NET_SET_MTU asks"),
        ),
        (
            "memory to kick by",
            |g| by(g, &Request::SetVringKick(file(1))),
            Fault("the kick descriptor is not usable"),
        ),
        (
            "memory to call by",
            |g| by(g, &Request::SetVringCall(file(0))),
            Fault("the call descriptor is not usable"),
        ),
        ("memory to complain by", |g| by(g, &Request::SetVringErr(file(0))), Flows),
        ("nobody's kick", |g| by(g, &Request::SetVringKick(file(77))), Fault("not usable")),
        ("a channel for the back end", channel, Fault("SET_BACKEND_REQ_FD belongs to a feature")),
        ("too many descriptors", too_many, Fault("descriptors")),
        ("an answer", answer_back, Fault("carries the flags")),
    ]
}

fn features<R: DriverRing>(guest: &mut Guest<R>) {
    let fewer = guest.front.negotiated().features.0 & !Features::MQ;
    tell(&guest.front, &Request::SetFeatures(fewer), &[]);
}

fn announce<R: DriverRing>(guest: &mut Guest<R>) {
    for n in 0..2_000u32 {
        let [a, b, c, d] = n.to_le_bytes();
        tell(&guest.front, &Request::SendRarp([2, 9, a, b, c, d]), &[]);
        if n % 50 == 0 {
            guest.step(&[0, 1]);
        }
    }
}

fn by<R: DriverRing>(guest: &mut Guest<R>, request: &Request) {
    tell(&guest.front, request, &[memory(64).unwrap().as_fd()]);
}

fn channel<R: DriverRing>(guest: &mut Guest<R>) {
    let bytes = Header::request(Code::SetBackendReqFd, true, 0).encode();
    let _ = port::vhost_user::fuzz::send(guest.front.as_fd(), &bytes, &[event().unwrap().as_fd()]);
}

fn too_many<R: DriverRing>(guest: &mut Guest<R>) {
    let files: Vec<OwnedFd> = (0..=MAX_DESCRIPTORS).map(|_| event().unwrap()).collect();
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    tell(&guest.front, &Request::SetVringCall(file(0)), &files);
}

fn answer_back<R: DriverRing>(guest: &mut Guest<R>) {
    let bytes = Reply::U64(0).encode(Code::SetFeatures);
    let _ = port::vhost_user::fuzz::send(guest.front.as_fd(), &bytes, &[]);
}

/// One misstep, and what follows from it.
fn misstep<R: DriverRing>(stage: &Stage<'_>, name: &str, say: Say<R>, end: &End) {
    let mut guest = stage.guest::<R>();
    let connects = stage.connects();
    say(&mut guest);
    match end {
        Fault(_) => {
            let limit = Limit::new();
            while !guest.front.is_closed() {
                limit.check(name);
                guest.step(&[0, 1]);
            }
        }
        Flows => flow(&mut guest),
        Stands => assert!(matches!(ask(&guest.front, &Request::GetQueueNum, &[]), Reply::U64(2)), "{name}"),
        Any => (0..50).for_each(|_| {
            guest.step(&[0, 1]);
            std::thread::yield_now();
        }),
    }
    stage.calm.go_on(10);
    drop(guest);
    let fault = stage.parted(connects);
    match (end, &fault) {
        (Fault(text), Some(fault)) => assert!(fault.contains(text), "{name}: {fault}"),
        (Any, _) | (Flows | Stands, None) => {}
        _ => panic!("{name}: {fault:?}"),
    }
    stage.recover::<R>();
}

fn story<R: DriverRing>(packed: bool, missteps: Vec<(&'static str, Say<R>, End)>) {
    play::<R>(packed, |stage| {
        for (name, say, end) in missteps {
            misstep(stage, name, say, &end);
        }
    });
}

#[test]
fn messages_about_running_split_rings() {
    story::<Split>(false, rings());
}

#[test]
fn messages_about_running_packed_rings() {
    story::<Packed>(true, rings());
}

#[test]
fn messages_about_memory_in_use_by_split_rings() {
    story::<Split>(false, memories());
}

#[test]
fn messages_about_memory_in_use_by_packed_rings() {
    story::<Packed>(true, memories());
}

#[test]
fn messages_out_of_place_beside_split_rings() {
    story::<Split>(false, others());
}

#[test]
fn messages_out_of_place_beside_packed_rings() {
    story::<Packed>(true, others());
}
