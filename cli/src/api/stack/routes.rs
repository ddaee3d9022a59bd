//! Routes of the control API of a stack. Each handler waits for the loops of the hosts, on a thread of its own.

use super::StackService;
use super::model::{CaptureReport, ConnectionFilter, ConnectionsReport, CountersReport};
use crate::api::error::ApiError;
use crate::api::routes::{created, json, no_method, on_own_thread};
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;

type Service = State<Arc<StackService>>;
type Answer<T> = Result<Json<T>, ApiError>;

/// The router of `service`.
pub(super) fn router(service: Arc<StackService>) -> Router {
    Router::new()
        .route("/v1/stack/connections", get(connections))
        .route("/v1/stack/counters", get(counters))
        .route("/v1/stack/capture", get(capture).post(start_capture).delete(stop_capture))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .with_state(service)
}

async fn no_route() -> ApiError {
    let reason = "there is no such path, because this program has a stack and is not a switch";
    ApiError::not_found("request", reason, "use `linerate stack`")
}

async fn connections(
    State(service): Service,
    query: Result<Query<ConnectionFilter>, QueryRejection>,
) -> Answer<ConnectionsReport> {
    let Query(filter) = query.map_err(|e| {
        ApiError::invalid("query", e.body_text(), "filters are port and remote; give a limit")
    })?;
    on_own_thread(move || service.connections(&filter)).await.map(Json)
}

async fn counters(State(service): Service) -> Answer<CountersReport> {
    on_own_thread(move || service.counters()).await.map(Json)
}

async fn start_capture(State(service): Service, body: Bytes) -> Response {
    created(on_own_thread(move || service.start_capture(request(&body)?)).await)
}

fn request(body: &[u8]) -> Result<super::model::CaptureRequest, ApiError> {
    serde_json::from_value(json(body)?)
        .map_err(|error| ApiError::invalid("request", error, "use the linerate that started the program"))
}

async fn capture(State(service): Service) -> Answer<CaptureReport> {
    on_own_thread(move || service.capture()).await.map(Json)
}

async fn stop_capture(State(service): Service) -> Answer<CaptureReport> {
    on_own_thread(move || service.stop_capture()).await.map(Json)
}
