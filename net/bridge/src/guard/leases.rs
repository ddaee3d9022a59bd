//! DHCP leases of one port.
//!
//! Workers read without a lock: each slot has its own version (a seqlock, as in `bucket`). Writers use `try_lock` on a
//! mutex. The small number of slots bounds the memory and worker time that a port can use.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Maximum number of concurrent leases per port.
pub(super) const SLOTS: usize = 32;
/// Attempts to read a slot or take the mutex before the worker gives up.
const TRIES: usize = 64;

#[derive(Default)]
pub(crate) struct Leases {
    slots: [Slot; SLOTS],
    writer: Mutex<()>,
}

/// A leased address and the second at which its lease ends; 0 for an empty slot.
#[derive(Default)]
struct Slot {
    version: AtomicU32,
    until: AtomicU32,
    high: AtomicU64,
    low: AtomicU64,
}

/// Maps IPv4 addresses to IPv4-mapped IPv6 addresses, which are not valid in packets.
fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl Slot {
    /// Address and end of the lease. Returns `None` while they change.
    fn try_read(&self) -> Option<(u128, u32)> {
        // Pairs with the Release store in `write`.
        let version = self.version.load(Ordering::Acquire);
        let (high, low) = (self.high.load(Ordering::Relaxed), self.low.load(Ordering::Relaxed));
        let until = self.until.load(Ordering::Relaxed);
        // Pairs with the Release fence in `write`.
        fence(Ordering::Acquire);
        let steady = version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        steady.then_some((u128::from(high) << 64 | u128::from(low), until))
    }

    /// [`Slot::try_read`] with up to `TRIES` attempts; afterwards the slot counts as empty.
    fn read(&self) -> (u128, u32) {
        for _ in 0..TRIES {
            if let Some(read) = self.try_read() {
                return read;
            }
            std::hint::spin_loop();
        }
        (0, 0)
    }

    /// The caller must hold the mutex.
    fn write(&self, address: u128, until: u32) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // Pairs with the Acquire fence in `try_read`.
        fence(Ordering::Release);
        self.high.store((address >> 64) as u64, Ordering::Relaxed);
        self.low.store(address as u64, Ordering::Relaxed);
        self.until.store(until, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }
}

impl Leases {
    /// Whether `ip` is leased to this port in `second`.
    pub(super) fn contains(&self, ip: IpAddr, second: u32) -> bool {
        let wanted = bits(ip);
        self.slots.iter().map(Slot::read).any(|(address, until)| address == wanted && until > second)
    }

    /// Records a lease of `ip` from `second` on. If all slots are in use, replaces the one that ends first. Returns
    /// `false` if another worker holds the mutex.
    pub(super) fn bind(&self, ip: IpAddr, second: u32, seconds: u32) -> bool {
        let wanted = bits(ip);
        self.write(|slots| {
            let own = slots.iter().find(|slot| slot.read().0 == wanted);
            if let Some(slot) = own.or_else(|| slots.iter().min_by_key(|slot| slot.read().1)) {
                slot.write(wanted, second.saturating_add(seconds));
            }
        })
    }

    /// All leases, each with the second at which it ends.
    pub(super) fn all(&self, second: u32) -> impl Iterator<Item = (IpAddr, u32)> {
        let leases = self.slots.iter().map(Slot::read).filter(move |(_, until)| *until > second);
        leases.map(|(address, until)| (Ipv6Addr::from_bits(address).to_canonical(), until))
    }

    /// Ends the lease of `ip`, if any. Returns `false` if another worker holds the mutex.
    pub(super) fn release(&self, ip: IpAddr) -> bool {
        let wanted = bits(ip);
        let held = |slot: &&Slot| slot.read().0 == wanted;
        if !self.slots.iter().any(|slot| held(&slot)) {
            return true;
        }
        self.write(|slots| slots.iter().filter(held).for_each(|slot| slot.write(0, 0)))
    }

    fn write(&self, change: impl FnOnce(&[Slot; SLOTS])) -> bool {
        for _ in 0..TRIES {
            if let Ok(_writer) = self.writer.try_lock() {
                change(&self.slots);
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn lease_is_valid_until_expiry_renewal_or_release() {
        let leases = Leases::default();
        assert!(leases.bind(v4(5), 100, 60));
        assert_eq!([100, 159, 160].map(|second| leases.contains(v4(5), second)), [true, true, false]);
        assert!(leases.bind(v4(5), 150, 60) && leases.contains(v4(5), 209));
        assert!(!leases.contains(v4(6), 150) && leases.release(v4(6)));
        assert!(leases.release(v4(5)) && !leases.contains(v4(5), 150));
        assert!(leases.bind(v4(7), 5, u32::MAX) && leases.contains(v4(7), u32::MAX - 1), "for ever");
    }

    #[test]
    fn leases_are_listed_until_they_end() {
        let (one, other) = (Leases::default(), Leases::default());
        let v6 = IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]);
        assert!(one.bind(v4(5), 100, 60) && one.bind(v6, 100, 90));
        assert!(one.all(120).all(|(ip, until)| other.bind(ip, 0, until)));
        assert!(other.contains(v4(5), 159) && other.contains(v6, 189));
        assert_eq!(one.all(170).collect::<Vec<_>>(), [(v6, 190)]);
    }

    #[test]
    fn earliest_expiring_lease_is_evicted() {
        let leases = Leases::default();
        (0..=SLOTS as u8).for_each(|last| assert!(leases.bind(v4(last), 0, 100 + u32::from(last))));
        assert!(!leases.contains(v4(0), 0) && (1..=SLOTS as u8).all(|last| leases.contains(v4(last), 0)));
    }

    #[test]
    fn lookup_never_mixes_two_addresses() {
        let leases = Leases::default();
        let ip = |n: u64| IpAddr::V6((u128::from(n) << 64 | u128::from(n)).into());
        std::thread::scope(|scope| {
            scope.spawn(|| (1..20_000).for_each(|n| leases.slots[0].write(bits(ip(n)), n as u32)));
            for _ in 0..20_000 {
                let (address, until) = leases.slots[0].read();
                assert_eq!((address >> 64, address as u64 as u32), (address & u128::from(u64::MAX), until));
            }
        });
    }
}
