//! Frames that circulate between two ports of a guest of DPDK, through the ports `left` and `right` of our switch.

use std::time::Duration;

use linerate_tests::switch::{Counters, Switch, assert_sums_agree};
use linerate_tests::testpmd::{self, Testpmd};
use linerate_tests::wait;

/// Names of the switch's ports.
pub(crate) const NAMES: [&str; 2] = ["left", "right"];
/// Number of frames that must come back into each port of the guest before a size counts as carried.
pub(crate) const CARRIED: u64 = 20_000;
/// Maximum time for carrying frames of one size.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// Circulates frames of one size until enough have come back into both ports.
pub(crate) fn carry(guest: &mut Testpmd, size: usize) {
    keep_carrying(guest, size);
    guest.stop();
}

/// [`carry`] that leaves the frames circulating.
pub(crate) fn keep_carrying(guest: &mut Testpmd, size: usize) {
    let before = guest.counters();
    guest.circulate(size, 2);
    let grown = |now: &[testpmd::Counters]| {
        let pairs = now.iter().zip(&before);
        pairs.map(|(now, before)| now.rx_packets - before.rx_packets).min().unwrap_or(0)
    };
    let carried = wait::until(TIMEOUT, || (grown(&guest.counters()) >= CARRIED).then_some(()));
    assert!(carried.is_some(), "frames of {size} B stopped circulating: {:#?}", guest.counters());
}

/// Checks that packets are lost only to full queues, and that the counters of guest and switch agree, to the byte.
pub(crate) fn account(switch: &Switch, guest: &[testpmd::Counters]) {
    let ours = switch.settled(&NAMES);
    assert_sums_agree(&ours);
    for (name, (ours, guest)) in NAMES.iter().zip(ours.iter().zip(guest)) {
        let Counters { rx_packets, rx_bytes, tx_packets, tx_bytes, other_drops, .. } = *ours;
        assert_eq!(other_drops, 0, "{name} lost packets: {}", switch.port(name));
        assert_eq!((rx_packets, rx_bytes), (guest.tx_packets, guest.tx_bytes), "{name}: guest to switch");
        assert_eq!((tx_packets, tx_bytes), (guest.rx_packets, guest.rx_bytes), "{name}: switch to guest");
    }
}
