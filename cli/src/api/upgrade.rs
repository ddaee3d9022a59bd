//! `POST /v1/upgrade`: the program of the switch is started again, and takes over its ports, sockets and state.
//!
//! The program is the file at the path from which this process was started, so that clients cannot choose one. Until
//! the successor has prepared everything, packets pass as before; then the ports stop, and run again in the successor.
//! If it does not confirm that it can run them, it is killed and the ports continue here: nothing is left of an upgrade
//! that failed. What happens after that is described in [`crate::takeover`].

mod state;

use super::answer::{Answer, Service, json, on_own_thread};
use super::error::ApiError;
use super::inheritance::Inheritance;
use super::server;
use super::service::ApiService;
use crate::dataplane::handover::Lost;
use crate::dataplane::report::StationFilter;
use crate::dataplane::state::{SaveStep, monotonic};
use crate::settings::topology::Topology;
use crate::takeover::{self, Channel, Offer, PROTOCOL, TakeoverError};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use console::Diagnostic;
use port::handover::Handovers;
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};
use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;
use tracing::{info, warn};
use utoipa::ToSchema;

/// Option of `linerate run` for a successor.
pub(crate) const OPTION: &str = "--take-over";
/// How long the successor may prepare. Packets pass meanwhile.
const PREPARATION: Duration = Duration::from_secs(30);
/// How long the successor may need for the ports: to prepare them, and then to start them while no packet passes.
const TAKEOVER: Duration = Duration::from_secs(5);
/// How long each message waits for a successor that has not confirmed that the ports run.
const LATE: Duration = Duration::from_secs(1);

/// Why there is no successor, if this process ends.
const ENDS: &str = "the switch was told to end";
/// Maximum number of addresses for a process that starts later.
const STORED_ADDRESSES: usize = 500;

/// Body of `POST /v1/upgrade`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpgradeRequest {
    /// Whether ports that cannot be handed over are closed, and opened by the new process, and other state that it
    /// cannot continue is lost.
    #[serde(default)]
    pub(crate) accept_loss: bool,
}

/// Result of `POST /v1/upgrade`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Upgraded {
    /// Version that ran.
    pub(crate) from: String,
    /// Version that runs.
    pub(crate) to: String,
    /// New process.
    pub(crate) pid: u32,
    /// Number of ports that were handed over.
    pub(crate) ports: usize,
    /// Ports that the new process opens, and lost state.
    pub(crate) lost: Vec<String>,
    /// Time in microseconds in which no port passed packets.
    pub(crate) gap_us: u64,
}

impl ApiService {
    /// `POST /v1/upgrade`
    pub(crate) fn upgrade(&self, request: UpgradeRequest) -> Result<Upgraded, ApiError> {
        let upgraded = self.replace_process(request);
        // The error is that of the exchange with a successor that was ended.
        let ends = self.inheritance().is_some_and(Inheritance::is_refused);
        upgraded.map_err(|error| if ends { refused(ENDS) } else { error })
    }

    fn replace_process(&self, request: UpgradeRequest) -> Result<Upgraded, ApiError> {
        // Held until the end, and for ever after another process has taken over.
        let unchanged = self.keep_unchanged()?;
        let topology = self.topology().clone();
        let inheritance = self.inheritance().ok_or_else(|| refused("this process has no successor"))?;
        if std::process::id() == 1 {
            return Err(refused("this is the first process of a container, which ends with it"));
        }
        let losses = self.losses(request)?;
        let offer = self.offer(&topology, Some(inheritance), &losses)?;
        let mut successor = Successor::start(inheritance).map_err(|e| failed(&e.to_string()))?;
        let sockets = inheritance.duplicates().map_err(|e| failed(&e.to_string()))?;
        let to = successor.prepare(&offer, sockets)?;
        server::accept_connections(false);
        let handed =
            self.pass_state(&successor).and_then(|()| self.hand_over(&mut successor, &offer.reopened));
        let (ports, gap_us) = handed.inspect_err(|_| {
            server::accept_connections(true);
            self.data_plane().keep_state(&topology);
        })?;
        let pid = inheritance.successor().unwrap_or_default();
        unchanged.replaced();
        let gap_us = gap_us.ok_or_else(|| unconfirmed(pid, inheritance.failed_successor().is_some()));
        match &gap_us {
            Ok(gap_us) => info!(pid, ports, gap_us, version = to, "another process has taken over"),
            Err(_) => {
                warn!(pid, ports, version = to, "another process has taken over, and does not confirm it");
            }
        }
        self.stop();
        let gap_us = gap_us?;
        let from = env!("CARGO_PKG_VERSION").to_owned();
        let lost = losses.iter().map(|lost| format!("{}: {}", lost.parts().0, lost.parts().1)).collect();
        Ok(Upgraded { from, to, pid, ports, lost, gap_us })
    }

    /// Hands the ports over to a process that starts later: to the reader of the returned socket. Must be called after
    /// [`ApiService::end_changes`].
    pub(crate) fn record(&self) -> Result<OwnedFd, ApiError> {
        let topology = self.topology().clone();
        let losses = self.losses(UpgradeRequest { accept_loss: true })?;
        let offer = self.offer(&topology, None, &losses)?;
        let (mut recorder, exchange) = Successor::recorded().map_err(|e| failed(&e.to_string()))?;
        recorder.prepare(&offer, Vec::new())?;
        server::accept_connections(false);
        self.send_state(&recorder, SaveStep::Running)?;
        self.hand_over(&mut recorder, &offer.reopened)?;
        Ok(exchange)
    }

    /// What cannot be handed over, if the request accepts that.
    fn losses(&self, request: UpgradeRequest) -> Result<Vec<Lost>, ApiError> {
        let losses = self.data_plane().losses()?;
        if request.accept_loss || losses.is_empty() {
            return Ok(losses);
        }
        let remedy = "upgrade with `--accept-loss`: ports are opened again, and such state is lost";
        let refused = |lost: &Lost| {
            let (place, why) = lost.parts();
            Diagnostic::bad(place, why, remedy)
        };
        Err(ApiError::Conflict(Diagnostic::all(losses.iter().map(refused).collect())))
    }

    fn offer(
        &self,
        topology: &Topology,
        inheritance: Option<&Inheritance>,
        losses: &[Lost],
    ) -> Result<Offer, ApiError> {
        let reopened = losses.iter().filter_map(|lost| match lost {
            Lost::Port(name, _) => Some(name.clone()),
            Lost::Bridge(..) => None,
        });
        let reopened = reopened.collect();
        let running = self.configuration_beside_workers(topology)?;
        let overrides = self.source().as_ref().map(|source| source.overrides.clone()).unwrap_or_default();
        Ok(Offer {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            file: running.file,
            loaded: running.loaded,
            running: running.text,
            ports: topology.ports.iter().filter_map(|port| serde_json::to_value(port).ok()).collect(),
            workers: topology.workers.iter().filter_map(|worker| serde_json::to_value(worker).ok()).collect(),
            control: overrides.control,
            web: overrides.web,
            continued: self.data_plane().continued(),
            reopened,
            captures: inheritance.map(|_| self.data_plane().captures()).unwrap_or_default(),
            sockets: inheritance.iter().flat_map(|given| &given.sockets).map(|(name, _)| *name).collect(),
            web_token: inheritance.and_then(|given| given.web_token.clone()),
            filters: inheritance.map(|_| confine::in_force()).unwrap_or_default(),
        })
    }

    /// Passes the ports on. Returns their number, and the time in microseconds until they ran again if the successor
    /// confirms it. After an error they have continued here.
    fn hand_over(
        &self,
        successor: &mut Successor<'_>,
        closed: &[String],
    ) -> Result<(usize, Option<u64>), ApiError> {
        let data_plane = self.data_plane();
        let mut addresses = data_plane.fdb(&StationFilter::default());
        if successor.inheritance.is_none() {
            // A stored exchange has limited space, and addresses are learned again.
            addresses.truncate(STORED_ADDRESSES);
        }
        successor.channel.send(&addresses, Vec::new()).map_err(|e| successor.lost(&e))?;
        let ports = data_plane.describe(closed)?;
        let passed = successor.pass(&ports).and_then(|()| {
            let began = monotonic();
            let ports = data_plane.hand_over()?;
            self.send_state(successor, SaveStep::Stopped)?;
            successor.pass(&ports)?;
            successor.start_ports()?;
            Ok((ports.len(), began))
        });
        match passed {
            Ok((ports, began)) => {
                data_plane.release();
                let ended = successor.confirmation();
                // The ports run without it.
                let _ = successor.channel.send(&data_plane.snapshot(), Vec::new());
                let _ = self.send_state(successor, SaveStep::Counters);
                Ok((ports, ended.map(|ended| ended.saturating_sub(began) / 1000)))
            }
            Err(error) => {
                // Before the ports run here. It has not started them, because it was not told to.
                successor.end();
                data_plane.resume();
                Err(error)
            }
        }
    }
}

/// The process that is about to take over. It is ended if it does not.
struct Successor<'a> {
    /// Has the process; `None` if it starts later: it does not answer.
    inheritance: Option<&'a Inheritance>,
    channel: Channel,
}

impl<'a> Successor<'a> {
    /// Starts the program with the arguments of this process.
    fn start(inheritance: &'a Inheritance) -> io::Result<Self> {
        let (channel, other) = Channel::pair()?;
        channel.wait_at_most(PREPARATION)?;
        let arguments = std::env::args_os().skip(1).filter(|argument| argument != OPTION);
        let child = Command::new(&inheritance.program)
            .args(arguments)
            .arg(OPTION)
            .stdin(Stdio::from(other))
            // The watchdog of systemd is that of this process, unless the successor is told otherwise.
            .env_remove("WATCHDOG_PID")
            .spawn()?;
        if !inheritance.prepare(child) {
            return Err(io::Error::other(ENDS));
        }
        Ok(Self { inheritance: Some(inheritance), channel })
    }

    /// A process that starts later, and its end of the exchange.
    fn recorded() -> io::Result<(Self, OwnedFd)> {
        let (channel, exchange) = Channel::recorded()?;
        Ok((Self { inheritance: None, channel }, exchange))
    }

    /// Sends the configuration and the sockets, and waits until the successor is ready. Returns its version.
    fn prepare(&mut self, offer: &Offer, sockets: Vec<OwnedFd>) -> Result<String, ApiError> {
        self.channel.send(offer, sockets).map_err(|e| self.lost(&e))?;
        let version = self.answer()?.version;
        if self.inheritance.is_some() {
            self.channel.wait_at_most(TAKEOVER).map_err(|e| failed(&e.to_string()))?;
        }
        Ok(version)
    }

    /// Passes descriptions of ports on.
    fn pass(&self, ports: &Handovers) -> Result<(), ApiError> {
        self.channel.send_ports(ports).map_err(|e| self.lost(&e))?;
        self.answer().map(drop)
    }

    /// Tells the successor to start the ports. After an error it has not started them, and has ended.
    fn start_ports(&self) -> Result<(), ApiError> {
        if self.inheritance.is_some_and(|own| !own.commit()) {
            return Err(refused(ENDS));
        }
        self.channel.send(&true, Vec::new()).map_err(|e| {
            self.inheritance.iter().for_each(|own| own.take_back());
            self.lost(&e)
        })
    }

    /// The error of the exchange.
    fn lost(&self, error: &TakeoverError) -> ApiError {
        match self.inheritance {
            Some(_) => failed(&format!("the new process did not take over: {error}; its log has the reason")),
            None => not_stored(error),
        }
    }

    /// The time at which the successor has started the ports. Returns `None` if it does not confirm that: it has ended,
    /// or it may still do.
    fn confirmation(&self) -> Option<u64> {
        let Some(own) = self.inheritance else { return Some(monotonic()) };
        match self.channel.receive::<takeover::Answer>() {
            Ok((answer, _)) => return Some(answer.time),
            Err(error) if error.is_end() => own.end_running(),
            // Fails only for a limit of zero.
            Err(_) => drop(self.channel.wait_at_most(LATE)),
        }
        None
    }

    fn answer(&self) -> Result<takeover::Answer, ApiError> {
        if self.inheritance.is_none() {
            return Ok(takeover::Answer::now(None));
        }
        let (answer, _): (takeover::Answer, _) = self.channel.receive().map_err(|e| self.lost(&e))?;
        match answer.error {
            Some(error) => Err(ApiError::Failed(Diagnostic {
                reason: format!("the new process cannot take over: {}", error.reason),
                ..error
            })),
            None => Ok(answer),
        }
    }

    /// Ends the successor, unless it has the ports.
    fn end(&self) {
        self.inheritance.iter().for_each(|own| own.end_prepared());
    }
}

impl Drop for Successor<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// The exchange for a process that starts later cannot be written.
fn not_stored(error: &TakeoverError) -> ApiError {
    let (reason, remedy) = if error.is_full() {
        let reason =
            "the buffer of the socket in which ports wait for the next process has no room for all ports";
        (reason.to_owned(), "give the service CAP_NET_ADMIN, or raise net.core.wmem_default")
    } else {
        (error.to_string(), "use `linerate upgrade`, which stores nothing")
    };
    ApiError::Failed(Diagnostic::failed("--keep-ports", reason, remedy))
}

fn failed(reason: &str) -> ApiError {
    let remedy = "the switch runs as before; correct the cause and try again";
    ApiError::Failed(Diagnostic::failed("upgrade", reason, remedy))
}

/// The successor has the ports, and has not confirmed that they run.
fn unconfirmed(pid: u32, has_ended: bool) -> ApiError {
    let (reason, remedy) = if has_ended {
        (
            "ended before it confirmed that the ports run",
            "see its log; start the switch again if systemd does not",
        )
    } else {
        (
            "does not confirm that the ports run",
            "see its log, and end it if it does not answer `linerate status`",
        )
    };
    let reason = format!("process {pid} has taken over, and {reason}");
    ApiError::Failed(Diagnostic::failed("upgrade", reason, remedy))
}

fn refused(reason: &str) -> ApiError {
    ApiError::Conflict(Diagnostic::bad("upgrade", reason, "stop the switch, and start the new version"))
}

/// Replaces the process by the program that is at its path now
///
/// Ports, sockets, flows, connections, learned addresses and counters are handed over. All or nothing: if the new
/// process cannot take over, the switch runs as before.
#[utoipa::path(post, path = "/v1/upgrade", request_body = UpgradeRequest, responses(
    (status = 200, description = "The new process runs, and this one is about to exit", body = Upgraded),
    ApiError,
))]
pub(super) async fn upgrade(State(service): Service, body: Bytes) -> Answer<Upgraded> {
    let upgraded = on_own_thread(move || {
        let request = json(&body).and_then(|json| {
            serde_json::from_value(json)
                .map_err(|e| ApiError::invalid("request", e.to_string(), "send {\"accept_loss\": true}"))
        })?;
        service.upgrade(request)
    });
    upgraded.await.map(Json)
}

#[cfg(test)]
mod tests {
    use super::super::fake::Fake;
    use super::super::source::{Overrides, Source};
    use super::*;
    use crate::host::Host;
    use serde_json::json;
    use std::path::PathBuf;

    #[test]
    fn workers_that_no_file_expresses_are_offered_beside_that_of_the_file() {
        let cpu = Host::here().allowed()[0];
        let text = format!("[worker]\nwork = [{cpu}]\n[[port]]\nname = \"a\"\nkind = \"null\"\n");
        let topology = Overrides::default().parse(&text, &[]).unwrap();
        let (file, overrides) = (PathBuf::from("/x.toml"), Overrides::default());
        let source = Source { file, text: text.clone(), overrides, topology: topology.clone() };
        let service = ApiService::new(topology, PathBuf::from("c.sock"), Box::new(Fake::default()), || ());
        let service = service.with_source(source);
        service.add_worker(&json!({ "polling": "busy" })).unwrap();
        assert!(service.configuration().is_err());
        let running = service.topology().clone();
        let offer = service.offer(&running, None, &[]).unwrap();
        assert_eq!(offer.running, text);
        assert_eq!(offer.running_workers(), Some(running.workers));
        let offer: Offer = serde_json::from_value({
            let mut json = serde_json::to_value(offer).unwrap();
            json.as_object_mut().unwrap().remove("workers");
            json
        })
        .unwrap();
        assert_eq!(offer.running_workers(), None);
    }

    #[test]
    fn a_socket_without_room_for_all_ports_is_named_with_its_remedy() {
        let (channel, _reader) = Channel::pair().unwrap();
        channel.wait_at_most(Duration::from_millis(10)).unwrap();
        let recorder = Successor { inheritance: None, channel };
        let ports = "x".repeat(64 << 20);
        let error = recorder.channel.send(&ports, Vec::new()).map_err(|e| recorder.lost(&e)).unwrap_err();
        let error = error.into_diagnostic();
        assert!(error.reason.contains("no room for all ports"), "{error}");
        assert!(error.remedy.contains("net.core.wmem_default"), "{error}");
    }
}
