//! Hand-over of a running port to another process, which continues it without its peer noticing.
//!
//! A port is described as descriptors of its sockets, interfaces and shared memory, and messages of its protocol, which
//! have a stable format and are validated by the receiver as if they came from a peer. There are two descriptions:
//! [`HandOver::describe`] has everything that does not change while only the queues run, so that the receiver maps
//! memory and validates it while packets pass; [`HandOver::hand_over`] stops the queues and has the rest, such as the
//! positions of rings. The process then either releases the port ([`HandOver::release`]) or continues it
//! ([`HandOver::resume`]). Between these calls the port must not be used in any other way: messages of its peer wait.
//! Descriptors are duplicates, so that the port is unchanged if it is resumed.
//!
//! The other process creates the port without its resources, and gives it both descriptions ([`HandOver::prepare`],
//! [`HandOver::take_over`]).

use crate::socket::rights::{self, ReceiveError};
use crate::{Attach, PortFault};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::time::Instant;

/// Maximum length of descriptions, which include frames that queues have read.
const MAX_BYTES: usize = 1 << 28;

/// A port that another process can continue.
pub trait HandOver {
    /// Describes what does not change while only the queues run. By default, nothing.
    ///
    /// # Errors
    /// The reason why the port cannot be handed over now. The caller must call [`HandOver::resume`] then, too.
    fn describe(&mut self, _engine: &mut dyn Attach) -> Result<Handover, PortFault> {
        Ok(Handover::default())
    }

    /// Stops the queues and describes the rest. The peer of the port and its files do not change.
    ///
    /// # Errors
    /// The reason why the port cannot be handed over now. The caller must call [`HandOver::resume`] then, too.
    fn hand_over(&mut self, engine: &mut dyn Attach) -> Result<Handover, PortFault>;

    /// Continues after [`HandOver::describe`] or [`HandOver::hand_over`].
    fn resume(&mut self, now: Instant, engine: &mut dyn Attach);

    /// Closes the port without any effect on its peer and its files, because another process has taken it over.
    fn release(&mut self, engine: &mut dyn Attach);

    /// Prepares to continue a port of another process, described by [`HandOver::describe`], without using its rings or
    /// queues. Must be the first call for this port. By default, ignores the description, which is empty.
    ///
    /// # Errors
    /// Why the description is not valid for this port; the port must be closed then.
    fn prepare(
        &mut self,
        _description: Handover,
        _now: Instant,
        _engine: &mut dyn Attach,
    ) -> Result<(), PortFault> {
        Ok(())
    }

    /// Continues the port, described further by [`HandOver::hand_over`].
    ///
    /// # Errors
    /// Why the description is not valid for this port; the port must be closed then.
    fn take_over(
        &mut self,
        handover: Handover,
        now: Instant,
        engine: &mut dyn Attach,
    ) -> Result<(), PortFault>;
}

/// Why a port cannot be handed over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotHandedOver {
    /// The kind of port has no hand-over.
    #[error("ports of kind {0} cannot be handed over")]
    Kind(&'static str),
    /// The port has no peer outside of the switch: another process creates it anew, without loss.
    #[error("it is internal to the switch")]
    Internal,
    /// The port has not been created yet, and has nothing to hand over.
    #[error("it has not been created yet")]
    NotMade,
    /// A wrapper of the port cannot be handed over.
    #[error("its {0} cannot be handed over")]
    Wrapper(&'static str),
    /// The log of written pages of a guest that migrates is not handed over.
    #[error("its guest migrates")]
    Migrates,
    /// An application owns the port.
    #[error("it belongs to an application")]
    Granted,
}

/// Description of a running port.
#[derive(Debug, Default)]
pub struct Handover {
    /// Parts in the order in which they take effect.
    pub parts: Vec<Part>,
}

/// Descriptions of ports, with their names.
pub type Handovers = Vec<(String, Handover)>;

/// One part of a description.
#[derive(Debug)]
pub struct Part {
    /// Meaning, as defined by the kind of port. 255 is reserved.
    pub tag: u8,
    /// Content.
    pub bytes: Vec<u8>,
    /// At most 255 descriptors.
    pub descriptors: Vec<OwnedFd>,
}

/// Maximum number of descriptors of a part.
pub const MAX_DESCRIPTORS: usize = rights::MAX_DESCRIPTORS;

/// A description could not be received.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// The other process closed the connection.
    #[error("the other process closed the connection")]
    Closed,
    /// The bytes are not a description.
    #[error("invalid description of a port: {0}")]
    Invalid(&'static str),
    /// The kernel refused a call.
    #[error("the connection failed: {0}")]
    Io(#[from] Errno),
}

impl From<ReceiveError> for HandoverError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Closed => Self::Closed,
            ReceiveError::Descriptors => Self::Invalid("descriptors were lost"),
            ReceiveError::Io(errno) => Self::Io(errno),
        }
    }
}

impl Handover {
    /// Adds a part.
    pub fn push(&mut self, tag: u8, bytes: Vec<u8>, descriptors: Vec<OwnedFd>) {
        self.parts.push(Part { tag, bytes, descriptors });
    }

    /// Sends the description over a blocking Unix stream socket.
    pub fn send(&self, socket: BorrowedFd<'_>) -> Result<(), HandoverError> {
        send(socket, self.parts.iter())
    }

    /// Receives a description from a blocking Unix stream socket.
    pub fn receive(socket: BorrowedFd<'_>) -> Result<Self, HandoverError> {
        let mut prefix = [0; PREFIX];
        read(socket, &mut prefix, &mut Vec::new())?;
        let number = |at: usize| {
            let bytes = prefix[at..].first_chunk().copied().unwrap_or_default();
            u32::from_le_bytes(bytes) as usize
        };
        let (parts, length, expected) = (number(0), number(4), number(8));
        // Every part has a header, and every header allows some descriptors.
        if length > MAX_BYTES || parts > length / HEADER || expected > parts * usize::from(u8::MAX) {
            return Err(HandoverError::Invalid("it is too long"));
        }
        let mut bytes = vec![0; length];
        read(socket, &mut bytes, &mut Vec::new())?;
        let mut descriptors = read_descriptors(socket, expected)?.into_iter();
        let mut rest = &bytes[..];
        let parts = (0..parts).map(|_| Part::decode(&mut rest, &mut descriptors).ok_or(MISMATCH));
        let parts = parts.collect::<Result<_, _>>()?;
        if rest.is_empty() && descriptors.len() == 0 { Ok(Self { parts }) } else { Err(MISMATCH) }
    }
}

/// Sends named descriptions at once, so that the receiver wakes up once.
pub fn send_ports(socket: BorrowedFd<'_>, ports: &[(String, Handover)]) -> Result<(), HandoverError> {
    let name = |name: &String| Part { tag: NAME, bytes: name.clone().into(), descriptors: Vec::new() };
    let names: Vec<_> = ports.iter().map(|(port, _)| name(port)).collect();
    let ports = names.iter().zip(ports);
    send(socket, ports.flat_map(|(name, (_, port))| std::iter::once(name).chain(&port.parts)))
}

/// Receives what [`send_ports`] sends.
pub fn receive_ports(socket: BorrowedFd<'_>) -> Result<Handovers, HandoverError> {
    let mut ports = Handovers::new();
    for part in Handover::receive(socket)?.parts {
        match (part.tag, ports.last_mut()) {
            (NAME, _) => {
                let name = String::from_utf8(part.bytes).map_err(|_| NAMELESS)?;
                ports.push((name, Handover::default()));
            }
            (_, Some((_, port))) => port.parts.push(part),
            (_, None) => return Err(NAMELESS),
        }
    }
    Ok(ports)
}

/// Sends the numbers of parts, bytes and descriptors, all parts at once, and the descriptors.
fn send<'a>(
    socket: BorrowedFd<'_>,
    parts: impl Iterator<Item = &'a Part> + Clone,
) -> Result<(), HandoverError> {
    let descriptors: Vec<_> = parts.clone().flat_map(|part| &part.descriptors).collect();
    let mut bytes = vec![0; PREFIX];
    parts.clone().for_each(|part| part.encode(&mut bytes));
    let numbers = [parts.count(), bytes.len() - PREFIX, descriptors.len()];
    bytes[..PREFIX].copy_from_slice(&numbers.map(|number| (number as u32).to_le_bytes()).concat());
    rights::send(socket, &bytes, &[])?;
    for group in descriptors.chunks(MAX_DESCRIPTORS) {
        let group: Vec<_> = group.iter().map(AsFd::as_fd).collect();
        rights::send(socket, &[0], &group)?;
    }
    Ok(())
}

/// Tag of a part that has the name of the port which the next parts describe.
const NAME: u8 = u8::MAX;
const NAMELESS: HandoverError = HandoverError::Invalid("a port has no name");
/// Length of the numbers before the parts.
const PREFIX: usize = 12;
const MISMATCH: HandoverError = HandoverError::Invalid("its parts have other lengths than their headers say");

/// A duplicate of a descriptor, for a part.
pub(crate) fn duplicate(fd: impl AsFd) -> Result<OwnedFd, PortFault> {
    rustix::io::fcntl_dupfd_cloexec(fd, 0)
        .map_err(|errno| PortFault::BadDescriptor("duplicate", errno.to_string()))
}

/// Header of a part: tag, number of descriptors, and number of bytes.
const HEADER: usize = 6;

impl Part {
    fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&[self.tag, self.descriptors.len() as u8]);
        to.extend_from_slice(&(self.bytes.len() as u32).to_le_bytes());
        to.extend_from_slice(&self.bytes);
    }

    /// Takes the first part of `from`, and its descriptors.
    fn decode(from: &mut &[u8], descriptors: &mut impl Iterator<Item = OwnedFd>) -> Option<Self> {
        let ([tag, expected, length @ ..], rest) = from.split_first_chunk::<HEADER>()?;
        let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        *from = rest;
        let descriptors: Vec<_> = descriptors.take(usize::from(*expected)).collect();
        let is_complete = descriptors.len() == usize::from(*expected);
        is_complete.then(|| Self { tag: *tag, bytes: bytes.to_vec(), descriptors })
    }
}

/// Receives descriptors, each group with one byte.
fn read_descriptors(socket: BorrowedFd<'_>, count: usize) -> Result<Vec<OwnedFd>, HandoverError> {
    let mut descriptors = Vec::new();
    while descriptors.len() < count {
        let mut group = Vec::new();
        read(socket, &mut [0], &mut group)?;
        if group.is_empty() {
            return Err(MISMATCH);
        }
        descriptors.append(&mut group);
    }
    Ok(descriptors)
}

/// Fills `to`, whose first byte may have descriptors.
fn read(socket: BorrowedFd<'_>, to: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> Result<(), HandoverError> {
    let mut have = 0;
    while have < to.len() {
        // Returns `None` only after the timeout of the socket.
        have += rights::receive(socket, &mut to[have..], descriptors)?.ok_or(Errno::TIMEDOUT)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    #[test]
    fn description_arrives_with_its_descriptors() {
        let (one, other) = pair();
        let mut sent = Handover::default();
        let files =
            || (0..MAX_DESCRIPTORS).map(|_| rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC));
        sent.push(1, b"text".to_vec(), files().collect::<Result<_, _>>().unwrap());
        sent.push(2, Vec::new(), Vec::new());
        sent.send(one.as_fd()).unwrap();
        let received = Handover::receive(other.as_fd()).unwrap();
        let shape = |h: &Handover| {
            h.parts.iter().map(|p| (p.tag, p.bytes.clone(), p.descriptors.len())).collect::<Vec<_>>()
        };
        assert_eq!(shape(&received), shape(&sent));
        let inode = |fd: &OwnedFd| rustix::fs::fstat(fd).unwrap().st_ino;
        assert_eq!(inode(&received.parts[0].descriptors[7]), inode(&sent.parts[0].descriptors[7]));
    }

    #[test]
    fn ports_arrive_with_their_names() {
        let (one, other) = pair();
        let mut red = Handover::default();
        let file = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        red.push(1, vec![7], vec![file]);
        send_ports(one.as_fd(), &[("red".into(), red), ("blue".into(), Handover::default())]).unwrap();
        let ports = receive_ports(other.as_fd()).unwrap();
        let shape = ports.iter().map(|(name, port)| (name.as_str(), port.parts.len()));
        assert_eq!(shape.collect::<Vec<_>>(), [("red", 1), ("blue", 0)]);
        assert_eq!((ports[0].1.parts[0].tag, ports[0].1.parts[0].descriptors.len()), (1, 1));
        let mut nameless = Handover::default();
        nameless.push(1, Vec::new(), Vec::new());
        nameless.send(one.as_fd()).unwrap();
        assert!(receive_ports(other.as_fd()).unwrap_err().to_string().ends_with("a port has no name"));
    }

    #[test]
    fn invalid_description_is_refused() {
        let numbers = |numbers: [u32; 3]| numbers.map(u32::to_le_bytes).concat();
        let with = |prefix, part: &[u8]| [numbers(prefix), part.to_vec()].concat();
        let (mismatch, closed) = ("its parts have other lengths", "the other process closed the connection");
        let cases = [
            (with([1, 6, 0], &[1, 1, 0, 0, 0, 0]), mismatch),
            (with([1, 6, 1], &[1, 0, 0, 0, 0, 0, 0]), mismatch),
            (with([1, 6, 0], &[1, 0, 1, 0, 0, 0]), mismatch),
            (with([1, 7, 0], &[1, 0, 0, 0, 0, 0, 0]), mismatch),
            (numbers([1, u32::MAX, 0]), "it is too long"),
            (numbers([u32::MAX, 6, 0]), "it is too long"),
            (numbers([1, 6, u32::MAX]), "it is too long"),
            (vec![2, 0, 0], closed),
            (numbers([1, 6, 0]), closed),
        ];
        for (bytes, expected) in cases {
            let (mut one, other) = pair();
            one.write_all(&bytes).unwrap();
            drop(one);
            let error = Handover::receive(other.as_fd()).unwrap_err().to_string();
            assert!(error.contains(expected), "{bytes:?}: {error}");
        }
    }
}
