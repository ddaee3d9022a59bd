use super::*;
use crate::socket::rights;
use crate::vhost::message::{Code, Header, Reply, Request, VringState};
use crate::vhost::wire::Channel;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(20);

fn pair() -> (FrontEnd, OwnedFd) {
    let (front, back) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    (FrontEnd::over(front, SHORT).unwrap(), back)
}

fn answer(back: &OwnedFd, code: Code, reply: Reply) {
    rights::send(back.as_fd(), &reply.encode(code), &[]).unwrap();
}

#[test]
fn timeout_names_the_request() {
    let (mut front, _back) = pair();
    let error = front.negotiate(Features(0)).unwrap_err();
    assert!(matches!(error, FrontEndError::Timeout("GET_FEATURES")), "{error}");
}

#[test]
fn back_end_disconnect_is_detected() {
    let (mut front, back) = pair();
    assert!(!front.is_closed());
    drop(back);
    assert!(front.is_closed());
    let error = front.negotiate(Features(0)).unwrap_err();
    assert!(matches!(error, FrontEndError::Closed(_)), "{error}");
}

#[test]
fn reply_to_another_request_is_rejected() {
    let (mut front, back) = pair();
    answer(&back, Code::GetQueueNum, Reply::U64(1));
    let error = front.negotiate(Features(0)).unwrap_err();
    assert!(
        matches!(error, FrontEndError::WrongAnswer { asked: "GET_FEATURES", got: "GET_QUEUE_NUM" }),
        "{error}"
    );
}

#[test]
fn request_in_place_of_a_reply_is_rejected() {
    let (mut front, back) = pair();
    rights::send(back.as_fd(), &Request::GetFeatures.encode(false), &[]).unwrap();
    let error = front.negotiate(Features(0)).unwrap_err();
    assert!(matches!(error, FrontEndError::Message(_)), "{error}");
}

#[test]
fn back_end_without_protocol_features_gets_no_further_requests() {
    let (mut front, back) = pair();
    answer(&back, Code::GetFeatures, Reply::U64(Features::VERSION_1 | Features::MRG_RXBUF));
    let agreed = front.negotiate(Features(Features::VERSION_1 | Features::IN_ORDER)).unwrap();
    assert_eq!(agreed.features, Features(Features::VERSION_1));
    assert_eq!((agreed.queue_pairs, agreed.memory_slots), (1, 8));
    front.enable(0, true).unwrap();
    assert!(matches!(front.announce([2; 6]), Err(FrontEndError::NotNegotiated("SEND_RARP", "RARP"))));
    let mut sent = Channel::new(back, Header::expect_request);
    for code in [Code::SetOwner, Code::GetFeatures, Code::SetFeatures] {
        assert_eq!(
            sent.receive().unwrap().unwrap().header,
            Header::request(
                code,
                false,
                match code {
                    Code::SetFeatures => 8,
                    _ => 0,
                }
            )
        );
    }
}

#[test]
fn acknowledged_failure_is_named() {
    let (mut front, back) = pair();
    front.negotiated.protocol = ProtocolFeatures(ProtocolFeatures::REPLY_ACK | ProtocolFeatures::NET_MTU);
    answer(&back, Code::NetSetMtu, Reply::U64(1));
    assert!(matches!(front.set_mtu(1), Err(FrontEndError::Refused("NET_SET_MTU"))));
}

#[test]
fn partial_packed_base_is_completed() {
    let (mut front, back) = pair();
    front.negotiated.features = Features(Features::RING_PACKED);
    answer(&back, Code::GetVringBase, Reply::State(VringState { index: 0, num: 0x8012 }));
    assert_eq!(front.stop_ring(0).unwrap(), 0x8012_8012);
    assert_eq!(front.fresh_base(), 0x8000_8000);
}

#[test]
fn connect_and_accept_fail_without_a_peer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    assert!(matches!(FrontEnd::connect(&path, SHORT), Err(FrontEndError::NoBackEnd(..))));
    let listener = FrontEndListener::bind(&path).unwrap();
    assert!(matches!(listener.accept(SHORT), Err(FrontEndError::AcceptTimeout(_))));
}
