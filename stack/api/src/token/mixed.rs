//! A host and sockets of the kernel as one device, so that one wait covers both.
//!
//! The address of an operation selects the part. An idle host sleeps until its ports or the kernel have something: the
//! epoll instance of the sockets ends its sleep. A busy host looks at the sockets in every [`KERNEL_ROUNDS`]th round,
//! because each look is a system call.

use super::{Device, Kernel, Ports};
use host::{Buffer, Host};
use stack::Slice;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::task::Poll;
use std::time::Duration;

/// Rounds of a busy host between two looks at the kernel's sockets.
const KERNEL_ROUNDS: u32 = 16;

/// Ports below a stack of our own, and sockets of the kernel. A host has any number of ports.
pub struct Mixed {
    ports: Ports,
    kernel: Kernel,
    is_kernel: Box<dyn Fn(SocketAddr) -> bool + Send>,
    round: u32,
}

impl std::fmt::Debug for Mixed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mixed")
            .field("ports", &self.ports)
            .field("kernel", &self.kernel)
            .finish_non_exhaustive()
    }
}

/// Part of an end, and its number there.
enum Part {
    Ports(u32),
    Kernel(u32),
}

/// Parts alternate in the numbers of ends, so that each may grow.
const fn part(end: u32) -> Part {
    if end & 1 == 0 { Part::Ports(end >> 1) } else { Part::Kernel(end >> 1) }
}

const fn of_ports(end: u32) -> u32 {
    end << 1
}

const fn of_kernel(end: u32) -> u32 {
    end << 1 | 1
}

impl Mixed {
    /// Takes over a host with its ports. `is_kernel` tells whether the kernel has an address: the local one of a
    /// listener or of a queue of datagrams, the remote one of a connection.
    ///
    /// # Errors
    /// If epoll is not available.
    pub fn new(host: Host, is_kernel: impl Fn(SocketAddr) -> bool + Send + 'static) -> std::io::Result<Self> {
        let kernel = Kernel::new()?;
        let ports = Ports::woken_by(host, Some(kernel.events()));
        Ok(Self { ports, kernel, is_kernel: Box::new(is_kernel), round: 0 })
    }

    /// The host, without the kernel's sockets, which are closed.
    pub fn into_ports(self) -> Ports {
        self.ports
    }

    /// Opens an end in the part that has the address.
    fn open(
        &mut self,
        address: SocketAddr,
        of: impl FnOnce(&mut dyn Device, SocketAddr) -> Result<u32, ErrorKind>,
    ) -> Result<u32, ErrorKind> {
        if (self.is_kernel)(address) {
            of(&mut self.kernel, address).map(of_kernel)
        } else {
            of(&mut self.ports, address).map(of_ports)
        }
    }
}

/// Calls a function of the part that has an end.
macro_rules! dispatch {
    ($mixed:ident, $end:ident, $call:ident $(, $argument:expr)*) => {
        match part($end) {
            Part::Ports(end) => Device::$call(&mut $mixed.ports, end $(, $argument)*),
            Part::Kernel(end) => Device::$call(&mut $mixed.kernel, end $(, $argument)*),
        }
    };
}

impl Device for Mixed {
    fn listen(&mut self, local: SocketAddr) -> Result<u32, ErrorKind> {
        self.open(local, |device, local| device.listen(local))
    }

    fn connect(&mut self, remote: SocketAddr) -> Result<u32, ErrorKind> {
        self.open(remote, |device, remote| device.connect(remote))
    }

    fn bind(&mut self, local: SocketAddr) -> Result<u32, ErrorKind> {
        self.open(local, |device, local| device.bind(local))
    }

    fn bound(&mut self, end: u32) -> Result<SocketAddr, ErrorKind> {
        dispatch!(self, end, bound)
    }

    fn change_group(
        &mut self,
        end: u32,
        group: IpAddr,
        local: Option<IpAddr>,
        joins: bool,
    ) -> Result<(), ErrorKind> {
        dispatch!(self, end, change_group, group, local, joins)
    }

    fn poll_accept(&mut self, end: u32) -> Poll<Result<(u32, SocketAddr), ErrorKind>> {
        match part(end) {
            Part::Ports(end) => self.ports.poll_accept(end).map_ok(|(end, remote)| (of_ports(end), remote)),
            Part::Kernel(end) => {
                self.kernel.poll_accept(end).map_ok(|(end, remote)| (of_kernel(end), remote))
            }
        }
    }

    fn poll_connect(&mut self, end: u32) -> Poll<Result<(), ErrorKind>> {
        dispatch!(self, end, poll_connect)
    }

    #[inline]
    fn poll_push(&mut self, end: u32, data: &mut Option<Slice<Buffer>>) -> Poll<Result<(), ErrorKind>> {
        dispatch!(self, end, poll_push, data)
    }

    #[inline]
    fn poll_pop(&mut self, end: u32) -> Poll<Result<Option<Slice<Buffer>>, ErrorKind>> {
        dispatch!(self, end, poll_pop)
    }

    #[inline]
    fn poll_push_to(
        &mut self,
        end: u32,
        to: SocketAddr,
        data: &Slice<Buffer>,
    ) -> Poll<Result<(), ErrorKind>> {
        dispatch!(self, end, poll_push_to, to, data)
    }

    #[inline]
    fn poll_pop_from(&mut self, end: u32) -> Poll<Result<(SocketAddr, Slice<Buffer>), ErrorKind>> {
        dispatch!(self, end, poll_pop_from)
    }

    fn finish(&mut self, end: u32) -> Result<(), ErrorKind> {
        dispatch!(self, end, finish)
    }

    fn close(&mut self, end: u32) {
        dispatch!(self, end, close);
    }

    fn abort(&mut self, end: u32) {
        dispatch!(self, end, abort);
    }

    fn copy(&mut self, bytes: &[u8]) -> Slice<Buffer> {
        self.ports.copy(bytes)
    }

    #[inline]
    fn run(&mut self, limit: Duration, ready: &mut Vec<u32>) {
        let first = ready.len();
        self.ports.run(limit, ready);
        ready[first..].iter_mut().for_each(|end| *end = of_ports(*end));
        let of_host = ready.len();
        self.round = self.round.wrapping_add(1);
        if of_host == first || self.round.is_multiple_of(KERNEL_ROUNDS) {
            self.kernel.run(Duration::ZERO, ready);
            ready[of_host..].iter_mut().for_each(|end| *end = of_kernel(*end));
        }
    }
}
