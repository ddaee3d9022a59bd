//! A switch that takes over the ports of another process: `linerate run` with the option that `linerate upgrade` adds,
//! or after a process whose ports were stored.

use super::Prepared;
use super::sockets::Sockets;
use crate::api::capture;
use crate::api::source::{Overrides, Source};
use crate::commands::confinement;
use crate::dataplane::interface::{DataPlane, DataPlaneError};
use crate::dataplane::report::FdbEntry;
use crate::dataplane::state::StateMessage;
use crate::dataplane::switch::Switch;
use crate::dataplane::switch::handover::Succession;
use crate::host;
use crate::log::LogFormat;
use crate::settings::config;
use crate::settings::topology::Topology;
use crate::takeover::{Answer, Channel, Handshake, Offer, PROTOCOL, TakeoverError};
use console::Diagnostic;
use engine::{OnFault, Snapshot};
use port::handover::Handovers;
use rustix::fd::OwnedFd;
use serde::Deserialize as _;
use std::time::Duration;
use tracing::error;

/// How long the running switch may need for each message.
const PATIENCE: Duration = Duration::from_secs(30);

/// The exchange with the process that is replaced.
pub(super) struct Takeover {
    channel: Channel,
    succession: Succession,
    captures: Vec<(u64, String)>,
    /// Names of the ports that continue, if the exchange was stored: other ports of it are closed, and the process
    /// that has written it reads no answers.
    stored: Option<Vec<String>>,
}

impl Takeover {
    /// The rest of a stored exchange.
    pub(super) fn stored(channel: Channel, succession: Succession, continued: Vec<String>) -> Self {
        Self { channel, succession, captures: Vec::new(), stored: Some(continued) }
    }

    /// Prepares everything but the ports. A failure is reported to the running switch.
    pub(super) fn prepare(format: LogFormat) -> Result<Prepared, Diagnostic> {
        let channel = Channel::inherited().map_err(|e| {
            let remedy = "this option is for `linerate upgrade`; start a switch without it";
            Diagnostic::bad("--take-over", format!("standard input is not a socket of a switch: {e}"), remedy)
        })?;
        let prepared = receive_offer(&channel).and_then(|(offer, sockets)| {
            let (prepared, succession) = prepare(&offer, sockets, format)?;
            Ok((prepared, succession, offer.captures))
        });
        let (mut prepared, succession, captures) = prepared.inspect_err(|error| {
            // The error is also that of this process.
            let _ = channel.send(&Answer::now(Some(error.clone())), Vec::new());
        })?;
        prepared.takeover = Some(Self { channel, succession, captures, stored: None });
        Ok(prepared)
    }

    /// Takes the ports over, after everything else runs.
    pub(super) fn finish(self, data_plane: &dyn DataPlane, topology: &Topology) -> Result<(), Diagnostic> {
        self.answer(None)?;
        let state = self.receive_state(data_plane)?;
        self.answer(state.clone().err())?;
        state?;
        // From the first description on, a process that ends leaves sockets and files to the other one.
        self.take_ports(data_plane).inspect_err(|_| data_plane.release())?;
        data_plane.start_ports();
        let _ = self.answer(None);
        // Counts from zero if the other process is gone.
        if let Ok((counters, _)) = self.channel.receive::<Snapshot>() {
            data_plane.restore_counters(&counters);
            let _ = self.receive_state(data_plane);
        }
        self.succession.released();
        if let Err(error) = data_plane.start_controllers(topology) {
            error!(reason = %error, "bridges are not connected to their controllers");
        }
        Ok(())
    }

    /// Takes the ports over until they may start.
    fn take_ports(&self, data_plane: &dyn DataPlane) -> Result<(), Diagnostic> {
        // A stored exchange has no other process that could continue the ports.
        let on_fault = if self.stored.is_some() { OnFault::Continue } else { OnFault::Refuse };
        let (addresses, _): (Vec<FdbEntry>, _) = self.channel.receive().map_err(|e| failed(&e))?;
        data_plane.restore_addresses(&addresses);
        let prepared = data_plane.prepare(self.ports()?, on_fault).map_err(DataPlaneError::into_diagnostic);
        for (key, query) in &self.captures {
            continue_capture(data_plane, *key, query);
        }
        if prepared.is_err() {
            data_plane.release();
        }
        self.answer(prepared.clone().err())?;
        prepared?;
        let (state, ports) = (self.receive_state(data_plane)?, self.ports()?);
        let taken = state
            .and_then(|()| data_plane.take_over(ports, on_fault).map_err(DataPlaneError::into_diagnostic));
        if taken.is_err() {
            // The running switch continues its ports as soon as it knows.
            data_plane.release();
        }
        self.confirm(taken)
    }

    /// Receives the state of a step. The inner result is the first error of a part of it.
    fn receive_state(&self, data_plane: &dyn DataPlane) -> Result<Result<(), Diagnostic>, Diagnostic> {
        let mut restored = Ok(());
        loop {
            match self.channel.receive().map_err(|e| failed(&e))?.0 {
                StateMessage::End => return Ok(restored),
                message if restored.is_ok() => {
                    restored = data_plane.restore_state(message).map_err(DataPlaneError::into_diagnostic);
                }
                _ => {}
            }
        }
    }

    /// Answers whether this process can start the ports, and waits until it may. If the other process has ended, this
    /// one is the switch.
    fn confirm(&self, taken: Result<(), Diagnostic>) -> Result<(), Diagnostic> {
        match self.send(taken.clone().err()) {
            Err(error) if !error.is_end() => return Err(failed(&error)),
            _ => taken?,
        }
        // After an error, the other process has ended too, or it has the answer and lets its ports go.
        let _ = self.channel.receive::<bool>();
        Ok(())
    }

    fn answer(&self, error: Option<Diagnostic>) -> Result<(), Diagnostic> {
        self.send(error).map_err(|e| failed(&e))
    }

    fn send(&self, error: Option<Diagnostic>) -> Result<(), TakeoverError> {
        match self.stored {
            Some(_) => Ok(()),
            None => self.channel.send(&Answer::now(error), Vec::new()),
        }
    }

    /// The next descriptions of the ports that continue.
    fn ports(&self) -> Result<Handovers, Diagnostic> {
        let mut ports = self.channel.receive_ports().map_err(|e| failed(&e))?;
        if let Some(continued) = &self.stored {
            ports.retain(|(name, _)| continued.contains(name));
        }
        Ok(ports)
    }
}

/// Begins a capture before ports run, so that it misses none of their packets. Its client starts another one if this
/// fails.
fn continue_capture(data_plane: &dyn DataPlane, key: u64, query: &str) {
    let request = capture::parse(query);
    let begun = request.and_then(|request| {
        data_plane.continue_capture(key, &request).map_err(DataPlaneError::into_diagnostic)
    });
    if let Err(error) = begun {
        error!(reason = %error, "a capture does not go on without interruption");
    }
}

pub(super) fn receive_offer(channel: &Channel) -> Result<(Offer, Vec<OwnedFd>), Diagnostic> {
    channel.wait_at_most(PATIENCE).map_err(|e| failed(&TakeoverError::Io(e)))?;
    let (message, sockets): (serde_json::Value, _) = channel.receive().map_err(|e| failed(&e))?;
    // Before the rest, which other versions have in another form.
    let handshake = Handshake::deserialize(&message).map_err(|e| failed(&e.into()))?;
    if handshake.protocol != PROTOCOL {
        let (Handshake { version, protocol }, own) = (handshake, env!("CARGO_PKG_VERSION"));
        let reason = format!(
            "version {version} hands over by protocol {protocol}, version {own} takes over by {PROTOCOL}"
        );
        return Err(Diagnostic::bad("upgrade", reason, "stop the switch, and start the new version"));
    }
    let offer = serde_json::from_value(message).map_err(|e| failed(&e.into()))?;
    Ok((offer, sockets))
}

fn prepare(
    offer: &Offer,
    sockets: Vec<OwnedFd>,
    format: LogFormat,
) -> Result<(Prepared, Succession), Diagnostic> {
    let overrides = Overrides { control: offer.control.clone(), web: offer.web };
    let running = offer.running_ports();
    let topology = overrides.parse(&offer.running, &running);
    let mut topology = topology.map_err(|errors| config::in_file(&offer.file, errors))?;
    topology.workers = offer.running_workers().unwrap_or(topology.workers);
    let path = topology.switch.control.clone().unwrap_or_else(host::default_control);
    let sockets = Sockets::inherit(&topology.switch, &path, offer, sockets)?;
    let confinement = confinement::start(&topology, &path, format, &offer.filters)?;
    let succession = Succession::new(offer.reopened.clone(), offer.continued.clone());
    let data_plane = Switch::succeed(&topology, &succession)?;
    let file = offer.file.clone();
    let loaded = overrides.parse_past(&offer.loaded);
    let source = Source { file, text: offer.loaded.clone(), overrides, topology: loaded };
    Ok((
        Prepared {
            topology,
            path,
            source,
            sockets,
            confinement,
            data_plane,
            deferred: Vec::new(),
            takeover: None,
        },
        succession,
    ))
}

fn failed(error: &TakeoverError) -> Diagnostic {
    Diagnostic::failed("upgrade", error, "the switch that was to be replaced runs as before; see its log")
}
