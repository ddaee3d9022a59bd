//! Known causes of faults in the control API: those of `linerate doctor` that the switch knows of itself.
//!
//! Nothing of the machine and of other processes is read here, except the files of the sockets of ports.

use super::answer::{Answer, Service, on_own_thread};
use super::service::ApiService;
use crate::causes::checks;
use crate::causes::evidence::Evidence;
use crate::causes::findings::Finding;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::PoisonError;
use utoipa::ToSchema;

/// `GET /v1/findings`
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct FindingsReport {
    /// Seconds in which counters were compared; 0 if there was no request for a minute.
    seconds: f64,
    /// The most severe first.
    findings: Vec<Finding>,
}

impl ApiService {
    /// `GET /v1/findings`
    fn findings(&self) -> FindingsReport {
        let now = self.snapshot();
        let readings = self.earlier.lock().unwrap_or_else(PoisonError::into_inner).readings(now);
        let settings = self.topology().ports.clone();
        let evidence = Evidence {
            seconds: readings.seconds(),
            ports: settings.into_iter().map(|port| readings.port(port, None)).collect(),
            bonds: self.data_plane().bonds(),
            bridges: self.bridges(),
            workers: readings.workers().collect(),
            hung: self.health().hung_workers,
            ..Evidence::default()
        };
        FindingsReport { seconds: evidence.seconds, findings: checks::all(&evidence) }
    }
}

/// Known causes of ports that are down, slow or lose packets
///
/// Counters are compared with those of an earlier request, usually 5 to 10 seconds ago. Causes in the machine and in
/// other processes are found by `linerate doctor` only.
#[utoipa::path(get, path = "/v1/findings", responses(
    (status = 200, description = "The causes", body = FindingsReport),
    super::error::ApiError,
))]
pub(super) async fn show_findings(State(service): Service) -> Answer<FindingsReport> {
    on_own_thread(move || Ok(service.findings())).await.map(Json)
}
