//! Ports that systemd keeps while the switch restarts (`linerate run --keep-ports`).
//!
//! A switch that is told to end writes the exchange of an upgrade into a socket, whose other end it puts into the
//! file-descriptor store (`FDSTORE` of `sd_notify(3)`). The next process reads it there. It has its own configuration
//! and sockets: it continues the ports that have the same settings, and opens the others.

use super::sockets::Sockets;
use super::successor::{self, Takeover};
use super::{Prepared, confinement};
use crate::api::error::ApiError;
use crate::api::service::ApiService;
use crate::api::source::Source;
use crate::dataplane::state::Continued;
use crate::dataplane::switch::Switch;
use crate::dataplane::switch::handover::Succession;
use crate::host;
use crate::log::LogFormat;
use crate::settings::topology::{PortSettings, Topology};
use crate::takeover::{Channel, Offer};
use console::Diagnostic;
use listenfd::ListenFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use sd_notify::NotifyState;
use std::io;

/// Name of the exchange in the store.
const NAME: &str = "linerate-ports";
/// How long systemd may need to take the exchange.
const TAKEN: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Stops the ports of a switch that ends, and passes them to systemd.
///
/// # Errors
/// The ports are lost, because there is no supervisor, or it does not take them.
pub(super) fn keep(service: &ApiService) -> Result<(), Diagnostic> {
    let failed = |reason: &dyn std::fmt::Display| {
        let remedy = "run the switch by a unit of systemd with `FileDescriptorStoreMax=1`";
        Diagnostic::failed("--keep-ports", reason, remedy)
    };
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return Err(failed(&"NOTIFY_SOCKET is not set: there is no supervisor that keeps ports"));
    }
    let exchange = service.record().map_err(ApiError::into_diagnostic)?;
    // systemd must not drop it because this process closes its end.
    let state = [NotifyState::FdStore, NotifyState::FdName(NAME), NotifyState::Custom("FDPOLL=0")];
    let stored = sd_notify::notify_with_fds(&state, &[exchange.as_fd()]);
    stored.and_then(|()| barrier()).map_err(|error| failed(&error))
}

/// Waits until systemd has processed the notices, because it ignores those of a process that has ended.
fn barrier() -> io::Result<()> {
    let (reader, writer) = io::pipe()?;
    sd_notify::notify_with_fds(&[NotifyState::Custom("BARRIER=1")], &[writer.as_fd()])?;
    drop(writer);
    match poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&TAKEN))? {
        0 => Err(io::Error::new(io::ErrorKind::TimedOut, "the supervisor does not answer")),
        _ => Ok(()),
    }
}

/// Ports of the process before, with its configuration.
pub(super) struct Stored {
    channel: Channel,
    offer: Offer,
}

/// The ports that systemd has kept for this process, or why they are lost.
pub(super) fn take() -> Option<Result<Stored, Diagnostic>> {
    if std::env::var("LISTEN_FDNAMES").ok()? != NAME {
        return None;
    }
    let socket = ListenFd::from_env().take_unix_listener(0).ok()??;
    // They are for one process.
    let _ = sd_notify::notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(NAME)]);
    let channel = Channel::over(OwnedFd::from(socket).into());
    Some(successor::receive_offer(&channel).map(|(offer, _)| Stored { channel, offer }))
}

impl Stored {
    /// Settings of the ports, whose files and interfaces are in use.
    pub(super) fn ports(&self) -> Vec<PortSettings> {
        self.offer.running_ports()
    }

    /// Prepares a switch with a topology of its own.
    pub(super) fn prepare(
        self,
        source: Source,
        topology: Topology,
        format: LogFormat,
    ) -> Result<Prepared, Diagnostic> {
        let path = topology.switch.control.clone().unwrap_or_else(host::default_control);
        let sockets = Sockets::open(&topology.switch, &path)?;
        let confinement = confinement::start(&topology, &path, format, &[])?;
        let (continued, opened) = self.divide(&topology);
        let succession = Succession::new(opened, Continued::default());
        let data_plane = Switch::succeed(&topology, &succession)?;
        let takeover = Some(Takeover::stored(self.channel, succession, continued));
        let deferred = Vec::new();
        Ok(Prepared { topology, path, source, sockets, confinement, data_plane, deferred, takeover })
    }

    /// Names of the ports that continue, because their settings are the same, and of those that are opened.
    fn divide(&self, topology: &Topology) -> (Vec<String>, Vec<String>) {
        let is_same = |port: &PortSettings| {
            let settings = serde_json::to_value(port).ok();
            let was_passed = !self.offer.reopened.contains(&port.name);
            was_passed && settings.is_some_and(|settings| self.offer.ports.contains(&settings))
        };
        let (continued, opened): (Vec<_>, Vec<_>) = topology.ports.iter().partition(|port| is_same(port));
        let names = |ports: Vec<&PortSettings>| ports.into_iter().map(|port| port.name.clone()).collect();
        (names(continued), names(opened))
    }
}
