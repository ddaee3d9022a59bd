//! Interface system calls that no crate wraps: ioctl requests and socket options.
//!
//! Every request passes the address of a local value that outlives the call and has the size defined by the kernel
//! headers.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// `ETHTOOL_GCHANNELS` of linux/ethtool.h.
const GET_CHANNELS: u32 = 0x3c;

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// `ETHTOOL_GLINK`
const GET_LINK: u32 = 0xa;

/// `struct ethtool_value`.
#[repr(C)]
struct Link {
    command: u32,
    is_up: u32,
}

/// `ETHTOOL_GDRVINFO`
const GET_DRIVER: u32 = 3;

/// `struct ethtool_drvinfo`, without its unused fields.
#[repr(C)]
struct DriverInformation {
    command: u32,
    name: [u8; 32],
    rest: [u32; 40],
}

const _: () = assert!(size_of::<DriverInformation>() == 196);

/// `ETHTOOL_SGRO`
const SET_GRO: u32 = 0x2c;

/// `ETHTOOL_GRSSH`
const GET_RSS: u32 = 0x46;
/// Words of `struct ethtool_rxfh` before the table: command, context, entries of the table, bytes of the key, function,
/// reserved.
const RSS_HEAD: usize = 6;
/// Greatest indirection table, in entries, and greatest key, in bytes, that are read.
const MAX_RSS: (u32, u32) = (1 << 14, 256);
/// `ETH_RSS_HASH_TOP`, without a transformation of the input (`RXH_XFRM_*`, in the second byte).
const TOEPLITZ: [u8; 2] = [1, 0];
/// `ETHTOOL_GRXFH`
const GET_RSS_FIELDS: u32 = 0x29;
/// `TCP_V4_FLOW` and `TCP_V6_FLOW`
const TCP_FLOWS: [u32; 2] = [1, 5];
/// `RXH_IP_SRC`, `RXH_IP_DST`, `RXH_L4_B_0_1`, `RXH_L4_B_2_3`
const ADDRESSES_AND_PORTS: u64 = 0xf0;

/// The first fields of `struct ethtool_rxnfc`, which are those of `ETHTOOL_GRXFH`, and room for the others.
#[repr(C)]
struct HashedFields {
    command: u32,
    flow: u32,
    fields: u64,
    rest: [u64; 30],
}

/// Receive-side scaling of a driver.
#[derive(Debug)]
pub(crate) struct Rss {
    /// Whether the hash is Toeplitz of the fields themselves.
    pub(crate) is_toeplitz: bool,
    /// Indirection table.
    pub(crate) queues: Vec<u32>,
    pub(crate) key: Vec<u8>,
}

/// `struct ifreq`, whose union is at most 24 bytes.
#[repr(C)]
struct Request<T> {
    name: [u8; libc::IFNAMSIZ],
    value: T,
    rest: [u64; 2],
}

fn ioctl<T>(socket: BorrowedFd<'_>, request: u64, interface: &str, value: T) -> Result<T, Errno> {
    const { assert!(size_of::<T>() <= 8 && size_of::<Request<T>>() >= size_of::<libc::ifreq>()) };
    let mut name = [0; libc::IFNAMSIZ];
    let n = interface.len().min(libc::IFNAMSIZ - 1);
    name[..n].copy_from_slice(&interface.as_bytes()[..n]);
    let mut question = Request { name, value, rest: [0; 2] };
    // SAFETY: the request is at least as long as the kernel's, and memory it points to is owned by the caller.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &raw mut question) };
    if answer < 0 { Err(last_error()) } else { Ok(question.value) }
}

/// Number of queues per direction. Returns `None` if the driver does not report it.
pub(crate) fn queues(socket: BorrowedFd<'_>, interface: &str) -> Option<u16> {
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    let place = (&raw mut channels) as usize;
    ioctl(socket, libc::SIOCETHTOOL, interface, place).ok()?;
    u16::try_from(channels.combined + channels.rx.max(channels.tx)).ok().filter(|&n| n > 0)
}

/// Hash function, indirection table and key of received packets.
pub(crate) fn rss(socket: BorrowedFd<'_>, interface: &str) -> Result<Rss, Errno> {
    let ask = |question: &mut Vec<u32>| {
        ioctl(socket, libc::SIOCETHTOOL, interface, question.as_mut_ptr() as usize).map(drop)
    };
    let mut question = vec![0; RSS_HEAD];
    question[0] = GET_RSS;
    ask(&mut question)?;
    let (entries, key) = (question[2], question[3]);
    if entries > MAX_RSS.0 || key > MAX_RSS.1 {
        return Err(Errno::TOOBIG);
    }
    // The kernel writes this many entries and bytes, or refuses if the sizes have changed.
    let mut question = vec![0; RSS_HEAD + entries as usize + key.div_ceil(4) as usize];
    (question[0], question[2], question[3]) = (GET_RSS, entries, key);
    ask(&mut question)?;
    let [function, transformation, ..] = question[4].to_ne_bytes();
    let (queues, rest) = question[RSS_HEAD..].split_at(entries as usize);
    let bytes = rest.iter().flat_map(|word| word.to_ne_bytes()).take(key as usize);
    Ok(Rss {
        is_toeplitz: [function, transformation] == TOEPLITZ,
        queues: queues.to_vec(),
        key: bytes.collect(),
    })
}

/// Whether addresses and ports of TCP segments of both IP versions are hashed, and nothing else.
pub(crate) fn hashes_tcp_ports(socket: BorrowedFd<'_>, interface: &str) -> Result<bool, Errno> {
    for flow in TCP_FLOWS {
        let mut question = HashedFields { command: GET_RSS_FIELDS, flow, fields: 0, rest: [0; 30] };
        ioctl(socket, libc::SIOCETHTOOL, interface, (&raw mut question) as usize)?;
        if question.fields != ADDRESSES_AND_PORTS {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Zero-padded driver name. Returns `None` if the driver does not report it.
pub(crate) fn driver(socket: BorrowedFd<'_>, interface: &str) -> Option<[u8; 32]> {
    let mut information = DriverInformation { command: GET_DRIVER, name: [0; 32], rest: [0; 40] };
    let place = (&raw mut information) as usize;
    ioctl(socket, libc::SIOCETHTOOL, interface, place).ok()?;
    Some(information.name)
}

/// Enables GRO.
pub(crate) fn enable_gro(socket: BorrowedFd<'_>, interface: &str) -> Result<(), Errno> {
    let mut value = Link { command: SET_GRO, is_up: 1 };
    ioctl(socket, libc::SIOCETHTOOL, interface, (&raw mut value) as usize).map(drop)
}

/// MTU in bytes, without the Ethernet header.
pub(crate) fn mtu(socket: BorrowedFd<'_>, interface: &str) -> Result<u32, Errno> {
    ioctl(socket, libc::SIOCGIFMTU, interface, 0_i32).map(i32::unsigned_abs)
}

/// Whether the interface is administratively up and has a carrier. `IFF_RUNNING` is not used, because it follows the
/// carrier by up to a second.
pub(crate) fn is_up(socket: BorrowedFd<'_>, interface: &str) -> Result<bool, Errno> {
    let flags = ioctl(socket, libc::SIOCGIFFLAGS, interface, 0_i16)?;
    Ok(flags & libc::IFF_UP as i16 != 0 && has_carrier(socket, interface).unwrap_or(true))
}

/// Whether the driver reports a carrier. Returns an error if the driver does not support the request.
fn has_carrier(socket: BorrowedFd<'_>, interface: &str) -> Result<bool, Errno> {
    let mut link = Link { command: GET_LINK, is_up: 0 };
    ioctl(socket, libc::SIOCETHTOOL, interface, (&raw mut link) as usize)?;
    Ok(link.is_up != 0)
}

/// Sets the interface administratively up or down.
#[cfg(test)]
pub(crate) fn set_up(socket: BorrowedFd<'_>, interface: &str, is_up: bool) -> Result<(), Errno> {
    let flags = if is_up { libc::IFF_UP as i16 } else { 0 };
    ioctl(socket, libc::SIOCSIFFLAGS, interface, flags).map(drop)
}

/// Sets a socket option to a plain value, as defined by the kernel headers.
pub(crate) fn set<T: Copy>(socket: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> Result<(), Errno> {
    let (at, len) = (std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the value outlives the call and has the given length.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, len) };
    if done < 0 { Err(last_error()) } else { Ok(()) }
}

/// Puts `interface` into promiscuous mode while the packet socket `socket` is open.
pub(crate) fn promiscuous(interface: u32, socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let request = libc::packet_mreq {
        mr_ifindex: interface.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// A packet socket in this thread's namespace that receives no packets.
pub(crate) fn packet_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
}

/// Keeps `interface` promiscuous until the returned socket is dropped.
pub(crate) fn keep_promiscuous(interface: u32) -> Result<OwnedFd, Errno> {
    let socket = packet_socket()?;
    promiscuous(interface, socket.as_fd())?;
    Ok(socket)
}

/// `errno` of the last failed call of this thread.
pub(crate) fn last_error() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
