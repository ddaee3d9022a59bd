//! Workers and their placement in the control API: requests and routes.

use super::answer::{Answer, Service, created, json, on_own_thread};
use super::error::ApiError;
use super::model::{PlacementReport, RebalanceRequest, WorkerAdded, WorkerRequest, WorkersReport};
use super::service::ApiService;
use crate::host::Host;
use crate::settings::config;
use crate::settings::placement::Placement;
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
    pub(crate) fn add_worker(&self, json: &Value) -> Result<WorkerAdded, ApiError> {
        let mut topology = self.change()?;
        let (role, worker) = config::requests::new_worker(json, &topology, &Host::here())?;
        let index = self.data_plane().add_worker(role, &worker)?;
        topology.workers.push(worker);
        Ok(WorkerAdded { index, role, cpu: worker.cpu })
    }
}

/// All workers, with their counters
#[utoipa::path(get, path = "/v1/workers", responses((status = 200, description = "The workers", body = WorkersReport)))]
pub(super) async fn show_workers(State(service): Service) -> Json<WorkersReport> {
    Json(service.workers())
}

/// Adds a stage to a pipeline
#[utoipa::path(post, path = "/v1/workers", request_body = WorkerRequest, responses(
    (status = 201, description = "The worker was added", body = WorkerAdded),
    ApiError,
))]
pub(super) async fn add_worker(State(service): Service, body: Bytes) -> Response {
    created(json(&body).and_then(|json| service.add_worker(&json)))
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
