//! A guest with running traffic sends invalid messages, or valid ones at the wrong time.

use crate::guest::{Guest, Limit};
use crate::rig::MTU;
use crate::stage::{Stage, ask, flow, play, tell};
use mem::RegionSpec;
use port::vhost::Features;
use port::vhost::message::{
    Code, Header, MAX_DESCRIPTORS, Reply, Request, VringAddress, VringFile, VringState,
};
use port::vhost_user::fuzz::{event, memory};
use ring::driver::{DriverRing, Packed, Split};
use rustix::fd::{AsFd, OwnedFd};

/// Expected result.
enum End {
    /// The connection ends; the reason contains this text.
    Fault(&'static str),
    /// Frames continue to flow.
    Flows,
    /// The rings stop; the port still replies.
    Stands,
    /// Any of these; depends on the memory content at the wrong address.
    Any,
}

use End::{Any, Fault, Flows, Stands};

/// Action of the guest.
enum Action<R> {
    /// Sends this message.
    This(Request),
    /// Sends this message with a memory descriptor instead of an eventfd.
    Odd(Request),
    /// Runs this function.
    Do(fn(&mut Guest<R>)),
}

use Action::{Do, Odd, This};

type ProtocolError<R> = (&'static str, Action<R>, End);

impl<R: DriverRing> Action<R> {
    fn perform(self, guest: &mut Guest<R>) {
        match self {
            This(request) => tell(&guest.front, &request, &[]),
            Odd(request) => tell(&guest.front, &request, &[memory(64).unwrap().as_fd()]),
            Do(act) => act(guest),
        }
    }
}

fn state(index: u32, num: u32) -> VringState {
    VringState { index, num }
}

fn file(index: u8) -> VringFile {
    VringFile { index, has_descriptor: true }
}

/// The whole guest memory as one region.
fn whole<R>(guest: &Guest<R>) -> RegionSpec {
    guest.memory.whole()[0].spec
}

fn table<R>(guest: &Guest<R>, regions: Vec<RegionSpec>) {
    let files = vec![guest.memory.whole()[0].file; regions.len()];
    tell(&guest.front, &Request::SetMemTable(regions), &files);
}

/// Sets the addresses of ring `index` to the layout of ring `places`, with the used ring offset by `used`.
fn address<R>(guest: &Guest<R>, index: u32, places: u64, used: u64) {
    let layout = guest.memory.layout(places);
    let (descriptor, available) = (layout.descriptors, layout.driver);
    let place =
        VringAddress { index, descriptor, available, used: layout.device + used, ..Default::default() };
    tell(&guest.front, &Request::SetVringAddr(place), &[]);
}

fn rings<R: DriverRing>() -> Vec<ProtocolError<R>> {
    vec![
        ("another size", This(Request::SetVringNum(state(1, 64))), Fault("SET_VRING_NUM came")),
        ("a ring too many", This(Request::SetVringNum(state(9, 64))), Fault("ring 9 was named")),
        ("another base", This(Request::SetVringBase(state(0, 7))), Fault("SET_VRING_BASE came")),
        ("rings outside", Do(|g| address(g, 0, 1 << 40, 0)), Fault("lies outside the shared memory")),
        ("a used area astride", Do(|g| address(g, 1, 1, 2)), Fault("misaligned")),
        ("the other ring's place", Do(|g| address(g, 1, 0, 0)), Any),
        ("the next pair's place", Do(|g| address(g, 0, 2, 0)), Any),
        ("the same place", Do(|g| address(g, 1, 1, 0)), Flows),
        ("stopped twice", Do(stop_twice), Flows),
        (
            "neither on nor off",
            This(Request::SetVringEnable(state(0, 2))),
            Fault("invalid value 2 in SET_VRING_ENABLE"),
        ),
        ("on and off", Do(flap), Flows),
        ("a log", Do(log), Fault("a log of writes")),
    ]
}

fn stop_twice<R: DriverRing>(guest: &mut Guest<R>) {
    for index in 0..4 {
        let base = guest.front.stop_ring(index).unwrap();
        guest.step(&[0, 1]);
        assert_eq!(guest.front.stop_ring(index).unwrap(), base);
        let kick = event().unwrap();
        guest.front.set_kick(index as u8, Some(kick.as_fd())).unwrap();
        // Removes the kick descriptor; without one, the port polls.
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

fn memories<R: DriverRing>() -> Vec<ProtocolError<R>> {
    vec![
        ("no table", Do(|g| table(g, vec![])), Fault("outside the shared memory")),
        ("a smaller table", Do(|g| table(g, vec![long(g, 4096)])), Fault("outside the shared memory")),
        ("a table twice", Do(|g| table(g, vec![whole(g); 2])), Fault("overlap")),
        ("a table past the file", Do(|g| table(g, vec![long(g, 1 << 30)])), Fault("is refused")),
        ("a table of far more", Do(|g| table(g, vec![long(g, 1 << 62)])), Fault("MiB together")),
        ("others' memory", Do(foreign), Any),
        ("shifted memory", Do(shifted), Any),
        ("refused and told so", Do(refused), Flows),
        (
            "no region",
            Do(|g| tell(&g.front, &Request::RemMemReg(whole(g)), &[])),
            Fault("outside the shared"),
        ),
        ("an unknown region", Do(|g| tell(&g.front, &Request::RemMemReg(elsewhere(g)), &[])), Flows),
    ]
}

/// The same start address with another length.
fn long<R>(guest: &Guest<R>, len: u64) -> RegionSpec {
    RegionSpec { len, ..whole(guest) }
}

/// The same memory at other guest addresses, so that descriptors refer to other buffers.
fn shifted<R>(guest: &mut Guest<R>) {
    table(guest, vec![RegionSpec { guest: whole(guest).guest + 4096, ..whole(guest) }]);
}

fn elsewhere<R>(guest: &Guest<R>) -> RegionSpec {
    RegionSpec { guest: 1 << 50, ..whole(guest) }
}

/// The same addresses backed by empty memory.
fn foreign<R: DriverRing>(guest: &mut Guest<R>) {
    let empty = memory(whole(guest).len).unwrap();
    tell(&guest.front, &Request::SetMemTable(vec![whole(guest)]), &[empty.as_fd()]);
}

/// The back end rejects these requests and changes nothing.
fn refused<R: DriverRing>(guest: &mut Guest<R>) {
    let small = memory(4096).unwrap();
    let overlap = RegionSpec { guest: whole(guest).guest + 4096, ..elsewhere(guest) };
    for request in [Request::SetMemTable(vec![whole(guest)]), Request::AddMemReg(elsewhere(guest))] {
        assert_ne!(ask(&guest.front, &request, &[small.as_fd()]), Reply::U64(0), "{request:?}");
    }
    let file = guest.memory.whole()[0].file;
    assert_ne!(ask(&guest.front, &Request::AddMemReg(overlap), &[file]), Reply::U64(0));
}

fn others<R: DriverRing>() -> Vec<ProtocolError<R>> {
    vec![
        ("other features", Do(features), Fault("changes the features while a ring is running")),
        ("features never offered", This(Request::SetFeatures(u64::MAX)), Fault("not offered")),
        ("no protocol features", This(Request::SetProtocolFeatures(0)), Flows),
        ("the owner's reset", This(Request::ResetOwner), Stands),
        ("the owner's reset, and kicks", Do(kick_again), Flows),
        ("the device's reset", This(Request::ResetDevice), Stands),
        ("status 0", This(Request::SetStatus(0)), Stands),
        ("every status", Do(statuses), Flows),
        ("a long status", This(Request::SetStatus(256)), Fault("eight bits")),
        ("a flood of announcements", Do(announce), Flows),
        ("an impossible address", This(Request::SendRarp([0xff; 6])), Fault("no guest can have")),
        ("an MTU", This(Request::NetSetMtu(MTU.into())), Flows),
        ("a larger MTU", This(Request::NetSetMtu(u64::from(MTU) + 1)), Fault("NET_SET_MTU asks")),
        (
            "memory to kick by",
            Odd(Request::SetVringKick(file(1))),
            Fault("the kick descriptor is not usable"),
        ),
        (
            "memory to call by",
            Odd(Request::SetVringCall(file(0))),
            Fault("the call descriptor is not usable"),
        ),
        ("memory to complain by", Odd(Request::SetVringErr(file(0))), Flows),
        ("a kick of another descriptor", Odd(Request::SetVringKick(file(77))), Fault("not usable")),
        (
            "a call without descriptor",
            This(Request::SetVringCall(file(0))),
            Fault("0 descriptors instead of 1"),
        ),
        ("too many descriptors", Do(too_many), Fault("more than 8 descriptors")),
        ("a channel for the back end", Do(channel), Fault("SET_BACKEND_REQ_FD belongs to a feature")),
        ("an answer", Do(answer_back), Fault("carries the flags")),
    ]
}

/// Rings that were reset restart with a kick, or with the message that there is no kick descriptor.
fn kick_again<R: DriverRing>(guest: &mut Guest<R>) {
    tell(&guest.front, &Request::ResetOwner, &[]);
    guest.step(&[0, 1]);
    (0..4).for_each(|index| guest.front.set_kick(index, None).unwrap());
}

fn statuses<R: DriverRing>(guest: &mut Guest<R>) {
    (1..256).for_each(|status| tell(&guest.front, &Request::SetStatus(status), &[]));
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

/// Performs one action and checks its result.
fn misstep<R: DriverRing>(stage: &Stage<'_>, (name, perform, end): ProtocolError<R>) {
    let mut guest = stage.guest::<R>();
    let connects = stage.connects();
    perform.perform(&mut guest);
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

fn scenario<R: DriverRing>(packed: bool, missteps: Vec<ProtocolError<R>>) {
    play::<R>(packed, |stage| missteps.into_iter().for_each(|one| misstep(stage, one)));
}

#[test]
fn messages_about_running_split_rings() {
    scenario::<Split>(false, rings());
}

#[test]
fn messages_about_running_packed_rings() {
    scenario::<Packed>(true, rings());
}

#[test]
fn messages_about_memory_in_use_by_split_rings() {
    scenario::<Split>(false, memories());
}

#[test]
fn messages_about_memory_in_use_by_packed_rings() {
    scenario::<Packed>(true, memories());
}

#[test]
#[ignore = "slow; run by `cargo xtask test --all`"]
fn messages_out_of_place_beside_split_rings() {
    scenario::<Split>(false, others());
}

#[test]
fn messages_out_of_place_beside_packed_rings() {
    scenario::<Packed>(true, others());
}
