//! Addresses, routes and endpoints.

use crate::call::{Failure, call, call_host, code, invalid};
use crate::host::{Inner, linerate_host};
use crate::pointer::{reference, store, text, wanted};
use stack::ip::{InterfaceId, Route};
use stack::{Address, Cidr, Endpoint};
use std::ffi::{c_char, c_int};
use std::net::{IpAddr, SocketAddr};

/// Bytes of the longest text of an endpoint, with the zero at its end.
pub const LINERATE_ENDPOINT_TEXT: usize = 64;

/// An address and a port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct linerate_endpoint {
    /// IPv6 address in network byte order. An IPv4 address is the IPv4-mapped IPv6 address ::ffff:a.b.c.d, and 0.0.0.0
    /// is ::ffff:0.0.0.0.
    pub address: [u8; 16],
    /// Port in the byte order of the host.
    pub port: u16,
}

impl From<linerate_endpoint> for Endpoint {
    fn from(endpoint: linerate_endpoint) -> Self {
        Self::new(Address::v6(endpoint.address), endpoint.port)
    }
}

impl From<Endpoint> for linerate_endpoint {
    fn from(endpoint: Endpoint) -> Self {
        Self { address: *endpoint.address.octets(), port: endpoint.port }
    }
}

/// The endpoint at a pointer; the unspecified one if it is null.
///
/// # Safety
/// The pointer is null or points to an endpoint.
pub(crate) unsafe fn optional(at: *const linerate_endpoint) -> Endpoint {
    // SAFETY: by the caller's contract.
    unsafe { at.as_ref() }.copied().map_or_else(Endpoint::default, Endpoint::from)
}

/// Parses an endpoint such as "10.9.0.2:80" or "[fd09::2]:80".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_endpoint_parse(
    text: *const c_char,
    endpoint: *mut linerate_endpoint,
) -> c_int {
    call(|| {
        wanted(endpoint, "endpoint")?;
        // SAFETY: null or a string, by the contract of the interface.
        let words = unsafe { self::text(text, "text") }?;
        let remedy = "write an address and a port, such as 10.9.0.2:80 or [fd09::2]:80";
        let parsed: SocketAddr =
            words.parse().map_err(|_| invalid(format_args!("`{words}` is not an endpoint"), remedy))?;
        // SAFETY: not null, so memory for an endpoint by the contract of the interface.
        unsafe { store(endpoint, Endpoint::from(parsed).into()) };
        Ok(0)
    })
}

/// Writes an endpoint as text of at most LINERATE_ENDPOINT_TEXT bytes. Returns the length of the text without the zero
/// at its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_endpoint_format(
    endpoint: *const linerate_endpoint,
    text: *mut c_char,
    size: usize,
) -> c_int {
    call(|| {
        wanted(text, "text")?;
        // SAFETY: null or an endpoint, by the contract of the interface.
        let words = Endpoint::from(*unsafe { reference(endpoint, "endpoint") }?).to_string();
        // SAFETY: memory for this many bytes, by the contract of the interface.
        unsafe { store_text(&words, text, size) }
    })
}

/// Writes text and a zero at its end. Returns its length without the zero.
///
/// # Safety
/// `text` points to memory for `size` bytes.
pub(crate) unsafe fn store_text(words: &str, text: *mut c_char, size: usize) -> Result<c_int, Failure> {
    if words.len() >= size {
        let reason = format_args!("{size} bytes are too few for {words}");
        return Err(invalid(reason, "pass LINERATE_ENDPOINT_TEXT bytes"));
    }
    for (at, byte) in words.bytes().chain([0]).enumerate() {
        // SAFETY: at most the length of the text, which is below `size`.
        unsafe { store(text.add(at), c_char::from_ne_bytes([byte])) };
    }
    Ok(c_int::try_from(words.len()).unwrap_or(c_int::MAX))
}

pub(crate) fn network(words: &str) -> Result<Cidr, Failure> {
    let remedy = "write it as 10.9.0.2/24 or fd09::2/64";
    words.parse().map_err(|_| invalid(format_args!("`{words}` is no address with a prefix length"), remedy))
}

pub(crate) fn interface(number: c_int, count: usize) -> Result<InterfaceId, Failure> {
    let id = u16::try_from(number).ok().filter(|id| usize::from(*id) < count).map(InterfaceId);
    id.ok_or_else(|| {
        invalid(format_args!("there is no interface {number}"), "pass the result of linerate_open_*")
    })
}

/// Adds an address with the prefix length of its network, such as "10.9.0.2/24" or "fd09::2/64", to an interface.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_add_address(
    host: *mut linerate_host,
    interface: c_int,
    address: *const c_char,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            let id = self::interface(interface, inner.queue.host().interfaces())?;
            let (address, now) = (network(text(address, "address")?)?, inner.queue.now());
            inner.queue.stack().add_address(id, address, now);
            Ok(0)
        })
    }
}

/// Adds a route to a network, such as "0.0.0.0/0" for a default route. `gateway` may be NULL for a network on the link.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_add_route(
    host: *mut linerate_host,
    interface: c_int,
    network: *const c_char,
    gateway: *const c_char,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            let interface = self::interface(interface, inner.queue.host().interfaces())?;
            let network = self::network(text(network, "network")?)?;
            let via = if gateway.is_null() { None } else { Some(parsed_address(text(gateway, "gateway")?)?) };
            if via.is_some_and(|via| via.is_v4() != network.address.is_v4()) {
                let reason = "gateway and network have different IP versions";
                return Err(Failure::new(code::INVALID, reason, "pass a gateway of the network's version"));
            }
            inner.queue.stack().add_route(Route { network, interface, via });
            Ok(0)
        })
    }
}

/// The interface of a multicast group; `None` for [`crate::udp::LINERATE_ANY_INTERFACE`].
pub(crate) fn group_interface(inner: &mut Inner, number: c_int) -> Result<Option<InterfaceId>, Failure> {
    if number == crate::udp::LINERATE_ANY_INTERFACE {
        return Ok(None);
    }
    interface(number, inner.queue.host().interfaces()).map(Some)
}

pub(crate) fn parsed_address(words: &str) -> Result<Address, Failure> {
    let parsed: Result<IpAddr, _> = words.parse();
    let error = |_| invalid(format_args!("`{words}` is no address"), "write it as 10.9.0.1 or fd09::1");
    parsed.map(Address::from).map_err(error)
}
