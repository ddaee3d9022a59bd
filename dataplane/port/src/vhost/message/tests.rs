use super::*;
use mem::RegionSpec;
use proptest::prelude::*;

fn region() -> impl Strategy<Value = RegionSpec> {
    any::<(u64, u64, u64, u64)>().prop_map(|(guest, user, len, offset)| RegionSpec {
        guest,
        user,
        len,
        offset,
    })
}

fn state() -> impl Strategy<Value = VringState> {
    any::<(u32, u32)>().prop_map(|(index, num)| VringState { index, num })
}

fn file() -> impl Strategy<Value = VringFile> {
    any::<(u8, bool)>().prop_map(|(index, has_descriptor)| VringFile { index, has_descriptor })
}

fn address() -> impl Strategy<Value = VringAddress> {
    any::<(u32, u32, u64, u64, u64, u64)>().prop_map(|(index, flags, descriptor, used, available, log)| {
        VringAddress { index, flags, descriptor, used, available, log }
    })
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        Just(Request::GetFeatures),
        any::<u64>().prop_map(Request::SetFeatures),
        Just(Request::SetOwner),
        Just(Request::ResetOwner),
        prop::collection::vec(region(), 0..=MAX_TABLE).prop_map(Request::SetMemTable),
        state().prop_map(Request::SetVringNum),
        address().prop_map(Request::SetVringAddr),
        any::<(u64, u64)>().prop_map(|(len, offset)| Request::SetLogBase(LogArea { len, offset })),
        state().prop_map(Request::SetVringBase),
        any::<u32>().prop_map(Request::GetVringBase),
        file().prop_map(Request::SetVringKick),
        file().prop_map(Request::SetVringCall),
        file().prop_map(Request::SetVringErr),
        Just(Request::GetProtocolFeatures),
        any::<u64>().prop_map(Request::SetProtocolFeatures),
        Just(Request::GetQueueNum),
        state().prop_map(Request::SetVringEnable),
        any::<[u8; 6]>().prop_map(Request::SendRarp),
        any::<u64>().prop_map(Request::NetSetMtu),
        Just(Request::ResetDevice),
        Just(Request::GetMaxMemSlots),
        region().prop_map(Request::AddMemReg),
        region().prop_map(Request::RemMemReg),
        any::<u64>().prop_map(Request::SetStatus),
        Just(Request::GetStatus),
        any::<(u32, u32)>()
            .prop_map(|(direction, phase)| Request::SetDeviceStateFd(StateTransfer { direction, phase })),
        Just(Request::CheckDeviceState),
    ]
}

fn split(bytes: &[u8]) -> (Header, &[u8]) {
    let (header, payload) = bytes.split_at(Header::BYTES);
    (Header::decode(header.try_into().unwrap()).unwrap(), payload)
}

proptest! {
    #[test]
    fn requests_round_trip(request in request(), need_reply: bool) {
        let bytes = request.encode(need_reply);
        let (header, payload) = split(&bytes);
        prop_assert_eq!(header, Header::request(request.code(), need_reply, payload.len() as u32));
        prop_assert!(header.expect_request().is_ok());
        prop_assert!(payload.len() <= MAX_PAYLOAD);
        prop_assert_eq!(Request::decode(header, payload, request.descriptors()), Ok(request));
    }

    #[test]
    fn wrong_descriptor_count_is_rejected(request in request(), n in 0..=MAX_DESCRIPTORS) {
        let bytes = request.encode(false);
        let (header, payload) = split(&bytes);
        let stray = request.code() == Code::RemMemReg && n == 1;
        prop_assert_eq!(
            Request::decode(header, payload, n).is_ok(),
            n == request.descriptors() || stray
        );
    }

    #[test]
    fn payload_of_wrong_length_is_rejected(request in request(), extra in 1usize..64, cut: bool) {
        let bytes = request.encode(false);
        let (header, payload) = split(&bytes);
        let mut payload = payload.to_vec();
        if cut && !payload.is_empty() {
            payload.truncate(payload.len() - extra.min(payload.len()));
        } else {
            payload.resize(payload.len() + extra, 0);
        }
        prop_assert!(Request::decode(header, &payload, request.descriptors()).is_err());
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(header: [u8; 12], payload in prop::collection::vec(any::<u8>(), 0..400), n in 0usize..20) {
        if let Ok(header) = Header::decode(header) {
            let _ = header.expect_request();
            let _ = Request::decode(header, &payload, n);
            let _ = Reply::decode(header.code, &payload);
        }
    }
}

#[test]
fn replies_round_trip() {
    let base = Reply::State(VringState { index: 1, num: 0x8000_8000 });
    for (code, reply) in [(Code::GetVringBase, base), (Code::GetFeatures, Reply::U64(7))] {
        let bytes = reply.encode(code);
        let (header, payload) = split(&bytes);
        assert!(header.reply && header.code == code);
        assert!(header.expect_request().is_err(), "a back end takes no replies");
        assert_eq!(Reply::decode(code, payload), Ok(reply));
        assert!(Reply::decode(code, &payload[1..]).is_err());
    }
}

#[test]
fn request_numbers_and_names_agree() {
    for &code in Code::ALL {
        assert_eq!(Code::from_number(code as u32), Some(code));
    }
    assert_eq!(Code::from_number(0), None);
    assert_eq!(Code::from_number(44), None);
    let unknown = [0xffu8; 12];
    assert!(matches!(Header::decode(unknown), Err(MessageError::UnknownRequest(u32::MAX))));
}

#[test]
fn encoding_matches_the_specification() {
    let bytes = Request::SetVringKick(VringFile { index: 3, has_descriptor: false }).encode(true);
    let mut expected = Vec::new();
    for word in [12u32, 0b1001, 8] {
        expected.extend_from_slice(&word.to_ne_bytes());
    }
    expected.extend_from_slice(&0x103u64.to_ne_bytes());
    assert_eq!(bytes, expected);
}

#[test]
fn wrong_version_or_flag_is_rejected() {
    let good = Header::request(Code::GetFeatures, false, 0).encode();
    for flags in [0u32, 2, 3, 0x11, 1 << 31 | 1] {
        let mut bytes = good;
        bytes[4..8].copy_from_slice(&flags.to_ne_bytes());
        assert!(matches!(Header::decode(bytes), Err(MessageError::Flags("GET_FEATURES", f)) if f == flags));
    }
}

#[test]
fn table_with_mismatching_size_is_rejected() {
    let region = RegionSpec { guest: 0, user: 0, len: 1, offset: 0 };
    let bytes = Request::SetMemTable(vec![region; 2]).encode(false);
    let (header, payload) = split(&bytes);
    let mut payload = payload.to_vec();
    payload[..4].copy_from_slice(&3u32.to_ne_bytes());
    assert!(matches!(Request::decode(header, &payload, 3), Err(MessageError::Size { .. })));
    payload[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
    assert!(matches!(Request::decode(header, &payload, 2), Err(MessageError::TooManyRegions(u32::MAX))));
}

#[test]
fn feature_bits_match_the_kernel_headers() {
    use crate::vhost::Features;
    use virtio_bindings::{virtio_config as config, virtio_net as net, virtio_ring as ring};
    for (ours, theirs) in [
        (Features::NET_MTU, net::VIRTIO_NET_F_MTU),
        (Features::MRG_RXBUF, net::VIRTIO_NET_F_MRG_RXBUF),
        (Features::STATUS, net::VIRTIO_NET_F_STATUS),
        (Features::GUEST_ANNOUNCE, net::VIRTIO_NET_F_GUEST_ANNOUNCE),
        (Features::MQ, net::VIRTIO_NET_F_MQ),
        (Features::ANY_LAYOUT, config::VIRTIO_F_ANY_LAYOUT),
        (Features::INDIRECT_DESC, ring::VIRTIO_RING_F_INDIRECT_DESC),
        (Features::EVENT_IDX, ring::VIRTIO_RING_F_EVENT_IDX),
        (Features::VERSION_1, config::VIRTIO_F_VERSION_1),
        (Features::RING_PACKED, config::VIRTIO_F_RING_PACKED),
        (Features::IN_ORDER, config::VIRTIO_F_IN_ORDER),
    ] {
        assert_eq!(ours, 1 << theirs);
    }
}
