//! The control API of a program with a TCP/IP stack: connections, counters and captures.
//!
//! `routes` reads requests, [`StackService`] handles them, and `model` is the JSON of both. The service runs on threads
//! of the API and never touches a stack: it posts questions to the loops of the hosts ([`host::Inspector`]).

pub(crate) mod model;
mod routes;
#[cfg(test)]
mod tests;

pub(crate) use routes::document;

use super::control::{self, SocketClaim};
use super::error::ApiError;
use super::server::{self, Server};
use console::Diagnostic;
use host::{CaptureError, CaptureFilter, CaptureOptions, Host, InspectError, Inspector, Recording};
use model::{
    CaptureReport, CaptureRequest, ConnectionFilter, ConnectionReport, ConnectionsReport, CountersReport,
};
use port::Remedy;
use port::pcap::Output;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The control socket of a program, open until it is dropped. Fields are dropped in order.
pub(crate) struct StackControl {
    _server: Server,
    _claim: SocketClaim,
}

impl StackControl {
    /// Opens the control socket at `path`, if one is given, for the stacks of these hosts.
    pub(crate) fn open(path: Option<&Path>, hosts: &mut [Host]) -> anyhow::Result<Option<Self>> {
        let Some(path) = path.map(std::path::absolute).transpose()? else { return Ok(None) };
        let (claim, listener) = control::claim(&path, control::CONTROL)?;
        let hosts = hosts.iter_mut().map(Host::inspector).collect::<Result<_, _>>()?;
        let service = Arc::new(StackService { hosts, capture: Mutex::new(None) });
        let server = server::start("control-api", server::Role::Changes, listener, routes::router(service))?;
        Ok(Some(Self { _server: server, _claim: claim }))
    }
}

/// Handles requests.
struct StackService {
    /// By worker.
    hosts: Vec<Inspector>,
    /// The last capture, with its file.
    capture: Mutex<Option<(PathBuf, Recording)>>,
}

impl StackService {
    /// The connections that match a filter, by worker.
    fn connections(&self, filter: &ConnectionFilter) -> Result<ConnectionsReport, ApiError> {
        let mut report = ConnectionsReport::default();
        for (worker, host) in self.hosts.iter().enumerate() {
            let mut next = Some(0);
            while let Some(from) = next {
                let page = host.connections(from).map_err(unanswered)?;
                let infos = page.entries.iter().filter(|info| filter.has(info));
                report.connections.extend(infos.map(|info| ConnectionReport::of(worker, info)));
                if report.connections.len() > filter.limit {
                    report.connections.truncate(filter.limit);
                    report.is_truncated = true;
                    return Ok(report);
                }
                next = page.next;
            }
        }
        Ok(report)
    }

    /// The sums of all workers' counters.
    fn counters(&self) -> Result<CountersReport, ApiError> {
        let mut sum = host::Totals::default();
        for host in &self.hosts {
            let totals = host.totals().map_err(unanswered)?;
            sum.report.add(&totals.report);
            sum.time_waits += totals.time_waits;
        }
        Ok(CountersReport::of(&sum))
    }

    fn start_capture(&self, request: CaptureRequest) -> Result<CaptureReport, ApiError> {
        let mut capture = self.capture.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((file, _)) = capture.as_ref().filter(|(_, recording)| !recording.status().has_ended) {
            let reason = format!("a capture into {} is in progress", file.display());
            let error = Diagnostic::bad("capture", reason, "end it, or wait until it has reached its limit");
            return Err(ApiError::Conflict(error));
        }
        let CaptureRequest { file, filter, packets, duration, snap, overwrite } = request;
        let filter = match (filter.connection, filter.port) {
            (Some([local, remote]), None) => {
                CaptureFilter::Connection { local: local.into(), remote: remote.into() }
            }
            (None, Some(port)) => CaptureFilter::Port(port),
            _ => {
                return Err(ApiError::invalid(
                    "filter",
                    "expected `connection` or `port`",
                    "give one of them",
                ));
            }
        };
        let output = Output { path: file.clone(), overwrite };
        let options = CaptureOptions { filter, output, snap, packets, duration: duration.0 };
        let recording = Recording::start(&self.hosts, &options).map_err(|error| refused(&file, error))?;
        let report = CaptureReport::of(&file, recording.status());
        *capture = Some((file, recording));
        Ok(report)
    }

    /// State of the last capture.
    fn capture(&self) -> Result<CaptureReport, ApiError> {
        let capture = self.capture.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, recording) = capture.as_ref().ok_or_else(no_capture)?;
        Ok(CaptureReport::of(file, recording.status()))
    }

    /// Ends the last capture.
    fn stop_capture(&self) -> Result<CaptureReport, ApiError> {
        let capture = self.capture.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (file, recording) = capture.ok_or_else(no_capture)?;
        Ok(CaptureReport::of(&file, recording.stop()))
    }
}

fn no_capture() -> ApiError {
    ApiError::not_found("capture", "there is none", "start one with `linerate stack capture`")
}

fn unanswered(error: InspectError) -> ApiError {
    ApiError::Failed(Diagnostic::failed("stack", error, "see whether the program still runs, and try again"))
}

fn refused(file: &Path, error: CaptureError) -> ApiError {
    let place = format!("capture {}", file.display());
    match error {
        CaptureError::File(error) => {
            let remedy = error.remedy().unwrap_or("name another file".into());
            let is_io = matches!(error, port::pcap::CreateError::Kernel { .. });
            let error = Diagnostic::failed(place, error, remedy);
            if is_io { ApiError::Failed(error) } else { ApiError::Invalid(error.as_bad_input()) }
        }
        CaptureError::Host(error) => unanswered(error),
        CaptureError::Thread(error) => {
            ApiError::Failed(Diagnostic::failed(place, error, "end processes that are not needed"))
        }
    }
}
