//! Control side of a wrapped port: the inner port plus the wrappers' files.

use super::attach::{Sending, WrapAttach, WrapQueues};
use super::counts::Counts;
use super::fault_rx::FaultRx;
use super::fault_tx::FaultTx;
use super::gather::GatherTx;
use super::handover::Wrapper;
use super::inspect::InspectRx;
use super::options::{Capture, Directions, Faults, Trace, TxCoalesce, Wrappers};
use super::record::{RecordTx, Recording};
use super::release::{DelayedTx, ReleaseRx};
use crate::Remedy;
use crate::eventfd;
use crate::handover::{HandOver, Handover, NotHandedOver};
use crate::spool::{CreateError, Format, Output, Spool};
use crate::{
    Attach, PortControl, PortDetail, PortDetails, PortFault, PortStatus, RssTable, RxQueue, TxQueue,
};
use mem::copy::Kernel;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a packet used by a trace.
const TRACE_BYTES: u32 = crate::HEAD as u32;
/// Part of a description: the file of a capture.
const CAPTURE: u8 = 0xf0;
/// Part of a description: the file of a trace.
const TRACE: u8 = 0xf1;
/// Refresh interval of the fault counters.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// A port cannot be wrapped. It was not changed.
#[derive(Debug, thiserror::Error)]
pub enum WrapError {
    /// The file of a capture or trace cannot be created.
    #[error("{0}: {1}")]
    File(&'static str, CreateError),
    /// Out of file descriptors.
    #[error("the port cannot be wrapped: {0}")]
    Descriptor(#[from] rustix::io::Errno),
}

impl Remedy for WrapError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Descriptor(..) => "close something, or raise the limit of open files".into(),
            Self::File(_, error) => return error.remedy(),
        })
    }
}

/// Wraps the port `name` in `wrappers`. Returns it unchanged if there are none.
pub fn wrap(
    inner: Box<dyn PortControl>,
    name: &str,
    wrappers: &Wrappers,
) -> Result<Box<dyn PortControl>, WrapError> {
    wrap_by(inner, name, wrappers, Recorder::create)
}

/// [`wrap`] for a port that continues the one of another process, with its files ([`PortControl::as_handover`]).
pub fn wrap_successor(
    inner: Box<dyn PortControl>,
    name: &str,
    wrappers: &Wrappers,
) -> Result<Box<dyn PortControl>, WrapError> {
    wrap_by(inner, name, wrappers, Recorder::successor)
}

/// Creates the spool of a file.
type Create = fn(&Recorded<'_>, &str, Arc<OwnedFd>) -> Result<Spool, WrapError>;

fn wrap_by(
    inner: Box<dyn PortControl>,
    name: &str,
    wrappers: &Wrappers,
    create: Create,
) -> Result<Box<dyn PortControl>, WrapError> {
    if *wrappers == Wrappers::default() {
        return Ok(inner);
    }
    Ok(Box::new(Wrapped::new(inner, name, wrappers, create)?))
}

/// A file to be written.
struct Recorded<'a> {
    what: &'static str,
    output: &'a Output,
    format: Format,
    snap: Option<u32>,
}

/// A spool with its file path.
struct Recorder {
    spool: Spool,
    path: PathBuf,
    directions: Directions,
    names: [PortDetail; 4],
}

impl Recorder {
    /// Creates the file.
    fn create(file: &Recorded<'_>, name: &str, doorbell: Arc<OwnedFd>) -> Result<Spool, WrapError> {
        let made = Spool::create(file.output, file.format, name, file.snap, doorbell);
        made.map_err(|error| WrapError::File(file.what, error))
    }

    /// Continues the file of another process later.
    #[expect(clippy::unnecessary_wraps, reason = "the shape of `Create`")]
    fn successor(file: &Recorded<'_>, name: &str, doorbell: Arc<OwnedFd>) -> Result<Spool, WrapError> {
        Ok(Spool::successor(file.format, name, file.snap, doorbell))
    }

    fn capture(
        capture: &Capture,
        create: impl FnOnce(&Recorded<'_>) -> Result<Spool, WrapError>,
    ) -> Result<Self, WrapError> {
        let Capture { output, snap, directions } = capture;
        let names =
            [PortDetail::Capture, PortDetail::Captured, PortDetail::CaptureMissed, PortDetail::CaptureEnded];
        let spool = create(&Recorded { what: "capture", output, format: Format::Pcapng, snap: *snap })?;
        Ok(Self { spool, path: output.path.clone(), directions: *directions, names })
    }

    fn trace(
        trace: &Trace,
        create: impl FnOnce(&Recorded<'_>) -> Result<Spool, WrapError>,
    ) -> Result<Self, WrapError> {
        let Trace { output, directions } = trace;
        let names = [PortDetail::Trace, PortDetail::Traced, PortDetail::TraceMissed, PortDetail::TraceEnded];
        let spool =
            create(&Recorded { what: "trace", output, format: Format::Text, snap: Some(TRACE_BYTES) })?;
        Ok(Self { spool, path: output.path.clone(), directions: *directions, names })
    }

    fn details(&self, details: &mut PortDetails) {
        let [path, written, missed, ended] = self.names;
        details.push((path, self.path.display().to_string()));
        details.push((written, self.spool.written().to_string()));
        details.push((missed, self.spool.missed().to_string()));
        details.extend(self.spool.failure().map(|reason| (ended, reason.to_owned())));
    }
}

/// Fault settings and counters.
struct FaultPath {
    faults: Faults,
    inward: Arc<Counts>,
    outward: Arc<Counts>,
}

/// Wrappers of a port.
struct Parts {
    capture: Option<Recorder>,
    trace: Option<Recorder>,
    wire: Option<FaultPath>,
    tx_coalesce: Option<TxCoalesce>,
}

/// A wrapped port.
struct Wrapped {
    inner: Box<dyn PortControl>,
    parts: Parts,
    doorbell: Arc<OwnedFd>,
    /// Epoll set of the doorbell and the inner port's descriptor.
    set: OwnedFd,
    next_status: Option<Instant>,
    closed: bool,
}

impl Wrapped {
    fn new(
        inner: Box<dyn PortControl>,
        name: &str,
        wrappers: &Wrappers,
        create: Create,
    ) -> Result<Self, WrapError> {
        let doorbell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&set, &doorbell, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        let (inward, outward) = (Arc::new(Counts::inward()), Arc::new(Counts::outward()));
        let create = |file: &Recorded<'_>| create(file, name, doorbell.clone());
        let parts = Parts {
            capture: wrappers.capture.as_ref().map(|c| Recorder::capture(c, create)).transpose()?,
            trace: wrappers.trace.as_ref().map(|t| Recorder::trace(t, create)).transpose()?,
            wire: wrappers.fault.clone().map(|faults| FaultPath { faults, inward, outward }),
            tx_coalesce: wrappers.tx_coalesce,
        };
        let wrapped = Self { inner, parts, doorbell, set, next_status: None, closed: false };
        wrapped.watch();
        Ok(wrapped)
    }

    /// Updates the epoll set with the inner port's current descriptor, which may have changed under the same number.
    fn watch(&self) {
        let Some(fd) = self.inner.poll_fd() else { return };
        // The delete usually fails because `fd` is not in the set; the add does not fail, because ports use sockets and
        // eventfds.
        let _ = epoll::delete(&self.set, fd);
        let _ = epoll::add(&self.set, fd, epoll::EventData::new_u64(1), epoll::EventFlags::IN);
    }

    fn recorders(&mut self) -> impl Iterator<Item = &mut Recorder> {
        self.parts.recorders().map(|(_, recorder)| recorder)
    }
}

impl PortControl for Wrapped {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.closed).then(|| self.set.as_fd())
    }

    fn deadline(&self) -> Option<Instant> {
        let spools = self.parts.capture.iter().chain(&self.parts.trace).filter_map(|r| r.spool.deadline());
        spools.chain(self.inner.deadline()).chain(self.next_status).min()
    }

    fn handle(&mut self, now: Instant, engine: &mut dyn Attach) {
        if self.closed {
            return;
        }
        eventfd::clear(&self.doorbell);
        self.with(engine, |inner, engine| inner.handle(now, engine));
        let epoch = engine.epoch();
        self.recorders().for_each(|recorder| recorder.spool.handle(now, epoch));
        let counts = self.parts.wire.is_some();
        if counts && self.next_status.is_none_or(|at| at <= now) {
            self.next_status = Some(now + STATUS_INTERVAL);
        }
    }

    fn fault(&mut self, now: Instant, fault: PortFault, engine: &mut dyn Attach) {
        self.with(engine, |inner, engine| inner.fault(now, fault, engine));
    }

    fn close(&mut self, engine: &mut dyn Attach) {
        self.with(engine, |inner, engine| inner.close(engine));
        let epoch = engine.epoch();
        self.recorders().for_each(|recorder| recorder.spool.close(epoch));
        self.closed();
    }

    fn as_handover(&mut self) -> Result<&mut dyn HandOver, NotHandedOver> {
        match self.inner.as_handover().map(drop) {
            // The other process creates the port anew, but not its files.
            Err(NotHandedOver::Internal) if self.recorders().next().is_some() => {
                Err(NotHandedOver::Wrapper("capture or trace"))
            }
            other => other.map(|()| self as _),
        }
    }

    fn status(&self) -> PortStatus {
        self.inner.status()
    }

    fn rss(&self) -> Option<RssTable> {
        self.inner.rss()
    }

    fn details(&self) -> PortDetails {
        let mut details = self.inner.details();
        for recorder in self.parts.capture.iter().chain(&self.parts.trace) {
            recorder.details(&mut details);
        }
        if let Some(wire) = &self.parts.wire {
            details.push((PortDetail::FaultSeed, wire.faults.seed.to_string()));
            details.extend(wire.inward.details().chain(wire.outward.details()));
        }
        details
    }
}

impl Wrapper for Wrapped {
    fn with<R>(
        &mut self,
        engine: &mut dyn Attach,
        act: impl FnOnce(&mut dyn PortControl, &mut dyn Attach) -> R,
    ) -> R {
        let done = act(self.inner.as_mut(), &mut WrapAttach::new(engine, &self.parts));
        self.watch();
        done
    }

    fn add_parts(&mut self, epoch: u64, handover: &mut Handover) -> Result<(), PortFault> {
        for (tag, recorder) in self.parts.recorders() {
            recorder.spool.hand_over(tag, epoch, handover)?;
        }
        Ok(())
    }

    fn take_parts(&mut self, handover: &mut Handover) -> Result<(), PortFault> {
        for (tag, recorder) in self.parts.recorders() {
            let part = handover.parts.iter().position(|part| part.tag == tag);
            let part = part.ok_or(PortFault::State("it has no file that is written"))?;
            recorder.spool.take_over(handover.parts.remove(part))?;
        }
        Ok(())
    }

    fn closed(&mut self) {
        (self.closed, self.next_status) = (true, None);
    }
}

impl WrapQueues for Parts {
    const RELEASE_PAIR: u16 = 0x8000;

    fn rx(&self, pair: u16, queue: Box<dyn RxQueue>) -> Result<Box<dyn RxQueue>, PortFault> {
        mem::with_kernel!(mem::copy::chosen(), K => self.rx_with::<K>(pair, queue))
    }

    fn tx(&self, pair: u16, queue: Box<dyn TxQueue>) -> Result<Sending, PortFault> {
        mem::with_kernel!(mem::copy::chosen(), K => self.tx_with::<K>(pair, queue))
    }
}

impl Parts {
    /// The recorders, with the tag of each in a description.
    fn recorders(&mut self) -> impl Iterator<Item = (u8, &mut Recorder)> {
        let capture = self.capture.iter_mut().map(|recorder| (CAPTURE, recorder));
        capture.chain(self.trace.iter_mut().map(|recorder| (TRACE, recorder)))
    }

    fn rx_with<K: Kernel>(
        &self,
        pair: u16,
        mut queue: Box<dyn RxQueue>,
    ) -> Result<Box<dyn RxQueue>, PortFault> {
        if let Some(capture) = self.capture.as_ref().filter(|capture| capture.directions.has_in()) {
            queue = Box::new(InspectRx::new(queue, Recording::<K>::new(capture.spool.feed())));
        }
        if let Some(wire) = self.wire.as_ref().filter(|wire| wire.faults.directions.has_in()) {
            queue = Box::new(FaultRx::<K>::new(queue, &wire.faults, pair, wire.inward.clone())?);
        }
        if let Some(trace) = self.trace.as_ref().filter(|trace| trace.directions.has_in()) {
            queue = Box::new(InspectRx::new(queue, Recording::<K>::new(trace.spool.feed())));
        }
        Ok(queue)
    }

    fn tx_with<K: Kernel>(&self, pair: u16, mut queue: Box<dyn TxQueue>) -> Result<Sending, PortFault> {
        let mut release: Option<Box<dyn RxQueue>> = None;
        if let Some(capture) = self.capture.as_ref().filter(|capture| capture.directions.has_out()) {
            queue = Box::new(RecordTx::<K>::new(queue, capture.spool.feed(), false));
        }
        if let Some(tx_coalesce) = self.tx_coalesce {
            queue = Box::new(GatherTx::<K>::new(queue, tx_coalesce)?);
        }
        if let Some(wire) = self.wire.as_ref().filter(|wire| wire.faults.directions.has_out()) {
            let (late, counts) = (Arc::new(DelayedTx::new(wire.faults.hold)?), wire.outward.clone());
            release = Some(Box::new(ReleaseRx::<K>::new(late.clone(), queue.fork(), counts.clone())));
            queue = Box::new(FaultTx::<K>::new(queue, &wire.faults, pair, late, counts)?);
        }
        if let Some(trace) = self.trace.as_ref().filter(|trace| trace.directions.has_out()) {
            queue = Box::new(RecordTx::<K>::new(queue, trace.spool.feed(), true));
        }
        Ok((queue, release))
    }
}
