//! Creates or finds the interface, configures offloads and brings it up.
//!
//! A failure leaves nothing behind: an interface created here is removed with its last descriptor, and becomes
//! persistent only after all other steps have succeeded.

use super::error::TapError;
use super::options::Options;
use super::sys;
use crate::interface::{Place, Watch};
use crate::netns::{self, Identity, Namespace};
use crate::{Capabilities, OFFLOAD_HEADER};
use libc::{IFF_MULTI_QUEUE, IFF_NO_PI, IFF_TAP, IFF_VNET_HDR};
use libc::{TUN_F_CSUM, TUN_F_TSO_ECN, TUN_F_TSO4, TUN_F_TSO6, TUN_F_USO4, TUN_F_USO6};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::Arc;

/// TCP and checksum offloads, supported by all kernels with `IFF_VNET_HDR`.
const TCP: libc::c_uint = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
/// UDP segmentation offload, since Linux 6.2.
const UDP: libc::c_uint = TUN_F_USO4 | TUN_F_USO6;

/// Size of the virtio-net header of each packet, in bytes.
const HEADER: libc::c_int = 10;
const _: () = assert!(HEADER as usize == OFFLOAD_HEADER);

/// An interface that is up, and its queues.
#[derive(Debug)]
pub(super) struct Device {
    queues: Arc<[OwnedFd]>,
    watch: Watch,
    capabilities: Capabilities,
    /// Namespace of the interface, if configured.
    home: Option<(Namespace, Identity)>,
}

impl Device {
    /// Finds or creates the interface. If a namespace is configured, the calling thread enters it temporarily.
    pub(super) fn open(options: &Options) -> Result<Self, TapError> {
        options.check()?;
        let namespace = options.netns.as_deref().map(Namespace::new);
        let (parts, identity) = netns::within(namespace.as_ref(), || Parts::open(options))?;
        let parts = parts?;
        let capabilities = parts.set_up(options)?;
        let home = namespace.zip(identity);
        Ok(Self { queues: parts.queues.into(), watch: parts.watch, capabilities, home })
    }

    /// Continues with the queues of another process. Other settings of the interface are those of that process.
    pub(super) fn adopt(options: &Options, queues: Vec<OwnedFd>) -> Result<Self, TapError> {
        let namespace = options.netns.as_deref().map(Namespace::new);
        let place = Place { interface: options.interface.clone(), netns: namespace };
        let (watch, identity) = netns::within(place.netns.as_ref(), || Watch::new(&place))?;
        let refused = |errno| TapError::Refused("set the offloads", options.interface.clone(), errno);
        let capabilities = queues.first().map(|queue| offload(queue.as_fd())).transpose().map_err(refused)?;
        let capabilities = capabilities.unwrap_or(Capabilities::NONE);
        Ok(Self { queues: queues.into(), watch: watch?, capabilities, home: place.netns.zip(identity) })
    }

    /// One descriptor per queue pair.
    pub(super) fn queues(&self) -> &Arc<[OwnedFd]> {
        &self.queues
    }

    /// Whether the interface has not been deleted.
    pub(super) fn exists(&self) -> bool {
        self.queues.iter().all(|queue| sys::is_attached(queue.as_fd()))
    }

    /// Supported offloads, in both directions.
    pub(super) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Reports changes of the link.
    pub(super) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Whether the namespace's name still refers to the interface's namespace. A descriptor held here would keep an
    /// otherwise deleted namespace alive, and traffic into an unreachable one would be lost uncounted.
    pub(super) fn is_at_home(&self) -> bool {
        self.home.as_ref().is_none_or(|(namespace, identity)| namespace.is(*identity))
    }
}

/// Resources to be opened inside the namespace.
struct Parts {
    socket: OwnedFd,
    queues: Vec<OwnedFd>,
    watch: Watch,
}

impl Parts {
    fn open(options: &Options) -> Result<Self, TapError> {
        let name = &options.interface;
        let refused = |errno| TapError::Refused("make a socket to speak", name.clone(), errno);
        let socket = sys::socket().map_err(refused)?;
        let existed = sys::exists(&socket, name);
        let queues =
            (0..options.queue_pairs).map(|_| queue(options, existed)).collect::<Result<Vec<_>, _>>()?;
        let netns = options.netns.as_deref().map(Namespace::new);
        let watch = Watch::new(&Place { interface: name.clone(), netns })?;
        Ok(Self { socket, queues, watch })
    }

    fn set_up(&self, options: &Options) -> Result<Capabilities, TapError> {
        let name = &options.interface;
        let refused = |what| move |errno| TapError::Refused(what, name.clone(), errno);
        for queue in &self.queues {
            sys::set_header(queue.as_fd(), HEADER).map_err(refused("set the header"))?;
        }
        let Some(first) = self.queues.first() else { return Ok(Capabilities::NONE) };
        let capabilities = offload(first.as_fd()).map_err(refused("set the offloads"))?;
        if let Some(mtu) = options.mtu {
            sys::set_mtu(self.socket.as_fd(), name, mtu).map_err(refused("set the MTU"))?;
        }
        sys::bring_up(self.socket.as_fd(), name).map_err(refused("bring up the link"))?;
        if options.persist {
            sys::persist(first.as_fd()).map_err(refused("set the persistence"))?;
        }
        Ok(capabilities)
    }
}

/// Opens one more queue of the interface.
fn queue(options: &Options, existed: bool) -> Result<OwnedFd, TapError> {
    let name = || options.interface.clone();
    let (more, kind) =
        if options.queue_pairs > 1 { (IFF_MULTI_QUEUE, "several queues") } else { (0, "one queue") };
    let tun = sys::open().map_err(TapError::NoTun)?;
    let attached = sys::attach(tun.as_fd(), &options.interface, IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | more);
    attached.map_err(|errno| match errno {
        Errno::PERM => TapError::Denied(name()),
        Errno::BUSY | Errno::TOOBIG => TapError::Busy(name()),
        Errno::INVAL if existed => TapError::Taken(name(), kind),
        errno => TapError::Refused("make a queue", name(), errno),
    })?;
    Ok(tun)
}

/// Enables all offloads supported by the kernel. The same offloads apply to packets read and written.
fn offload(tun: BorrowedFd<'_>) -> Result<Capabilities, Errno> {
    let tcp = Capabilities(Capabilities::ALL.0 & !Capabilities::UDP);
    match sys::set_offload(tun, TCP | UDP) {
        Ok(()) => Ok(Capabilities::ALL),
        Err(Errno::INVAL) => sys::set_offload(tun, TCP).map(|()| tcp),
        Err(errno) => Err(errno),
    }
}
