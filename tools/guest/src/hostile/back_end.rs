//! A vhost-user back end that attacks the driver of a virtio-user port. It fills the driver's receive ring with the
//! frames of a plan and empties its transmit ring, with the ring code of the switch's own vhost-user port, and violates
//! the protocol as its [`Violation`] says.
//!
//! Each frame is written into a buffer once: the driver posts the same buffers again and their contents stay.

mod line;

use super::super::GuestError;
use super::arena::Area;
use super::device::Counts;
use super::frames::HEADER;
use super::group::Unit;
use super::plan::{Pace, Plan};
use core::sync::atomic::{Ordering, fence};
use line::Line;
use mem::Translator;
use port::vhost::Features;
use port::vhost::message::ProtocolFeatures;
use port::vhost_user::setup::QueueSetup;
use port::vhost_user::{BackEnd, BackEndError, Offer};
use ring::device::{DeviceRing, Packed, Split};
use ring::{BufId, Descriptor};
use std::collections::VecDeque;
use std::time::Duration;

/// Frames and buffers per turn, at most; the same as a greedy sender.
const BURST: usize = 64;
const BUDGET: usize = 256;
/// Frames sent before a protocol violation.
const VALID_FRAMES: u64 = 64;
/// Turns between two polls of the socket.
const POLL_TURNS: u32 = 256;
/// Offset of `num_buffers` in a virtio-net header.
const BUFFERS: usize = 10;
/// State of a buffer without contents.
const EMPTY: (usize, usize) = (usize::MAX, 0);

/// Protocol violations of a back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    /// None.
    None,
    /// Used entries with identifiers that the driver has not posted, or the same one twice.
    Ids,
    /// Used lengths larger than the buffer.
    Lengths,
    /// More used entries than the ring has.
    Index,
    /// Frames whose `num_buffers` is zero or larger than the number of buffers.
    Buffers,
    /// Calls on every turn with one frame each, and random words in the driver's suppression fields.
    Calls,
}

/// Parameters of one connection.
pub(super) struct ConnectionConfig<'a> {
    pub(super) plan: &'a Plan,
    pub(super) own: [u8; 6],
    pub(super) violation: Violation,
    /// Index of the connection; violations with several forms cycle through them.
    pub(super) round: u64,
    /// Whether to attack even if the driver lacks needed features.
    pub(super) anyway: bool,
}

/// Offered features: everything that a driver may negotiate.
pub(super) const OFFER: Offer = Offer {
    features: Features(
        Features::VERSION_1
            | Features::PROTOCOL
            | Features::EVENT_IDX
            | Features::MRG_RXBUF
            | Features::RING_PACKED
            | Features::IN_ORDER
            | Features::CSUM
            | Features::HOST_TSO4
            | Features::HOST_TSO6
            | Features::HOST_USO
            | Features::GUEST_CSUM
            | Features::GUEST_TSO4
            | Features::GUEST_TSO6
            | Features::GUEST_USO4
            | Features::GUEST_USO6,
    ),
    protocol: ProtocolFeatures(
        ProtocolFeatures::REPLY_ACK | ProtocolFeatures::CONFIGURE_MEM_SLOTS | ProtocolFeatures::STATUS,
    ),
    queue_pairs: 1,
    mtu: None,
    memory: port::vhost_user::MAX_BYTES,
};

impl From<BackEndError> for GuestError {
    fn from(error: BackEndError) -> Self {
        match error {
            BackEndError::NoFrontEnd(..) | BackEndError::Closed => Self::Closed,
            error => Self::Memory(error.to_string()),
        }
    }
}

/// Serves the front end until both rings are running. `timeout` limits the time between two of its messages.
pub(super) fn plug_in(
    mut back_end: BackEnd,
    config: &ConnectionConfig<'_>,
    timeout: Duration,
) -> Result<Box<dyn Unit>, GuestError> {
    loop {
        back_end.serve()?;
        if let Some([receive, send]) = back_end.rings() {
            validate(&receive, config)?;
            return if receive.features.has(Features::RING_PACKED) {
                Ok(Box::new(Device::<Packed>::new(back_end, &receive, &send, config)?))
            } else {
                Ok(Box::new(Device::<Split>::new(back_end, &receive, &send, config)?))
            };
        }
        if !back_end.wait(timeout)? {
            return Err(GuestError::Closed);
        }
    }
}

fn validate(ring: &QueueSetup, config: &ConnectionConfig<'_>) -> Result<(), GuestError> {
    let missing = config.plan.needs.iter().find(|need| !ring.features.has(need.0));
    missing.filter(|_| !config.anyway).map_or(Ok(()), |need| Err(GuestError::NotOffered(need.1)))
}

/// Frames with their headers, sent in a cycle.
struct Frames {
    bytes: Vec<Vec<u8>>,
    next: usize,
}

/// A running back end.
struct Device<R> {
    back_end: BackEnd,
    /// The driver's receive ring.
    fill: Line<R>,
    /// The driver's transmit ring.
    empty: Line<R>,
    frames: Frames,
    /// Receive buffers taken from the ring and not used yet.
    free: VecDeque<Descriptor>,
    /// Per buffer: the frame and the piece of it that the buffer contains.
    held: Vec<(usize, usize)>,
    size: u16,
    own: [u8; 6],
    features: Features,
    /// Whether transmitted buffers are returned.
    returns: bool,
    pace: Pace,
    violation: Violation,
    lied: bool,
    round: u64,
    turns: u32,
    rng: fastrand::Rng,
    counts: Counts,
}

impl<R: DeviceRing> Device<R> {
    fn new(
        back_end: BackEnd,
        receive: &QueueSetup,
        send: &QueueSetup,
        config: &ConnectionConfig<'_>,
    ) -> Result<Self, GuestError> {
        let plan = config.plan;
        Ok(Self {
            back_end,
            fill: Line::new(receive)?,
            empty: Line::new(send)?,
            frames: Frames { bytes: plan.frames(), next: 0 },
            free: VecDeque::new(),
            held: vec![EMPTY; receive.size.into()],
            size: receive.size,
            own: config.own,
            features: receive.features,
            returns: plan.receive.returns,
            pace: Pace::of(plan),
            violation: config.violation,
            lied: false,
            round: config.round,
            turns: 0,
            rng: fastrand::Rng::with_seed(1),
            counts: Counts::default(),
        })
    }

    /// Takes transmitted buffers and returns them.
    fn receive(&mut self) -> Result<usize, GuestError> {
        if !self.returns {
            return Ok(0);
        }
        let Line { ring, batch, translator, .. } = &mut self.empty;
        ring.pop_avail(BURST, batch, translator)?;
        let mut buf_ids = [BufId::default(); BURST];
        for (k, (head, buf_id)) in batch.heads[..batch.len].iter().zip(&mut buf_ids).enumerate() {
            *buf_id = batch.buf_id(k);
            self.counts.received += 1;
            let mut front = [0; HEADER + 6];
            if let Some(area) = Area::of_guest(translator, head.address, head.len) {
                area.read(&mut front);
            }
            let to = &front[HEADER..];
            self.counts.foreign += u64::from(to[0] & 1 == 0 && to != self.own);
        }
        ring.push_read(&buf_ids[..batch.len]);
        ring.flush_used();
        Ok(batch.len)
    }

    /// Takes receive buffers in advance.
    fn take(&mut self) -> Result<(), GuestError> {
        while self.free.len() < BUDGET {
            let Line { ring, batch, translator, .. } = &mut self.fill;
            ring.pop_avail(BURST, batch, translator)?;
            if batch.plain() == 0 {
                break;
            }
            self.free.extend(&batch.heads[..batch.plain()]);
        }
        Ok(())
    }

    fn send(&mut self) -> Result<usize, GuestError> {
        if self.lied {
            // The violation made the ring's counters invalid, so the ring is not used any more.
            return Ok(0);
        }
        self.take()?;
        if self.counts.sent >= VALID_FRAMES && self.free.len() > 1 && self.violate() {
            self.lied = true;
            self.fill.ring.flush_used();
            return Ok(1);
        }
        let (mut sent, mut left) = (0, BUDGET);
        let most = if self.violation == Violation::Calls { 1 } else { BURST };
        for _ in 0..self.pace.allowed(most) {
            let Some(n) = self.buffers().filter(|n| *n <= left && *n <= self.free.len()) else { break };
            self.deliver(n);
            (sent, left) = (sent + 1, left - n);
        }
        self.counts.sent += sent as u64;
        self.fill.ring.flush_used();
        Ok(sent)
    }

    /// Number of buffers for the next frame. Returns `None` if there is no frame or no buffer.
    fn buffers(&self) -> Option<usize> {
        let (frame, room) = (self.frames.bytes.get(self.frames.next)?, self.free.front()?.len as usize);
        let n = frame.len().div_ceil(room.max(1));
        (n == 1 || self.features.has(Features::MRG_RXBUF)).then_some(n)
    }

    /// Writes the next frame into `n` buffers and returns them to the driver.
    fn deliver(&mut self, n: usize) {
        let at = self.frames.next;
        self.frames.next = (at + 1) % self.frames.bytes.len();
        let frame = &mut self.frames.bytes[at];
        frame[BUFFERS..HEADER].copy_from_slice(&(n as u16).to_le_bytes());
        let mut rest = frame.as_slice();
        for piece in 0..n {
            let Some(buffer) = self.free.pop_front() else { return };
            let (here, behind) = rest.split_at(rest.len().min(buffer.len as usize));
            let held = self.held.get_mut(usize::from(buffer.link));
            if let Some(held) = held.filter(|held| **held != (at, piece)) {
                *held = (at, piece);
                write(&mut self.fill.translator, buffer, here);
            }
            self.fill.ring.push_used(buffer.buf_id(), here.len() as u32);
            rest = behind;
        }
    }

    /// Commits the violation of this connection. Returns whether there is one.
    fn violate(&mut self) -> bool {
        if matches!(self.violation, Violation::None | Violation::Calls) {
            return false;
        }
        let Some(buffer) = self.free.pop_front() else { return false };
        let (own, len, size) = (buffer.buf_id(), 76, self.size);
        let unknown = |id| BufId { id, slots: 1 };
        match self.violation {
            Violation::Ids => self.use_times(self.of_round([unknown(size), own, unknown(u16::MAX)]), len, 2),
            Violation::Lengths => {
                write(&mut self.fill.translator, buffer, &header_of(1));
                self.use_times(own, self.of_round([buffer.len + 1, u32::MAX]), 1);
            }
            Violation::Index => self.use_times(own, len, usize::from(size) + 1),
            Violation::Buffers => {
                let says = self.of_round([0, u16::MAX, BURST as u16 + 1]);
                write(&mut self.fill.translator, buffer, &header_of(says));
                self.use_times(own, len, 1);
            }
            Violation::None | Violation::Calls => {}
        }
        true
    }

    /// The form of a violation for this connection.
    fn of_round<T: Copy, const N: usize>(&self, forms: [T; N]) -> T {
        forms[self.round as usize % N]
    }

    /// Uses a buffer `times` times. On a packed ring, which has no index, at most as often as buffers were taken.
    fn use_times(&mut self, buf_id: BufId, len: u32, times: usize) {
        let most = if self.features.has(Features::RING_PACKED) { self.free.len() + 1 } else { times };
        (0..times.min(most)).for_each(|_| self.fill.ring.push_used(buf_id, len));
    }

    fn notify(&mut self) {
        if self.violation == Violation::Calls {
            for line in [&self.fill, &self.empty] {
                line.corrupt_suppression(&mut self.rng);
                self.counts.kicks += line.call();
            }
            return;
        }
        // Orders the used entries before the loads of the driver's suppression fields.
        fence(Ordering::SeqCst);
        for line in [&mut self.fill, &mut self.empty] {
            if line.ring.needs_notification() {
                self.counts.kicks += line.call();
            }
        }
    }
}

/// A header with only `num_buffers` set.
fn header_of(buffers: u16) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[BUFFERS..].copy_from_slice(&buffers.to_le_bytes());
    header
}

fn write(translator: &mut Translator, buffer: Descriptor, bytes: &[u8]) {
    // Buffers outside the memory that the driver shares are not written.
    if let Some(area) = Area::of_guest(translator, buffer.address, buffer.len) {
        area.fill(bytes);
    }
}

impl<R: DeviceRing> Unit for Device<R> {
    fn step(&mut self) -> Result<(), GuestError> {
        let done = match (self.receive(), self.send()) {
            (Ok(received), Ok(sent)) => received + sent,
            // After the driver has closed the connection its memory may be invalid, so ring errors are ignored.
            _ if self.back_end.is_closed() => return Err(GuestError::Closed),
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        if done > 0 || self.violation == Violation::Calls {
            self.notify();
        }
        self.turns += 1;
        if self.turns.is_multiple_of(POLL_TURNS) {
            self.back_end.serve()?;
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn is_closed(&self) -> bool {
        self.back_end.is_closed()
    }
}
