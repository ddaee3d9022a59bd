use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn ring_starts_once_complete_in_any_order(
        order in Just(ring_messages(3, 0)).prop_shuffle(),
    ) {
        let mut bench = Bench::negotiated(SPLIT);
        let mut needed = 4; // size, address, kick, enable
        for request in order {
            needed -= usize::from(!matches!(request, Request::SetVringBase(_) | Request::SetVringCall(_)));
            if needed == 0 && matches!(request, Request::SetVringBase(_)) {
                // The ring runs already, so this is the one message that is too late.
                prop_assert!(bench.fails(&request).contains("while it was running"));
                return Ok(());
            }
            bench.accepts(&request);
            prop_assert_eq!(bench.runs(3), needed == 0);
        }
        prop_assert!(!bench.runs(2), "the other ring of the pair is stopped");
    }
}

#[test]
fn rings_start_when_the_driver_is_ready() {
    let mut bench = Bench::negotiated(SPLIT);
    bench.accepts(&Request::SetStatus(0));
    bench.accepts_all((0..2).flat_map(|index| ring_messages(index, 0)));
    bench.accepts(&Request::SetStatus(DRIVER_OK & !4));
    assert!(!bench.runs(0) && !bench.runs(1));
    bench.accepts(&Request::SetStatus(DRIVER_OK));
    assert!(bench.runs(0) && bench.runs(1));
    // A driver that withdraws it keeps its running rings.
    bench.accepts(&Request::SetStatus(DRIVER_OK & !4));
    bench.accepts(&Request::SetVringCall(file(0)));
    assert!(bench.runs(0));
}

#[test]
fn rings_start_without_a_status_if_it_was_not_negotiated() {
    let mut bench = Bench::new();
    bench.accepts(&Request::SetProtocolFeatures(PROTOCOL & !ProtocolFeatures::STATUS));
    bench.accepts(&Request::SetFeatures(SPLIT));
    bench.accepts(&Request::SetMemTable(vec![REGION]));
    bench.accepts_all(ring_messages(0, 0));
    assert!(bench.runs(0));
}

#[test]
fn even_rings_are_rx_and_odd_rings_tx_of_the_guest() {
    let mut bench = Bench::running(SPLIT, 2, 0);
    assert!(bench.engine.tx.contains_key(&1) && bench.engine.rx.is_empty());
    bench.accepts_all(ring_messages(1, 0));
    assert!(bench.engine.rx.contains_key(&0));
    let status = bench.session.queue_status();
    assert_eq!((status[0].rx_running, status[0].tx_running, status[1].tx_running), (true, false, true));
    assert_eq!(status[1].size, SIZE as u16);
}

#[test]
fn ring_without_protocol_features_starts_enabled() {
    let mut bench = Bench::negotiated(Features::VERSION_1);
    bench.accepts_all(ring_messages(0, 0).into_iter().take(5));
    assert!(bench.runs(0));
}

#[test]
fn stopped_ring_reports_its_base_and_needs_a_new_kick() {
    let mut bench = Bench::running(SPLIT, 1, 0);
    bench.poke_used_index(3); // the used index of a queue that returned buffers
    assert_eq!(bench.base(1), 3);
    assert!(!bench.runs(1));
    bench.accepts(&Request::SetVringEnable(state(1, 1)));
    assert!(!bench.runs(1));
    bench.accepts(&Request::SetVringKick(file(1)));
    assert!(bench.runs(1));
    assert_eq!(bench.base(1), 6);
}

#[test]
fn split_ring_resumes_at_its_used_index() {
    let mut bench = Bench::negotiated(SPLIT);
    bench.poke_used_index(41);
    bench.accepts_all(ring_messages(1, 0));
    assert_eq!(bench.base(1), 44);
}

#[test]
fn packed_base_with_lower_half_only_sets_both() {
    for base in [0x8005, 0x8005_8005] {
        let mut bench = Bench::running(PACKED, 1, base);
        assert_eq!(bench.base(1), 0x8008_8008);
    }
    let mut fresh = Bench::negotiated(PACKED);
    assert_eq!(fresh.base(0), 0x8000_8000, "both wrap counters begin at 1");
}

#[test]
fn invalid_base_is_a_fault() {
    let mut bench = Bench::negotiated(PACKED);
    let mut messages = ring_messages(1, 0x8000 | SIZE);
    let last = messages.pop().unwrap();
    bench.accepts_all(messages);
    assert!(bench.fails(&last).contains("past the end"));
    let mut bench = Bench::negotiated(SPLIT);
    let mut messages = ring_messages(1, 0x1_0000);
    let last = messages.pop().unwrap();
    bench.accepts_all(messages);
    assert!(bench.fails(&last).contains("16 bits"));
}

#[test]
fn split_ring_size_must_be_a_power_of_two() {
    for (features, runs) in [(SPLIT, false), (PACKED, true)] {
        let mut bench = Bench::negotiated(features);
        let mut messages = ring_messages(1, 0x8000 & (features >> 34 << 15) as u32);
        messages[0] = Request::SetVringNum(state(1, 100));
        let last = messages.pop().unwrap();
        bench.accepts_all(messages);
        if runs {
            bench.accepts(&last);
            assert!(bench.runs(1));
        } else {
            assert!(bench.fails(&last).contains("power of two"));
        }
    }
}

#[test]
fn new_call_kick_or_address_restarts_a_ring_at_its_position() {
    for (n, change) in [
        Request::SetVringCall(file(1)),
        Request::SetVringKick(file(1)),
        Request::SetVringKick(VringFile { index: 1, has_descriptor: false }),
        Request::SetVringAddr(VringAddress { available: USER + 0x1800, ..address(1) }),
    ]
    .into_iter()
    .enumerate()
    {
        let mut bench = Bench::running(PACKED, 1, 0x8000);
        bench.accepts(&change);
        assert!(bench.runs(1), "change {n}");
        assert_eq!(bench.base(1), 0x8006_8006, "change {n}: two runs of the fake queue");
    }
}

#[test]
fn repeated_address_has_no_effect() {
    let mut bench = Bench::running(PACKED, 1, 0x8000);
    bench.accepts(&Request::SetVringAddr(address(1)));
    assert_eq!(bench.base(1), 0x8003_8003, "one run of the fake queue");
}

#[test]
fn each_start_calls_the_guest_once() {
    let mut bench = Bench::running(SPLIT, 0, 0);
    let call = eventfd();
    let request = Request::SetVringCall(file(0));
    assert_eq!(bench.send(&request, vec![call.try_clone().unwrap()], false), Ok(None));
    let mut count = [0; 8];
    assert_eq!(rustix::io::read(&call, &mut count), Ok(8));
    assert_eq!(u64::from_ne_bytes(count), 1);
}

#[test]
fn size_base_and_features_are_fixed_while_a_ring_runs() {
    assert!(Bench::running(SPLIT, 1, 0).fails(&Request::SetVringNum(state(1, 128))).contains("running"));
    assert!(Bench::running(SPLIT, 1, 0).fails(&Request::SetVringBase(state(1, 0))).contains("running"));
    assert!(Bench::running(SPLIT, 1, 0).fails(&Request::SetFeatures(PACKED)).contains("running"));
    Bench::running(SPLIT, 1, 0).accepts(&Request::SetFeatures(SPLIT));
    Bench::running(SPLIT, 1, 0).accepts(&Request::SetVringNum(state(0, 128)));
}

#[test]
fn invalid_ring_indices_and_values_are_faults() {
    for request in [
        Request::SetVringNum(state(4, 256)),
        Request::SetVringNum(state(u32::MAX, 256)),
        Request::SetVringNum(state(0, 0)),
        Request::SetVringNum(state(0, 32_769)),
        Request::SetVringBase(state(4, 0)),
        Request::SetVringAddr(address(4)),
        Request::SetVringAddr(VringAddress { flags: VringAddress::LOG, ..address(0) }),
        Request::GetVringBase(4),
        Request::SetVringKick(file(4)),
        Request::SetVringCall(file(255)),
        Request::SetVringErr(file(4)),
        Request::SetVringEnable(state(4, 1)),
        Request::SetVringEnable(state(0, 2)),
        Request::SetStatus(256),
    ] {
        let fault = Bench::negotiated(SPLIT).fails(&request);
        assert!(fault.starts_with("the front end violated the vhost-user protocol"), "{fault}");
    }
}

#[test]
fn kick_and_call_must_be_eventfds() {
    let (pipe, _other_end) = rustix::pipe::pipe().unwrap();
    for (request, fd) in
        [(Request::SetVringKick(file(0)), pipe), (Request::SetVringCall(file(0)), memory(4096))]
    {
        let fault = Bench::negotiated(SPLIT).send(&request, vec![fd], false).unwrap_err();
        assert!(matches!(fault, PortFault::BadDescriptor(..)), "{fault}");
    }
}

#[test]
fn blocking_eventfd_is_set_non_blocking() {
    let mut bench = Bench::negotiated(SPLIT);
    let kick = eventfd();
    let ours = kick.try_clone().unwrap();
    assert_eq!(bench.send(&Request::SetVringKick(file(0)), vec![ours], false), Ok(None));
    let flags = rustix::fs::fcntl_getfl(&kick).unwrap();
    assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
}

#[test]
fn no_reply_while_a_worker_may_still_use_the_ring() {
    let hung = PortFault::WorkerHung(1);
    for request in [Request::GetVringBase(0), Request::SetMemTable(vec![REGION])] {
        let mut bench = Bench::running(SPLIT, 0, 0);
        bench.engine.failure = Some(hung.clone());
        let fds = bench.fds_for(&request);
        assert_eq!(bench.send(&request, fds, true), Err(hung.clone()), "{request:?}");
    }
}
