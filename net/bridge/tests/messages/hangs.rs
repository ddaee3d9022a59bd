//! A front end stalls in the middle of a message, or stops reading replies, while its rings carry frames.

use crate::guest::Limit;
use crate::stage::{Stage, answer, ask, flow, play};
use port::vhost::message::{Header, Reply, Request, VringFile};
use port::vhost_user::fuzz::{event, send};
use ring::driver::{DriverRing, Packed, Split};
use rustix::fd::AsFd;

/// A message with a reply, a header, a payload and a descriptor.
fn message() -> (Request, Vec<u8>) {
    let request = Request::SetVringErr(VringFile { index: 0, has_descriptor: true });
    let bytes = request.encode(true);
    (request, bytes)
}

/// Sends the first `pause` bytes, lets frames flow for a while, and sends the rest or disconnects.
fn pause<R: DriverRing>(stage: &Stage<'_>, pause: usize, continues: bool) {
    let mut guest = stage.guest::<R>();
    let connects = stage.connects();
    let (request, bytes) = message();
    let (first, rest) = bytes.split_at(pause);
    send(guest.front.as_fd(), first, &[]).unwrap();
    for _ in 0..5 {
        flow(&mut guest);
        stage.calm.go_on(20);
    }
    if continues {
        send(guest.front.as_fd(), rest, &[event().unwrap().as_fd()]).unwrap();
        assert_eq!(answer(&guest.front, &request), Reply::U64(0), "after {pause} bytes");
        flow(&mut guest);
    }
    drop(guest);
    assert_eq!(stage.parted(connects), None, "after {pause} bytes");
    stage.recover::<R>();
}

fn pauses<R: DriverRing>(packed: bool) {
    let whole = message().1.len();
    play::<R>(packed, |stage| {
        for at in [1, Header::BYTES / 2, Header::BYTES - 1, Header::BYTES, Header::BYTES + 1, whole - 1] {
            pause::<R>(stage, at, true);
            pause::<R>(stage, at, false);
        }
    });
}

#[test]
fn partial_message_blocks_no_other_port() {
    pauses::<Split>(false);
    pauses::<Packed>(true);
}

/// Sends requests without reading replies until the port ends the connection.
fn deaf<R: DriverRing>(stage: &Stage<'_>) {
    let mut guest = stage.guest::<R>();
    let (connects, limit) = (stage.connects(), Limit::new());
    let question = Request::GetFeatures.encode(false);
    for n in 0.. {
        limit.check("the end of a connection whose answers are not read");
        if send(guest.front.as_fd(), &question, &[]).is_err() {
            break;
        }
        if n % 20 == 0 {
            guest.step(&[0, 1]);
        }
    }
    stage.calm.go_on(20);
    drop(guest);
    let fault = stage.parted(connects).unwrap();
    assert!(fault.contains("it does not read its answers"), "{fault}");
    stage.recover::<R>();
}

/// Sends requests, leaves the replies unread while frames flow, then reads all of them.
fn late<R: DriverRing>(stage: &Stage<'_>) {
    const QUESTIONS: usize = 100;
    let mut guest = stage.guest::<R>();
    let connects = stage.connects();
    send(guest.front.as_fd(), &Request::GetQueueNum.encode(false).repeat(QUESTIONS), &[]).unwrap();
    for _ in 0..5 {
        flow(&mut guest);
        stage.calm.go_on(20);
    }
    for _ in 0..QUESTIONS {
        assert_eq!(answer(&guest.front, &Request::GetQueueNum), Reply::U64(2));
    }
    flow(&mut guest);
    drop(guest);
    assert_eq!(stage.parted(connects), None);
    stage.recover::<R>();
}

#[test]
fn unread_replies_block_no_other_port() {
    play::<Split>(false, |stage| {
        deaf::<Split>(stage);
        late::<Split>(stage);
    });
    play::<Packed>(true, |stage| {
        deaf::<Packed>(stage);
        late::<Packed>(stage);
    });
}

#[test]
fn silent_front_end_blocks_its_own_port_only() {
    play::<Split>(false, |stage| {
        for _ in 0..5 {
            let connects = stage.connects();
            let silent = stage.connection();
            stage.calm.rig.wait("bad", "the silent connection", |port| port.connects == connects + 1);
            let second = stage.connection();
            let limit = Limit::new();
            while !second.is_closed() {
                limit.check("the end of the second connection");
                stage.calm.go_on(1);
            }
            drop(second);
            stage.calm.go_on(500);
            assert_eq!(
                ask(&silent, &Request::GetQueueNum, &[]),
                Reply::U64(2),
                "the silent connection is still served"
            );
            drop(silent);
            assert_eq!(stage.parted(connects + 1), None);
            stage.recover::<Split>();
        }
    });
}
