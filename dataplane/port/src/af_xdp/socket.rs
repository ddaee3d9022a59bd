//! One `AF_XDP` socket: creation, binding to a queue of the interface, and system calls that wake the kernel.

use super::options::{BusyPoll, Mode, Options};
use super::rings::{Consumer, Piece, Producer};
use super::umem::Umem;
use crate::interface::{InterfaceError, LinkState, Place, Watch, sys};
use core::sync::atomic::{AtomicBool, Ordering};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XdpOptionsFlags, XdpUmemReg,
    XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::sync::Arc;

// mmap offsets of the rings of a socket (linux/if_xdp.h).
const RX_RING: u64 = 0;
const TX_RING: u64 = 0x8000_0000;
const FILL_RING: u64 = 0x1_0000_0000;
const COMPLETION_RING: u64 = 0x1_8000_0000;

const SOL_XDP: i32 = 283;
/// `XDP_MAX_TX_SKB_BUDGET`, Linux 6.18: maximum packets sent per call in copy mode.
const MAX_TX_BUDGET: i32 = 9;
const SO_BUSY_POLL: i32 = 46;
const SO_PREFER_BUSY_POLL: i32 = 69;
const SO_BUSY_POLL_BUDGET: i32 = 70;
/// Microseconds for which the kernel may poll the interface in one call.
const BUSY_POLL_TIME: i32 = 20;

/// Upper bound for the kernel's socket-buffer accounting of one packet.
const BUFFER: usize = 4096;

/// Maximum calls per [`Socket::send`]. Kernels before 6.18 send 32 packets per call.
const MAX_CALLS: u32 = 128;

/// Shared by the receive and the transmit queue.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    polls: bool,
    link: LinkState,
    /// Whether the kernel left entries in the transmit ring and must be called again.
    wake_up: AtomicBool,
}

/// A socket with its rings. `Rx` puts every receive frame into the fill ring.
#[derive(Debug)]
pub(super) struct BoundSocket {
    pub(super) socket: Arc<Socket>,
    pub(super) received: Consumer<Piece>,
    pub(super) fill: Producer<u64>,
    pub(super) to_send: Producer<Piece>,
    pub(super) sent: Consumer<u64>,
}

/// Creates the socket of `queue` and binds it. The first socket registers the UMEM; the others share it.
pub(super) fn make(
    options: &Options,
    watch: &Watch,
    umem: &Umem,
    queue: u16,
    first: Option<&Socket>,
) -> Result<BoundSocket, InterfaceError> {
    let place = &options.place;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, flags, None);
    let fd = fd.map_err(|errno| no_socket(place, errno))?;
    let refused = place.refused("setting up an AF_XDP socket");
    if first.is_none() {
        register(&fd, umem).map_err(|errno| no_memory(place, errno, umem))?;
    }
    let made = map_rings(fd, u32::from(options.ring), options.busy_poll, watch.link()).map_err(&refused)?;
    bind(options, watch.index, queue, &made.socket, first, umem.has_pieces())
        .map_err(|errno| not_bound(options, queue, errno))?;
    // Not supported before Linux 6.18; a call then sends 32 packets and more calls are needed.
    let _ = sys::set(made.socket.fd.as_fd(), SOL_XDP, MAX_TX_BUDGET, &u32::from(options.ring));
    // Allows a whole ring in flight on a slow interface. Fails without CAP_NET_ADMIN; then fewer packets are in
    // flight.
    let _ = sockopt::set_socket_send_buffer_size_force(&made.socket.fd, usize::from(options.ring) * BUFFER);
    Ok(made)
}

fn register(fd: &OwnedFd, umem: &Umem) -> Result<(), Errno> {
    let (addr, len) = umem.extent();
    let (chunk_size, flags) = (umem.frame_size(), XdpUmemRegFlags::empty());
    sockopt::set_xdp_umem_reg(
        fd,
        XdpUmemReg { addr, len, chunk_size, headroom: 0, flags, tx_metadata_len: 0 },
    )
}

fn map_rings(
    fd: OwnedFd,
    size: u32,
    busy_poll: Option<BusyPoll>,
    link: &LinkState,
) -> Result<BoundSocket, Errno> {
    sockopt::set_xdp_umem_fill_ring_size(&fd, size)?;
    sockopt::set_xdp_umem_completion_ring_size(&fd, size)?;
    sockopt::set_xdp_rx_ring_size(&fd, size)?;
    sockopt::set_xdp_tx_ring_size(&fd, size)?;
    if let Some(BusyPoll { budget }) = busy_poll {
        sys::set(fd.as_fd(), libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, &1_i32)?;
        sys::set(fd.as_fd(), libc::SOL_SOCKET, SO_BUSY_POLL, &BUSY_POLL_TIME)?;
        sys::set(fd.as_fd(), libc::SOL_SOCKET, SO_BUSY_POLL_BUDGET, &i32::from(budget))?;
    }
    let parts = sockopt::xdp_mmap_offsets(&fd)?;
    Ok(BoundSocket {
        received: Consumer::map(fd.as_fd(), RX_RING, &parts.rx, size)?,
        fill: Producer::map(fd.as_fd(), FILL_RING, &parts.fr, size)?,
        to_send: Producer::map(fd.as_fd(), TX_RING, &parts.tx, size)?,
        sent: Consumer::map(fd.as_fd(), COMPLETION_RING, &parts.cr, size)?,
        socket: Arc::new(Socket {
            fd,
            polls: busy_poll.is_some(),
            link: link.clone(),
            wake_up: AtomicBool::new(false),
        }),
    })
}

/// Sockets after the first inherit its bind flags; the kernel rejects flags repeated with a shared UMEM.
fn bind(
    options: &Options,
    interface: u32,
    queue: u16,
    socket: &Socket,
    first: Option<&Socket>,
    pieces: bool,
) -> Result<(), Errno> {
    let queue = u32::from(queue);
    if let Some(first) = first {
        let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, interface, queue);
        let addr = SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: first.fd.as_fd() };
        return rustix::net::bind(&socket.fd, &addr);
    }
    let mut flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    flags |= match options.mode {
        Mode::Auto => SocketAddrXdpFlags::empty(),
        Mode::Copy => SocketAddrXdpFlags::XDP_COPY,
        Mode::ZeroCopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
    };
    if pieces {
        flags |= SocketAddrXdpFlags::XDP_USE_SG;
    }
    rustix::net::bind(&socket.fd, &SocketAddrXdp::new(flags, interface, queue))
}

/// Error for a failed creation of a socket.
fn no_socket(place: &Place, errno: Errno) -> InterfaceError {
    match errno {
        Errno::AFNOSUPPORT => InterfaceError::Unsupported(
            format!("this kernel has no AF_XDP sockets, so {place} cannot be a port of kind \"af_xdp\""),
            "write kind = \"af_packet\", or boot a kernel with CONFIG_XDP_SOCKETS".into(),
        ),
        _ => place.refused("making an AF_XDP socket")(errno),
    }
}

fn no_memory(place: &Place, errno: Errno, umem: &Umem) -> InterfaceError {
    let bytes = umem.extent().1;
    match errno {
        Errno::NOBUFS | Errno::NOMEM => {
            InterfaceError::Memory(place.clone(), format!("{errno} for {bytes} bytes of locked memory"))
        }
        _ => place.refused("registering the port's memory")(errno),
    }
}

/// Error for a failed bind to a queue.
fn not_bound(options: &Options, queue: u16, errno: Errno) -> InterfaceError {
    let place = &options.place;
    match errno {
        Errno::BUSY => InterfaceError::Taken(
            place.clone(),
            format!("has an AF_XDP socket of another program at queue {queue}"),
            "end that program first".into(),
        ),
        Errno::OPNOTSUPP | Errno::PROTONOSUPPORT if options.mode == Mode::ZeroCopy => {
            InterfaceError::Unsupported(
                format!("the driver of {place} has no zero copy"),
                "write mode = \"auto\" or \"copy\"".into(),
            )
        }
        Errno::INVAL => InterfaceError::Unsupported(
            format!("queue {queue} of {place} cannot be bound"),
            format!(
                "`ethtool -l {}` shows the number of queues, and an MTU beyond 1770 needs Linux 6.6",
                place.interface
            ),
        ),
        _ => place.refused("binding an AF_XDP socket")(errno),
    }
}

impl Socket {
    /// Whether the socket is bound in zero-copy mode.
    pub(super) fn is_zero_copy(&self) -> bool {
        sockopt::xdp_options(&self.fd).is_ok_and(|o| o.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    /// Link state of the interface.
    #[inline(always)]
    pub(super) fn link(&self) -> &LinkState {
        &self.link
    }

    /// Whether busy polling is enabled: [`Socket::receive`] polls the interface.
    #[inline(always)]
    pub(super) fn polls(&self) -> bool {
        self.polls
    }

    /// Has the kernel process the fill ring and, with busy polling, poll the interface.
    pub(super) fn receive(&self) {
        // The result is ignored: frames appear in the ring, and the interface watch detects a removed interface.
        let _ = rustix::net::recv(&self.fd, &mut [0; 0][..], RecvFlags::DONTWAIT);
    }

    /// Has the kernel process the transmit ring until it is empty or the kernel accepts no more. `waiting` returns
    /// the number of entries not consumed yet.
    pub(super) fn send(&self, mut waiting: impl FnMut() -> u32) {
        let mut wake_up = true;
        for _ in 0..MAX_CALLS {
            let result = rustix::net::send(&self.fd, &[], SendFlags::DONTWAIT);
            wake_up = match result {
                // The call reached its budget, or the kernel has no buffers.
                Ok(_) | Err(Errno::AGAIN) => waiting() > 0,
                Err(Errno::NOBUFS | Errno::BUSY | Errno::INTR) => true,
                // The interface is down or removed; retrying does not help, and the interface watch detects it.
                Err(_) => false,
            };
            if !wake_up || matches!(result, Err(Errno::NOBUFS | Errno::BUSY)) {
                break;
            }
        }
        if wake_up != self.must_wake_up() {
            self.wake_up.store(wake_up, Ordering::Relaxed);
        }
    }

    /// Whether the kernel must be called again although no new packet was sent.
    #[inline(always)]
    pub(super) fn must_wake_up(&self) -> bool {
        self.wake_up.load(Ordering::Relaxed)
    }

    /// Calls the kernel once for entries left in the transmit ring.
    #[cold]
    pub(super) fn settle(&self) {
        match rustix::net::send(&self.fd, &[], SendFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::BUSY | Errno::INTR) => {}
            _ => self.wake_up.store(false, Ordering::Relaxed),
        }
    }

    /// Frames dropped by the kernel for lack of space on this socket.
    pub(super) fn missed(&self) -> u64 {
        let counted = sockopt::xdp_statistics(&self.fd);
        counted.map_or(0, |counted| counted.rx_dropped + counted.rx_ring_full.unwrap_or(0))
    }

    /// Pending error of the socket, which makes it unusable.
    pub(super) fn error(&self) -> Option<Errno> {
        sockopt::socket_error(&self.fd).ok().and_then(Result::err)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Remedy;

    fn options() -> Options {
        Options::new(Place { interface: "eth0".to_owned(), netns: None })
    }

    #[test]
    fn kernel_without_af_xdp_yields_one_error() {
        let error = no_socket(&options().place, Errno::AFNOSUPPORT).in_one_line();
        assert!(error.contains("this kernel has no AF_XDP sockets, so eth0"), "{error}");
        assert!(error.contains("write kind = \"af_packet\""), "{error}");
        assert!(matches!(no_socket(&options().place, Errno::PERM), InterfaceError::Forbidden(..)));
    }

    #[test]
    fn bind_errors_have_reason_and_remedy() {
        let taken = not_bound(&options(), 3, Errno::BUSY).in_one_line();
        assert!(taken.contains("eth0 has an AF_XDP socket of another program at queue 3"), "{taken}");
        let none = not_bound(&options(), 9, Errno::INVAL).in_one_line();
        assert!(none.contains("queue 9 of eth0") && none.contains("ethtool -l eth0"), "{none}");
        let zero = Options { mode: Mode::ZeroCopy, ..options() };
        let error = not_bound(&zero, 0, Errno::OPNOTSUPP).in_one_line();
        assert!(error.contains("no zero copy; write mode"), "{error}");
    }
}
