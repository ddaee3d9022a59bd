//! Workers and their placement in the control API: requests and routes.

use super::answer::{Answer, PathText, Service, created, json, on_own_thread, path};
use super::error::ApiError;
use super::model::{PlacementReport, RebalanceRequest, WorkerReport, WorkerRequest, WorkersReport};
use super::service::{ApiService, missing};
use crate::host::Host;
use crate::settings::config::worker_requests;
use crate::settings::model::{ModelKind, Role};
use crate::settings::placement::Placement;
use crate::settings::topology::Topology;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use engine::balance::Balance;
use serde_json::Value;
use std::time::Duration;

/// Duration of a measurement. Clients time out after ten seconds.
const MEASURED: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(8);

impl ApiService {
    /// `GET /v1/workers`
    pub(crate) fn workers(&self) -> WorkersReport {
        let now = self.data_plane().snapshot();
        WorkersReport {
            uptime_ns: now.uptime_ns,
            cycles_per_second: now.cycles_per_second,
            budget: now.budget,
            workers: now.workers,
        }
    }

    /// `GET /v1/placement`
    pub(crate) fn placement(&self) -> Result<PlacementReport, ApiError> {
        let queues = self.data_plane().queues()?;
        let topology = self.topology();
        let placement = topology.placement.as_ref();
        let plan = placement.and_then(|placement| placement.plan.as_ref());
        Ok(PlacementReport {
            rules: placement.map(ToString::to_string),
            notes: plan.map(|plan| plan.notes.clone()).unwrap_or_default(),
            workers: self.data_plane().snapshot().workers,
            queues,
            latest: self.data_plane().latest_balance(),
        })
    }

    /// `POST /v1/rebalance`: waits while load is measured; does not block other requests.
    pub(crate) fn rebalance(&self, json: Value) -> Result<Balance, ApiError> {
        let bad = |reason: String, remedy: &str| ApiError::invalid("rebalance", reason, remedy);
        let wanted: RebalanceRequest = serde_json::from_value(json).map_err(|e| {
            bad(format!("invalid request: {e}"), "give `duration`, and optionally dry_run and threshold")
        })?;
        if !MEASURED.contains(&wanted.duration.0) {
            let reason = format!("invalid value \"{}\" for duration: expected 10ms to 8s", wanted.duration);
            return Err(bad(reason, "measure for 10ms to 8s"));
        }
        let usual =
            self.topology().placement.as_ref().map_or(Placement::default().threshold, |p| p.threshold);
        let threshold = wanted.threshold.unwrap_or(usual.0);
        if !(0.01..=1.0).contains(&threshold) {
            let reason = format!("invalid value {threshold} for threshold: expected 0.01 to 1");
            return Err(bad(reason, "give a share of a core"));
        }
        Ok(self.data_plane().rebalance(wanted.duration.0, threshold, !wanted.dry_run)?)
    }

    /// `POST /v1/workers`
    pub(crate) fn add_worker(&self, json: &Value) -> Result<WorkerReport, ApiError> {
        let mut topology = self.change()?;
        let (role, wanted) = worker_requests::new_worker(json, &topology, &Host::here())?;
        let index = self.data_plane().add_worker(role, &wanted)?;
        let cpu = wanted.workers.last().and_then(|worker| worker.cpu);
        topology.workers = wanted.workers;
        Ok(WorkerReport { index, role: role.map_or(Self::ALL, Role::name).to_owned(), cpu })
    }

    /// `PATCH /v1/workers/{index}`
    pub(crate) fn set_worker(&self, index: &str, json: &Value) -> Result<WorkerReport, ApiError> {
        let mut topology = self.change()?;
        let (index, place, role) = self.find_worker(index, &topology)?;
        let wanted = worker_requests::changed_worker(json, &topology, place, &Host::here())?;
        let cpu = wanted.workers[place].cpu;
        self.data_plane().set_worker(index, &wanted.workers[place])?;
        topology.workers = wanted.workers;
        Ok(WorkerReport { index, role, cpu })
    }

    /// `DELETE /v1/workers/{index}`
    pub(crate) fn remove_worker(&self, index: &str) -> Result<WorkerReport, ApiError> {
        let mut topology = self.change()?;
        let (index, place, role) = self.find_worker(index, &topology)?;
        let cpu = topology.workers[place].cpu;
        let of_stage = Role::ALL.into_iter().find(|of_stage| of_stage.name() == role);
        let wanted = worker_requests::without_worker(&topology, place, of_stage)?;
        self.data_plane().remove_worker(index, &wanted)?;
        topology.workers = wanted.workers;
        Ok(WorkerReport { index, role, cpu })
    }

    /// Role of a worker that runs to completion.
    const ALL: &str = "all";

    /// Number, place in the configuration and role of a worker.
    fn find_worker(&self, index: &str, topology: &Topology) -> Result<(usize, usize, String), ApiError> {
        let unknown = || missing("worker", index);
        let number = index.parse().map_err(|_| unknown())?;
        let places = self.data_plane().worker_numbers();
        let place = places.iter().position(|numbers| numbers.contains(&number)).ok_or_else(unknown)?;
        let workers = self.data_plane().snapshot().workers;
        let worker = workers.into_iter().find(|worker| worker.index == number);
        // With software RSS, a worker has a stage that receives beside it.
        let is_stage = topology.model.model == ModelKind::Pipeline;
        let role = worker.filter(|_| is_stage).map_or(Self::ALL.to_owned(), |worker| worker.role);
        Ok((number, place, role))
    }
}

/// All workers, with their counters
#[utoipa::path(get, path = "/v1/workers", responses((status = 200, description = "The workers", body = WorkersReport)))]
pub(super) async fn show_workers(State(service): Service) -> Json<WorkersReport> {
    Json(service.workers())
}

/// Adds a worker
///
/// No packet is lost: the queues of all ports stop for two bursts of every worker, and start on the workers as they are
/// then.
#[utoipa::path(post, path = "/v1/workers", request_body = WorkerRequest, responses(
    (status = 201, description = "The worker was added", body = WorkerReport),
    ApiError,
))]
pub(super) async fn add_worker(State(service): Service, body: Bytes) -> Response {
    created(on_own_thread(move || service.add_worker(&json(&body)?)).await)
}

/// Changes CPU, polling and the handling of full queues of a worker
///
/// Stages of a pipeline on one thread have them in common. Queues keep running.
#[utoipa::path(patch, path = "/v1/workers/{index}", params(("index" = String, Path, description = "Number")),
    request_body = WorkerRequest, responses(
    (status = 200, description = "The worker was changed", body = WorkerReport),
    ApiError,
))]
pub(super) async fn set_worker(
    State(service): Service,
    index: PathText,
    body: Bytes,
) -> Answer<WorkerReport> {
    let index = path(index)?;
    on_own_thread(move || service.set_worker(&index, &json(&body)?)).await.map(Json)
}

/// Removes a worker
///
/// Other workers continue its queues and flows, without packet loss, as when a worker is added. The last worker of a
/// role cannot be removed.
#[utoipa::path(delete, path = "/v1/workers/{index}", params(("index" = String, Path, description = "Number")),
    responses(
    (status = 200, description = "The worker was removed", body = WorkerReport),
    ApiError,
))]
pub(super) async fn remove_worker(State(service): Service, index: PathText) -> Answer<WorkerReport> {
    let index = path(index)?;
    on_own_thread(move || service.remove_worker(&index)).await.map(Json)
}

/// Placement of workers and receive queues
#[utoipa::path(get, path = "/v1/placement", responses(
    (status = 200, description = "The placement", body = PlacementReport),
    ApiError,
))]
pub(super) async fn show_placement(State(service): Service) -> Answer<PlacementReport> {
    service.placement().map(Json)
}

/// Measures load, and moves receive queues to balance the workers
#[utoipa::path(post, path = "/v1/rebalance", request_body = RebalanceRequest, responses(
    (status = 200, description = "The loads, and the moves with the failure of each that failed", body = Balance),
    ApiError,
))]
pub(super) async fn rebalance(State(service): Service, body: Bytes) -> Answer<Balance> {
    on_own_thread(move || json(&body).and_then(|json| service.rebalance(json))).await.map(Json)
}
