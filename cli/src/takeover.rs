//! The exchange between a running switch and the process that takes its ports over (`linerate upgrade`).
//!
//! The running switch starts its successor with one end of a socket pair as standard input. The exchange has these
//! messages, some with descriptors:
//!
//! 1. [`Offer`]: version, configuration and listening sockets. The successor prepares everything that it can without
//!    the ports.
//! 2. [`Answer`]: the successor is ready, or why it cannot take over. Until here, packets pass as before.
//! 3. Flow tables and connections (`StateMessage`), and again [`Answer`].
//! 4. The learned addresses.
//! 5. Descriptions of the ports, without positions of rings. Messages of peers wait from here on.
//! 6. [`Answer`]: the ports are prepared, with their memory mapped, or why they are not. Until here, packets pass.
//! 7. The state that has changed since, and the rest of the descriptions: the running switch has stopped the ports.
//! 8. [`Answer`]: the successor can start the ports, or why it cannot; the running switch continues them then.
//! 9. `true`: the successor starts the ports. It also does if nothing valid comes, because the running switch has ended
//!    then, or has its answer and does not continue them any more.
//! 10. [`Answer`]: the ports run in the successor.
//! 11. The counters: those of ports, then those of flow tables.
//!
//! ## End during the exchange
//! The running switch may be told to end while it is replaced: by a signal, or by `linerate stop`. One lock decides
//! (`api/inheritance.rs`): it *commits* before message 9, and the successor has the ports from then on.
//!
//! - `linerate stop` from the beginning of an upgrade on is refused, because the sockets are those of both processes.
//! - `linerate stop` just before an upgrade is accepted, and then has the effect of a signal.
//! - A signal before message 1 or up to the commitment: the successor is killed, and no other one may begin. The
//!   upgrade fails, the ports run here again, and then the switch ends, with `--keep-ports` after it has stored them.
//!   The successor cannot start the ports although message 9 never comes, because it was killed before the end of the
//!   connection.
//! - A signal after the commitment: the end waits for message 10, at most as long as the upgrade does. This process
//!   leaves sockets and files to the successor and ends; the switch goes on. systemd sends its signal to each process
//!   of the unit, so that the successor ends, too, as soon as the ports run.
//! - Message 9 cannot be sent, because the successor has ended: the commitment is taken back, and the ports run here.
//! - The end has waited long enough for another request that hangs: no upgrade can commit any more. Whether one has is
//!   read again after the API has ended.
//! - The successor ends after message 9: the ports are lost, because they are released here. The command fails, and this
//!   process ends with an error and without the files of its sockets, so that a supervisor starts the switch again. The
//!   same happens if the successor fails later, before this process has ended, but the command has succeeded then. A
//!   process that a signal has ended ends without an error.
//! - The successor does not send message 10 in time: the command fails, and the successor is the switch. It is ended by
//!   the watchdog of systemd if it hangs.
//! - The running switch is killed: the successor sees the end of the connection. Up to message 8 it ends; after it, it
//!   is the switch.
//! - A signal to the successor only has an effect once its ports run, or ends it by the default action before it
//!   handles signals.
//!
//! A switch that restarts may store the exchange for the next process: answers, sockets, captures, flow tables,
//! connections and leases are left out then.
//!
//! A version that changes a message increments [`PROTOCOL`]. Fields may be added if they have a default.

use crate::dataplane::state::{Continued, monotonic};
use crate::settings::topology::{PortSettings, WorkerSettings};
use console::Diagnostic;
use port::handover::{self, Handover, HandoverError, Handovers, Part};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Version of the exchange.
pub(crate) const PROTOCOL: u32 = 2;
/// Bytes of a message in one part.
const PIECE: usize = 1 << 16;
/// Bytes of messages that may wait, with the overhead of the kernel.
const RECORDED: usize = 1 << 28;
/// Time after which a socket is full in which no process reads.
const FULL: Duration = Duration::from_secs(1);

/// First message of the running switch.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub(crate) protocol: u32,
    pub(crate) version: String,
    /// File of the switch.
    pub(crate) file: PathBuf,
    /// Text of the file as it was read.
    pub(crate) loaded: String,
    /// The running configuration as a file.
    pub(crate) running: String,
    /// Control socket and address of the web page, if the command line sets them.
    pub(crate) control: Option<PathBuf>,
    pub(crate) web: Option<SocketAddr>,
    /// Settings of the running ports. Their files and interfaces are in use, and valid.
    pub(crate) ports: Vec<serde_json::Value>,
    /// Settings of the running workers, which a file may be unable to express.
    #[serde(default)]
    pub(crate) workers: Vec<serde_json::Value>,
    /// Clock, and numbers of ports.
    pub(crate) continued: Continued,
    /// Names of ports that are closed here and opened by the successor.
    pub(crate) reopened: Vec<String>,
    /// Captures that the successor begins before its ports run: their keys, and the parameters of their requests.
    #[serde(default)]
    pub(crate) captures: Vec<(u64, String)>,
    /// Listening sockets, in the order of the descriptors.
    pub(crate) sockets: Vec<SocketName>,
    /// Token of the web page, unless it is in a file.
    pub(crate) web_token: Option<String>,
    /// Digests of the filters of system calls and rules for files that the successor inherits.
    #[serde(default)]
    pub(crate) filters: Vec<u64>,
}

/// What every version has in its offer.
#[derive(Debug, Deserialize)]
pub(crate) struct Handshake {
    pub(crate) protocol: u32,
    pub(crate) version: String,
}

impl Offer {
    /// Settings of the running ports. One that this version cannot read is validated as a port that does not run yet.
    pub(crate) fn running_ports(&self) -> Vec<PortSettings> {
        self.ports.iter().filter_map(|port| serde_json::from_value(port.clone()).ok()).collect()
    }

    /// Settings of the running workers. Returns `None` if this version cannot read them, or the other one does not send
    /// them: they are those of the running configuration then.
    pub(crate) fn running_workers(&self) -> Option<Vec<WorkerSettings>> {
        let workers = self.workers.iter().map(|worker| serde_json::from_value(worker.clone()).ok());
        workers.collect::<Option<Vec<_>>>().filter(|workers| !workers.is_empty())
    }
}

/// A socket of the process that does not belong to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SocketName {
    Control,
    /// The lock file of the control socket.
    Lock,
    Read,
    Grants,
    Metrics,
    Web,
    /// The API over TCP.
    Remote,
}

/// Message of the successor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) version: String,
    /// Why the successor ends.
    pub(crate) error: Option<Diagnostic>,
    /// Time of the clock `CLOCK_MONOTONIC` in nanoseconds.
    pub(crate) time: u64,
}

impl Answer {
    /// The answer of this program, now.
    pub(crate) fn now(error: Option<Diagnostic>) -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), error, time: monotonic() }
    }
}

/// The exchange failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeoverError {
    #[error("the other process does not answer, or has ended: {0}")]
    Connection(#[from] HandoverError),
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    #[error("the other process sent an invalid message: {0}")]
    Message(#[from] serde_json::Error),
    #[error("the other process sent no message")]
    Empty,
}

impl TakeoverError {
    /// Whether the other process has ended.
    pub(crate) fn is_end(&self) -> bool {
        use HandoverError::{Closed, Io};
        matches!(self, Self::Connection(Closed | Io(Errno::PIPE | Errno::CONNRESET)))
    }

    /// Whether the buffer of the socket had no room for a message before the limit of time.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Connection(HandoverError::Io(Errno::AGAIN)))
    }
}

/// One end of the exchange.
pub(crate) struct Channel(UnixStream);

impl Channel {
    /// Both ends.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (own, other) = UnixStream::pair()?;
        Ok((Self(own), other.into()))
    }

    /// Both ends of an exchange whose messages wait for a process that starts later.
    pub(crate) fn recorded() -> io::Result<(Self, OwnedFd)> {
        let (own, other) = Self::pair()?;
        // Without the right to do so, the default is sufficient for a hundred ports.
        let _ = sockopt::set_socket_send_buffer_size_force(&own.0, RECORDED);
        own.wait_at_most(FULL)?;
        Ok((own, other))
    }

    /// The end `socket` of an exchange.
    pub(crate) fn over(socket: UnixStream) -> Self {
        Self(socket)
    }

    /// The end that is the standard input of this process, which is replaced.
    pub(crate) fn inherited() -> io::Result<Self> {
        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        socket.peer_addr()?;
        let nothing = std::fs::File::open("/dev/null")?;
        rustix::stdio::dup2_stdin(&nothing)?;
        Ok(Self(socket))
    }

    /// Limits how long each read and write waits for the other process.
    pub(crate) fn wait_at_most(&self, limit: Duration) -> io::Result<()> {
        self.0.set_read_timeout(Some(limit))?;
        self.0.set_write_timeout(Some(limit))
    }

    /// Sends a message, with at most [`port::handover::MAX_DESCRIPTORS`] descriptors.
    pub(crate) fn send(
        &self,
        message: &impl Serialize,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), TakeoverError> {
        let text = serde_json::to_vec(message)?;
        let mut descriptors = Some(descriptors);
        let mut parts = Handover::default();
        for piece in text.chunks(PIECE) {
            parts.push(0, piece.to_vec(), descriptors.take().unwrap_or_default());
        }
        Ok(parts.send(self.0.as_fd())?)
    }

    /// Receives a message with its descriptors.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> Result<(T, Vec<OwnedFd>), TakeoverError> {
        let (mut text, mut descriptors) = (Vec::new(), Vec::new());
        for Part { bytes, descriptors: of_part, .. } in Handover::receive(self.0.as_fd())?.parts {
            text.extend_from_slice(&bytes);
            descriptors.extend(of_part);
        }
        if text.is_empty() {
            Err(TakeoverError::Empty)
        } else {
            Ok((serde_json::from_slice(&text)?, descriptors))
        }
    }

    /// Sends descriptions of ports.
    pub(crate) fn send_ports(&self, ports: &Handovers) -> Result<(), TakeoverError> {
        Ok(handover::send_ports(self.0.as_fd(), ports)?)
    }

    /// Receives descriptions of ports.
    pub(crate) fn receive_ports(&self) -> Result<Handovers, TakeoverError> {
        Ok(handover::receive_ports(self.0.as_fd())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_arrives_with_its_descriptors() {
        let (one, other) = Channel::pair().unwrap();
        let other = Channel(other.into());
        let text = "x".repeat(3 * PIECE);
        let file = OwnedFd::from(tempfile::tempfile().unwrap());
        let sender = std::thread::spawn(move || one.send(&text, vec![file]).map(|()| text));
        let (received, descriptors): (String, _) = other.receive().unwrap();
        assert_eq!((received, descriptors.len()), (sender.join().unwrap().unwrap(), 1));
    }

    #[test]
    fn a_process_that_ends_is_an_error() {
        let (one, other) = Channel::pair().unwrap();
        drop(other);
        let error = one.receive::<Answer>().unwrap_err().to_string();
        assert!(error.starts_with("the other process does not answer"), "{error}");
        assert!(
            one.send(&true, Vec::new()).unwrap_err().is_end()
                && one.receive::<Answer>().unwrap_err().is_end()
        );
    }
}
