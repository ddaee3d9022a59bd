//! Opens ports.

use crate::call::{Failure, call_host, code, invalid};
use crate::host::{Inner, linerate_host};
use crate::pointer::{optional_text, text};
use engine::LocalPort;
use port::interface::Place;
use port::memif::{self, Memif, Secret};
use port::netns::Namespace;
use port::tap::{self, Tap};
use port::vhost_user::{self, VhostUser};
use port::virtio_user::{self, VirtioUser};
use port::{PortControl, Remedy, af_packet, af_xdp};
use stack::ip::InterfaceConfig;
use std::ffi::{c_char, c_int};
use std::path::Path;
use std::time::Instant;
use wire::{MacAddress, VlanId};

/// Connect to the socket, which another process listens on.
pub const LINERATE_CONNECT: u32 = 0;
/// Listen on the socket, to which another process connects.
pub const LINERATE_LISTEN: u32 = 1;

/// MTU if none is given.
const MTU: u16 = 1500;
/// Smallest MTU that IPv6 permits (RFC 8200 section 5).
const MIN_MTU: u16 = 1280;

/// Settings of an interface. Zero selects the default of a field.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct linerate_interface {
    /// Ethernet address; by default a random one of local administration.
    pub mac: [u8; 6],
    /// Maximum length of an IP packet in bytes, 1280 to 65535; 1500 by default.
    pub mtu: u16,
    /// VLAN of all frames, 1 to 4094; by default, frames are untagged.
    pub vlan: u16,
}

fn config(interface: &linerate_interface) -> Result<InterfaceConfig, Failure> {
    let linerate_interface { mac, mtu, vlan } = *interface;
    if mac[0] & 1 != 0 {
        return Err(invalid("interface.mac is a group address", "clear the lowest bit of its first byte"));
    }
    if mtu != 0 && mtu < MIN_MTU {
        return Err(invalid(format_args!("interface.mtu is {mtu}"), "pass 1280 to 65535"));
    }
    let is_vlan = VlanId::new(vlan).filter(|_| (1..=4094).contains(&vlan));
    if vlan != 0 && is_vlan.is_none() {
        return Err(invalid(format_args!("interface.vlan is {vlan}"), "pass 1 to 4094"));
    }
    let mac = if mac == [0; 6] { host::random_mac() } else { MacAddress::new(mac) };
    Ok(InterfaceConfig { mac, mtu: if mtu == 0 { MTU } else { mtu }, vlan: is_vlan })
}

/// Result of opening a port.
pub(crate) type Opened = Result<Box<dyn PortControl>, Failure>;

/// A port, or the reason why it was not opened.
fn opened<P: PortControl + 'static>(port: Result<P, impl Remedy>) -> Opened {
    port.map(|port| Box::new(port) as _).map_err(|error| refused(&error))
}

fn refused(error: &dyn Remedy) -> Failure {
    let remedy = error.remedy();
    Failure::new(
        code::NO_DEVICE,
        format_args!("cannot open the port: {error}"),
        remedy.as_deref().unwrap_or("retry"),
    )
}

/// Whether to listen.
fn listens(mode: u32) -> Result<bool, Failure> {
    match mode {
        LINERATE_CONNECT | LINERATE_LISTEN => Ok(mode == LINERATE_LISTEN),
        _ => Err(invalid(format_args!("mode is {mode}"), "pass LINERATE_CONNECT or LINERATE_LISTEN")),
    }
}

/// Opens a port named by the text at `name`, with this many queue pairs, and adds it to a host. Returns the number of
/// the interface.
///
/// # Safety
/// By the contract of the interface.
unsafe fn add(
    host: *mut linerate_host,
    name: *const c_char,
    interface: *const linerate_interface,
    open: impl FnOnce(&str, u16) -> Opened,
) -> c_int {
    let work = |inner: &mut Inner| {
        // SAFETY: null or a string, by the caller's contract.
        let name = unsafe { text(name, "the name of the port") }?;
        // SAFETY: null or an object, by the caller's contract.
        let config = config(&unsafe { interface.as_ref() }.copied().unwrap_or_default())?;
        let Inner { queue, worker, .. } = inner;
        let id = match worker {
            Some(worker) => worker.add(queue.host(), name, &config, |pairs| open(name, pairs))?,
            None => queue.host().add_port(LocalPort::new(name, open(name, 1)?), config),
        };
        Ok(id.0.into())
    };
    // SAFETY: by the caller's contract.
    unsafe { call_host(host, work) }
}

/// Opens a TAP interface of the kernel, which is created if it does not exist; for several hosts, it is a multi-queue
/// interface. `netns` is the name of its network
/// namespace or the path of one; NULL for that of the process. `interface` may be NULL. Returns the number of the
/// interface.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_open_tap(
    host: *mut linerate_host,
    name: *const c_char,
    netns: *const c_char,
    interface: *const linerate_interface,
) -> c_int {
    let open = |name: &str, queue_pairs| {
        // SAFETY: null or a string, by the contract of the interface.
        let netns = unsafe { optional_text(netns, "netns") }?.map(str::to_owned);
        opened(Tap::open(tap::Options { netns, queue_pairs, ..tap::Options::new(name) }, Instant::now()))
    };
    // SAFETY: by the contract of the interface.
    unsafe { add(host, name, interface, open) }
}

/// Opens a vhost-user port, whose peer is a virtual machine or a virtio-user port. `mode` is LINERATE_CONNECT or
/// LINERATE_LISTEN. `interface` may be NULL. Returns the number of the interface.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_open_vhost_user(
    host: *mut linerate_host,
    socket: *const c_char,
    mode: u32,
    interface: *const linerate_interface,
) -> c_int {
    let open = |path: &str, queue_pairs| {
        let options = vhost_user::Options { queue_pairs, ..vhost_user::Options::default() };
        opened(if listens(mode)? {
            VhostUser::listen(path, options)
        } else {
            VhostUser::connect(path, options, Instant::now())
        })
    };
    // SAFETY: by the contract of the interface.
    unsafe { add(host, socket, interface, open) }
}

/// Opens a virtio-user port, whose peer is a vhost-user port, such as one of a switch, with a queue pair for each host.
/// Otherwise as linerate_open_vhost_user.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_open_virtio_user(
    host: *mut linerate_host,
    socket: *const c_char,
    mode: u32,
    interface: *const linerate_interface,
) -> c_int {
    let open = |path: &str, queue_pairs| {
        let options = virtio_user::Options { queue_pairs, ..virtio_user::Options::default() };
        opened(if listens(mode)? {
            VirtioUser::listen(path, options)
        } else {
            VirtioUser::connect(path, options, Instant::now())
        })
    };
    // SAFETY: by the contract of the interface.
    unsafe { add(host, socket, interface, open) }
}

/// Opens a memif port. `socket` is a path, or "@name" for an abstract socket. `id` is the number of the interface
/// behind the socket, the same at both ends. `secret` may be NULL. Otherwise as linerate_open_vhost_user.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_open_memif(
    host: *mut linerate_host,
    socket: *const c_char,
    mode: u32,
    id: u32,
    secret: *const c_char,
    interface: *const linerate_interface,
) -> c_int {
    let open = |path: &str, queue_pairs| {
        // SAFETY: null or a string, by the contract of the interface.
        let secret = unsafe { optional_text(secret, "secret") }?.map(parsed_secret).transpose()?;
        let options = memif::Options { id, secret, queue_pairs, ..Default::default() };
        let path = Path::new(path);
        opened(if listens(mode)? {
            Memif::listen(path, options)
        } else {
            Memif::connect(path, options, Instant::now())
        })
    };
    // SAFETY: by the contract of the interface.
    unsafe { add(host, socket, interface, open) }
}

fn parsed_secret(words: &str) -> Result<Secret, Failure> {
    Secret::new(words).ok_or_else(|| invalid("the secret does not fit a message", "pass 1 to 24 bytes"))
}

/// An interface of the kernel.
///
/// # Safety
/// `netns` is null or a string.
unsafe fn place(name: &str, netns: *const c_char) -> Result<Place, Failure> {
    // SAFETY: by the caller's contract.
    let netns = unsafe { optional_text(netns, "netns") }?;
    Ok(Place { interface: name.to_owned(), netns: netns.map(Namespace::new) })
}

/// Opens an AF_XDP port on an interface of the kernel, which must have one queue for each host that opens it. The
/// program receives all of its frames. Parameters as of linerate_open_tap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_open_af_xdp(
    host: *mut linerate_host,
    name: *const c_char,
    netns: *const c_char,
    interface: *const linerate_interface,
) -> c_int {
    let open = |name: &str, queue_pairs| {
        // SAFETY: null or a string, by the contract of the interface.
        let place = unsafe { place(name, netns) }?;
        af_xdp::open(af_xdp::Options { queue_pairs, ..af_xdp::Options::new(place) })
            .map_err(|error| refused(&error))
    };
    // SAFETY: by the contract of the interface.
    unsafe { add(host, name, interface, open) }
}

/// Opens an AF_PACKET port on an interface of the kernel. The kernel receives the frames as well, so it must not have
/// addresses of the host. Parameters as of linerate_open_tap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_open_af_packet(
    host: *mut linerate_host,
    name: *const c_char,
    netns: *const c_char,
    interface: *const linerate_interface,
) -> c_int {
    let open = |name: &str, queue_pairs| {
        // SAFETY: null or a string, by the contract of the interface.
        let place = unsafe { place(name, netns) }?;
        af_packet::open(af_packet::Options { queue_pairs, ..af_packet::Options::new(place) })
            .map_err(|error| refused(&error))
    };
    // SAFETY: by the contract of the interface.
    unsafe { add(host, name, interface, open) }
}
