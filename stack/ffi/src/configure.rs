//! Configuration of interfaces by the network: DHCP, SLAAC, and neighbours that are given.

use crate::address::{interface, parsed_address, store_text};
use crate::call::{Failure, call_host, code, invalid};
use crate::host::linerate_host;
use crate::pointer::{reference, text, wanted};
use stack::Identifier;
use std::ffi::{c_char, c_int};
use wire::MacAddress;

/// IPv6 addresses that end with the Ethernet address (modified EUI-64).
pub const LINERATE_EUI64: u32 = 0;
/// IPv6 addresses that differ between networks and hosts (RFC 7217), and between runs.
pub const LINERATE_OPAQUE: u32 = 1;

/// Starts a DHCP client on an interface, which assigns and removes address, default route and MTU while the program
/// calls linerate_wait. The address takes 4 to 6 seconds after the server's answer, because others are asked for it
/// first. linerate_host_free gives it back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_start_dhcp(host: *mut linerate_host, interface: c_int) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            let id = self::interface(interface, inner.queue.host().interfaces())?;
            let now = inner.queue.now();
            inner.queue.stack().start_dhcp(id, now);
            Ok(0)
        })
    }
}

/// Starts stateless address configuration of IPv6 on an interface: a link-local address, and the addresses and routes
/// that routers advertise. `kind` is LINERATE_EUI64 or LINERATE_OPAQUE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_start_slaac(
    host: *mut linerate_host,
    interface: c_int,
    kind: u32,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            let id = self::interface(interface, inner.queue.host().interfaces())?;
            let kind = match kind {
                LINERATE_EUI64 => Identifier::Eui64,
                LINERATE_OPAQUE => Identifier::Opaque,
                other => {
                    let reason = format_args!("kind is {other}");
                    return Err(invalid(reason, "pass LINERATE_EUI64 or LINERATE_OPAQUE"));
                }
            };
            let now = inner.queue.now();
            inner.queue.stack().start_slaac(id, kind, now);
            Ok(0)
        })
    }
}

/// Adds a neighbour, such as "10.9.0.1", whose Ethernet address of 6 bytes is not resolved and does not change.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_add_neighbour(
    host: *mut linerate_host,
    interface: c_int,
    address: *const c_char,
    mac: *const u8,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            let id = self::interface(interface, inner.queue.host().interfaces())?;
            let (address, now) = (parsed_address(text(address, "address")?)?, inner.queue.now());
            let mac = *reference(mac.cast::<[u8; 6]>(), "mac")?;
            if mac[0] & 1 != 0 {
                return Err(invalid("mac is a group address", "clear the lowest bit of its first byte"));
            }
            if !inner.queue.stack().add_neighbour(id, address, MacAddress::new(mac), now) {
                let reason = "the limit of neighbours is reached";
                return Err(Failure::new(code::TOO_MANY, reason, "add fewer neighbours"));
            }
            Ok(0)
        })
    }
}

/// Writes address `number` of an interface, from 0 on, with the prefix length of its network, as text of at most
/// LINERATE_ENDPOINT_TEXT bytes. Returns the length of the text without the zero at its end, 0 if there are fewer
/// addresses. Addresses of DHCP and SLAAC appear once they are usable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_interface_address(
    host: *mut linerate_host,
    interface: c_int,
    number: usize,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            wanted(text, "text")?;
            let id = self::interface(interface, inner.queue.host().interfaces())?;
            let address = inner.queue.stack().addresses(id).nth(number);
            address.map_or(Ok(0), |address| store_text(&address.to_string(), text, size))
        })
    }
}
