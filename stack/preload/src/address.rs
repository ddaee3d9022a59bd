//! Socket addresses of C.

use libc::{AF_INET, AF_INET6, c_int, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use stack::{Address, Endpoint};

/// Reads an address. Returns `None` if it is not one of IPv4 or IPv6.
///
/// # Safety
/// `address` is null or has `len` readable bytes.
pub(crate) unsafe fn read(address: *const sockaddr, len: socklen_t) -> Option<Endpoint> {
    if address.is_null() || (len as usize) < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: guaranteed by the caller; each structure is read only if the address has its length.
    unsafe {
        match c_int::from(address.cast::<libc::sa_family_t>().read_unaligned()) {
            AF_INET if len as usize >= size_of::<sockaddr_in>() => {
                let v4 = address.cast::<sockaddr_in>().read_unaligned();
                Some(Endpoint::new(Address::v4(v4.sin_addr.s_addr.to_ne_bytes()), u16::from_be(v4.sin_port)))
            }
            AF_INET6 if len as usize >= size_of::<sockaddr_in6>() => {
                let v6 = address.cast::<sockaddr_in6>().read_unaligned();
                Some(Endpoint::new(Address::v6(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port)))
            }
            _ => None,
        }
    }
}

/// Writes an address, truncated to `*len` bytes, and its length. An IPv4 address of an IPv6 socket is written as an
/// IPv4-mapped one.
///
/// # Safety
/// `address` and `len` are null or writable, `address` for `*len` bytes.
pub(crate) unsafe fn write(end: Endpoint, family: c_int, address: *mut sockaddr, len: *mut socklen_t) {
    if address.is_null() || len.is_null() {
        return;
    }
    // SAFETY: all-zero bytes are valid addresses.
    let (mut v4, mut v6): (sockaddr_in, sockaddr_in6) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let (from, size) = if family == AF_INET {
        v4.sin_family = AF_INET as libc::sa_family_t;
        v4.sin_port = end.port.to_be();
        v4.sin_addr.s_addr = u32::from_ne_bytes(end.address.last4());
        ((&raw const v4).cast::<u8>(), size_of::<sockaddr_in>())
    } else {
        v6.sin6_family = AF_INET6 as libc::sa_family_t;
        v6.sin6_port = end.port.to_be();
        let is_any = end.address.is_v4() && end.address.is_unspecified();
        v6.sin6_addr.s6_addr = if is_any { [0; 16] } else { *end.address.octets() };
        ((&raw const v6).cast::<u8>(), size_of::<sockaddr_in6>())
    };
    // SAFETY: guaranteed by the caller; the source is a structure of `size` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(from, address.cast::<u8>(), size.min(*len as usize));
        *len = size as socklen_t;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn end(text: &str) -> Endpoint {
        text.parse::<SocketAddr>().map(Endpoint::from).expect("an address")
    }

    /// Bytes that `write` leaves in memory for `room` of them, and the length that it reports.
    fn written(end: Endpoint, family: c_int, room: usize) -> ([u8; 32], usize) {
        let (mut bytes, mut len) = ([0xee; 32], room as socklen_t);
        // SAFETY: memory for `room` bytes, and their number.
        unsafe { write(end, family, bytes.as_mut_ptr().cast(), &raw mut len) };
        (bytes, len as usize)
    }

    fn read_back(bytes: &[u8]) -> Option<Endpoint> {
        // SAFETY: the pointer and the length are those of the slice.
        unsafe { read(bytes.as_ptr().cast(), bytes.len() as socklen_t) }
    }

    #[test]
    fn addresses_survive_both_directions() {
        for (text, family) in [
            ("10.9.0.2:80", AF_INET),
            ("0.0.0.0:0", AF_INET),
            ("[fd09::2]:443", AF_INET6),
            ("[::]:1", AF_INET6),
        ] {
            let (bytes, len) = written(end(text), family, 32);
            assert_eq!(read_back(&bytes[..len]), Some(end(text)), "{text}");
            assert_eq!(read_back(&bytes[..len - 1]), None, "{text}");
            assert!(bytes[len..].iter().all(|byte| *byte == 0xee));
        }
    }

    #[test]
    fn addresses_of_ipv4_are_mapped_for_sockets_of_ipv6() {
        let (bytes, len) = written(end("10.9.0.2:80"), AF_INET6, 32);
        assert_eq!((len, &bytes[8..24]), (28, &end("10.9.0.2:80").address.octets()[..]));
        let (bytes, _) = written(end("0.0.0.0:80"), AF_INET6, 32);
        assert_eq!(bytes[8..24], [0; 16]);
    }

    #[test]
    fn short_memory_truncates_and_reports_the_length() {
        let (bytes, len) = written(end("10.9.0.2:80"), AF_INET, 5);
        assert_eq!((len, bytes[5]), (size_of::<sockaddr_in>(), 0xee));
        // SAFETY: null pointers are permitted.
        unsafe { write(end("10.9.0.2:80"), AF_INET, std::ptr::null_mut(), std::ptr::null_mut()) };
    }

    #[test]
    fn other_families_and_lengths_are_not_read() {
        assert_eq!(read_back(&[]), None);
        assert_eq!(read_back(&[2]), None);
        assert_eq!(read_back(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None, "AF_UNIX");
        // SAFETY: a null pointer is permitted.
        assert_eq!(unsafe { read(std::ptr::null(), 16) }, None);
    }
}
