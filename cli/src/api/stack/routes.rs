//! Routes of the control API of a stack. Each handler waits for the loops of the hosts, on a thread of its own.
//!
//! The program serves a document of its own, because it has none of the routes of a switch.

use super::StackService;
use super::model::{CaptureReport, CaptureRequest, ConnectionFilter, ConnectionsReport, CountersReport};
use crate::api::answer::on_own_thread;
use crate::api::answer::{created, json};
use crate::api::error::ApiError;
use crate::api::routes::no_method;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use axum::{Json, Router};
use console::Diagnostic;
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

type Service = State<Arc<StackService>>;
type Answer<T> = Result<Json<T>, ApiError>;

/// The OpenAPI document without its routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "linerate stack API",
        description = "HTTP/1.1 with JSON over the control socket of a running `linerate serve` or `linerate load` that \
            was started with `--control`. A connection carries one request. Within a version of the path, fields are \
            added and never change. Errors have the body `Diagnostic`. A path without a route is answered with 404, a \
            method that a path does not support with 405."
    ),
    servers((url = "http://localhost", description = "The control socket; clients may send any host name")),
    components(schemas(Diagnostic))
)]
struct Document;

/// All routes, with their descriptions.
fn routes() -> OpenApiRouter<Arc<StackService>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(openapi))
        .routes(routes!(connections))
        .routes(routes!(counters))
        .routes(routes!(capture, start_capture, stop_capture))
}

/// The OpenAPI document.
pub(crate) fn document() -> utoipa::openapi::OpenApi {
    routes().into_openapi()
}

/// The router of `service`.
pub(super) fn router(service: Arc<StackService>) -> Router {
    let (router, _) = routes().split_for_parts();
    router.fallback(no_route).method_not_allowed_fallback(no_method).with_state(service)
}

async fn no_route() -> ApiError {
    let reason = "there is no such path, because this program has a stack and is not a switch";
    ApiError::not_found("request", reason, "use `linerate stack`, or see the paths in /v1/openapi.json")
}

/// This document
#[utoipa::path(get, path = "/v1/openapi.json", responses(
    (status = 200, description = "OpenAPI description of the stack API", body = serde_json::Value),
))]
async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(document())
}

/// TCP connections that match a filter
///
/// Connections that open or close while they are read may be missing.
#[utoipa::path(get, path = "/v1/stack/connections", params(ConnectionFilter), responses(
    (status = 200, description = "The connections by worker", body = ConnectionsReport),
    ApiError,
))]
async fn connections(
    State(service): Service,
    query: Result<Query<ConnectionFilter>, QueryRejection>,
) -> Answer<ConnectionsReport> {
    let Query(filter) = query.map_err(|e| {
        ApiError::invalid("query", e.body_text(), "filters are port and remote; give a limit")
    })?;
    on_own_thread(move || service.connections(&filter)).await.map(Json)
}

/// Counters of all workers
#[utoipa::path(get, path = "/v1/stack/counters", responses(
    (status = 200, description = "The counters", body = CountersReport),
    ApiError,
))]
async fn counters(State(service): Service) -> Answer<CountersReport> {
    on_own_thread(move || service.counters()).await.map(Json)
}

/// Starts a capture
///
/// One capture runs at a time. It ends at a limit of the request, or if its state is not read for ten seconds.
#[utoipa::path(post, path = "/v1/stack/capture", request_body = CaptureRequest, responses(
    (status = 201, description = "The capture was started", body = CaptureReport),
    ApiError,
))]
async fn start_capture(State(service): Service, body: Bytes) -> Response {
    created(on_own_thread(move || service.start_capture(request(&body)?)).await)
}

fn request(body: &[u8]) -> Result<CaptureRequest, ApiError> {
    serde_json::from_value(json(body)?)
        .map_err(|error| ApiError::invalid("request", error, "see the request in /v1/openapi.json"))
}

/// State of the last capture
#[utoipa::path(get, path = "/v1/stack/capture", responses(
    (status = 200, description = "The capture", body = CaptureReport),
    ApiError,
))]
async fn capture(State(service): Service) -> Answer<CaptureReport> {
    on_own_thread(move || service.capture()).await.map(Json)
}

/// Ends the last capture, and completes its file
#[utoipa::path(delete, path = "/v1/stack/capture", responses(
    (status = 200, description = "The capture that has ended", body = CaptureReport),
    ApiError,
))]
async fn stop_capture(State(service): Service) -> Answer<CaptureReport> {
    on_own_thread(move || service.stop_capture()).await.map(Json)
}
