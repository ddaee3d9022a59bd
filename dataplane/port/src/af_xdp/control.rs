//! Opens an `AF_XDP` port on its interface: memory, sockets, then the program, so that no frame is redirected to a
//! socket that cannot receive it. Everything is released when the port is closed, at the latest when the process
//! exits.

use super::assembler::Instruction;
use super::fast_path::{FastPath, FastPort};
use super::options::{Attachment, Options};
use super::peer;
use super::program::{Action, compile};
use super::rx::Rx;
use super::socket::{self, BoundSocket, Socket};
use super::sys::{self, Hook, Map};
use super::tx;
use super::umem::Umem;
use crate::interface::{
    self, Doorbell, HeldResource, InterfaceError, InterfacePort, Kind, Opened, Pair, Place, Watch,
};
use crate::{PortControl, RxQueue};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::sync::Arc;

/// Opens a port on its interface. Its queues run once the engine has attached it.
///
/// # Errors
/// [`InterfaceError`] names the cause and the remedy. Nothing remains on the interface then.
pub fn open(options: Options) -> Result<Box<dyn PortControl>, InterfaceError> {
    options.check()?;
    Ok(Box::new(InterfacePort::open(AfXdp { options })?))
}

#[derive(Debug)]
struct AfXdp {
    options: Options,
}

/// Kernel state held by the port: the program's link, its socket map, promiscuous mode, and the share of the fast path.
struct KernelState {
    _link: OwnedFd,
    _map: Map,
    _promiscuous: OwnedFd,
    _fast_path: Option<FastPort>,
}

impl Kind for AfXdp {
    const NAME: &'static str = "af_xdp";

    fn place(&self) -> &Place {
        &self.options.place
    }

    fn open(&self, watch: &Watch) -> Result<Opened, InterfaceError> {
        let options = &self.options;
        let place = &options.place;
        watch.check_queues(options.queue_pairs)?;
        let umem = Arc::new(Umem::new(place, options.queue_pairs, options.ring, watch.mtu()?)?);
        let made = sockets(options, watch, &umem)?;
        let map =
            sys::create_map(u32::from(options.queue_pairs)).map_err(place.refused("making a BPF map"))?;
        for (queue, made) in (0..).zip(&made) {
            let put = sys::put_socket(&map, queue, made.socket.as_fd());
            put.map_err(place.refused("putting a socket into a BPF map"))?;
        }
        let promiscuous = interface::sys::keep_promiscuous(watch.index);
        let promiscuous = promiscuous.map_err(place.refused("making the interface promiscuous"))?;
        let fast_path = fast_path(options, watch, umem.has_pieces())?;
        let lane = fast_path.as_ref().map(FastPort::lane);
        let code = compile(&options.to_kernel, lane, map.as_fd().as_raw_fd(), Action::Pass);
        let (link, hook) = attach(options, watch, &code, umem.has_pieces())?;
        // In these cases frames come from a local kernel, which may have left checksums to offload.
        let local = hook == Hook::Generic || watch.is_veth();
        let zero_copy = made.first().is_some_and(|made| made.socket.is_zero_copy());
        let sockets: Vec<_> = made.iter().map(|made| made.socket.clone()).collect();
        Ok(Opened {
            rss: watch.rss(),
            missed: Box::new(move || sockets.iter().map(|socket| socket.missed()).sum()),
            features: features(options, &umem, hook, zero_copy),
            size: options.ring,
            memory: (1, umem.extent().1),
            pairs: pairs(made, &umem, local).map_err(place.refused("making an epoll set"))?,
            sockets: Vec::new(),
            keep: HeldResource::new(KernelState {
                _link: link,
                _map: map,
                _promiscuous: promiscuous,
                _fast_path: fast_path,
            }),
        })
    }
}

fn pairs(made: Vec<BoundSocket>, umem: &Arc<Umem>, local: bool) -> Result<Vec<Pair>, Errno> {
    let pair = |(queue, made)| {
        let (rx, parts) = Rx::new(queue, umem, made, Doorbell::new()?, local);
        Ok((Box::new(rx) as Box<dyn RxQueue>, tx::start(parts)))
    };
    (0..).zip(made).map(pair).collect()
}

fn sockets(options: &Options, watch: &Watch, umem: &Umem) -> Result<Vec<BoundSocket>, InterfaceError> {
    let mut made: Vec<BoundSocket> = Vec::new();
    for queue in 0..options.queue_pairs {
        let first: Option<&Socket> = made.first().map(|made| &*made.socket);
        let next = socket::make(options, watch, umem, queue, first)?;
        made.push(next);
    }
    Ok(made)
}

/// Prepares the kernel fast path, if the port has one.
fn fast_path(options: &Options, watch: &Watch, pieces: bool) -> Result<Option<FastPort>, InterfaceError> {
    let (Some(own), place) = (&options.fast_path, &options.place) else { return Ok(None) };
    let mtu = peer::prepare(place, watch.index, own.peer.as_ref())?.min(watch.mtu()?);
    if pieces {
        return Err(InterfaceError::Unsupported(
            format!("`kernel_fast_path` does not support packets as long as the MTU of {place} allows"),
            "lower its MTU to at most 1770, or remove `kernel_fast_path`".into(),
        ));
    }
    let refused = place.refused("making the maps of the kernel fast path");
    let path = FastPath::of_process().map_err(&refused)?;
    // The length of an Ethernet header is not part of the MTU.
    path.open(&own.name, watch.index, mtu + 14).map(Some).map_err(refused)
}

/// Loads the program and attaches it. By default native mode is tried before generic mode.
fn attach(
    options: &Options,
    watch: &Watch,
    code: &[Instruction],
    pieces: bool,
) -> Result<(OwnedFd, Hook), InterfaceError> {
    let program = sys::load(code, pieces).map_err(|errno| not_loaded(options, errno, code, pieces))?;
    let hooks: &[Hook] = match options.attachment {
        Attachment::Auto if options.fast_path.is_none() => &[Hook::Native, Hook::Generic],
        Attachment::Auto | Attachment::Native => &[Hook::Native],
        Attachment::Generic => &[Hook::Generic],
    };
    let mut refusal = Errno::OPNOTSUPP;
    for &hook in hooks {
        match sys::attach(program.as_fd(), watch.index, hook) {
            Ok(link) => return Ok((link, hook)),
            // Another program is attached; the other hook would fail, too.
            Err(errno @ (Errno::BUSY | Errno::EXIST)) => return Err(not_attached(options, errno)),
            Err(errno) => refusal = errno,
        }
    }
    Err(not_attached(options, refusal))
}

/// Error for a program that was not loaded, with the verifier's reason.
fn not_loaded(options: &Options, errno: Errno, code: &[Instruction], pieces: bool) -> InterfaceError {
    let place = &options.place;
    match errno {
        Errno::ACCESS | Errno::INVAL => InterfaceError::Unsupported(
            format!(
                "the kernel's verifier rejects the XDP program of {place}: {}",
                sys::explain(code, pieces)
            ),
            "remove `kernel_fast_path` or rules of `to_kernel`, or use a newer kernel".into(),
        ),
        _ => place.refused("loading the XDP program")(errno),
    }
}

fn not_attached(options: &Options, errno: Errno) -> InterfaceError {
    let place = &options.place;
    match errno {
        Errno::BUSY | Errno::EXIST => InterfaceError::Taken(
            place.clone(),
            "has another XDP program".into(),
            format!("end the program that attached it, or `ip link set dev {} xdp off`", place.interface),
        ),
        Errno::OPNOTSUPP | Errno::INVAL | Errno::RANGE if options.attachment == Attachment::Native => {
            InterfaceError::Unsupported(
                format!("the driver of {place} takes no XDP program as the interface is set up ({errno})"),
                "write attach = \"auto\", or lower its MTU".into(),
            )
        }
        _ => place.refused("attaching the XDP program")(errno),
    }
}

fn features(options: &Options, umem: &Umem, hook: Hook, zero_copy: bool) -> Vec<&'static str> {
    let mut features = vec![match hook {
        Hook::Native => "native",
        Hook::Generic => "generic",
    }];
    features.push(if zero_copy { "zero-copy" } else { "copy" });
    if umem.has_pieces() {
        features.push("multi-buffer");
    }
    if options.busy_poll.is_some() {
        features.push("busy-poll");
    }
    if !options.to_kernel.is_empty() {
        features.push("to-kernel");
    }
    if options.fast_path.is_some() {
        features.push("kernel-fast-path");
    }
    features
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Remedy;

    #[test]
    fn attach_errors_have_reason_and_remedy() {
        let mut options = Options::new(Place { interface: "eth0".to_owned(), netns: None });
        let error = not_attached(&options, Errno::BUSY).in_one_line();
        assert!(error.contains("eth0 has another XDP program") && error.contains("xdp off"), "{error}");
        assert!(matches!(not_attached(&options, Errno::OPNOTSUPP), InterfaceError::Kernel(..)));
        options.attachment = Attachment::Native;
        let error = not_attached(&options, Errno::OPNOTSUPP).in_one_line();
        assert!(error.contains("the driver of eth0 takes no XDP program"), "{error}");
    }
}
