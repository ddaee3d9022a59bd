//! Routes of the control API: paths, parameters, and the HTTP status of each result.
//!
//! A route is registered together with its description (`routes!`), so that the router and the OpenAPI document of
//! `GET /v1/openapi.json` list the same routes.

use super::answer::{Answer, PathText, Service, created, json, on_own_thread, path};
use super::error::ApiError;
use super::metrics::Format;
use super::model::{PortReport, Status};
use super::peer::Peer;
use super::service::ApiService;
use super::{
    bonds, capture, config, events, fdb, findings, flows, history, mirrors, multicast, queues, upgrade,
    workers,
};
use crate::dataplane::health::{HealthReport, ReadyReport};
use crate::dataplane::link_report::NeighborsReport;
use crate::dataplane::offload_report::OffloadReport;
use crate::dataplane::report::BridgeReport;
use crate::settings::topology::PortSettings;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router};
use console::Diagnostic;
use engine::Snapshot;
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The OpenAPI document without its routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "linerate control API",
        description = "HTTP/1.1 with JSON over the control socket of a running switch. A connection carries one \
            request. Within a version of the path, fields are added and never change. Errors have the body \
            `Diagnostic`. A path without a route is answered with 404, a method that a path does not support with 405."
    ),
    servers((url = "http://localhost", description = "The control socket; clients may send any host name")),
    components(schemas(Diagnostic))
)]
struct Document;

/// All routes, with their descriptions.
fn routes() -> OpenApiRouter<Arc<ApiService>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(openapi))
        .routes(routes!(status))
        .routes(routes!(snapshot))
        .merge(metrics_routes())
        .routes(routes!(show_ports, add_port))
        .routes(routes!(show_port, config::edits::set_port, remove_port))
        .routes(routes!(config::show_config, config::apply_config))
        .routes(routes!(capture::capture))
        .routes(routes!(events::show_events))
        .routes(routes!(history::show_history))
        .routes(routes!(findings::show_findings))
        .routes(routes!(show_bridges, config::edits::add_bridge))
        .routes(routes!(config::edits::set_bridge, config::edits::remove_bridge))
        .routes(routes!(bonds::show_bonds, bonds::add_bond))
        .routes(routes!(bonds::show_bond, bonds::set_bond, bonds::remove_bond))
        .routes(routes!(show_neighbors))
        .routes(routes!(show_offload))
        .routes(routes!(fdb::show_fdb, fdb::add_static, fdb::flush_fdb))
        .routes(routes!(fdb::remove_address))
        .routes(routes!(flows::show_flows, flows::add_flows, flows::remove_flows))
        .routes(routes!(flows::show_connections, flows::flush_connections))
        .routes(routes!(flows::show_limits, flows::set_limits))
        .routes(routes!(mirrors::show_mirrors, mirrors::add_mirror))
        .routes(routes!(mirrors::remove_mirror))
        .routes(routes!(queues::show_queues))
        .routes(routes!(queues::set_queue))
        .routes(routes!(multicast::show_multicast, multicast::flush_multicast))
        .routes(routes!(flows::show_tunnels))
        .routes(routes!(flows::show_tunnel_options, flows::add_tunnel_options, flows::remove_tunnel_options))
        .routes(routes!(flows::show_export))
        .routes(routes!(flows::trace))
        .routes(routes!(workers::show_workers, workers::add_worker))
        .routes(routes!(workers::set_worker, workers::remove_worker))
        .routes(routes!(workers::show_placement))
        .routes(routes!(workers::rebalance))
        .routes(routes!(upgrade::upgrade))
        .routes(routes!(shutdown))
}

/// The OpenAPI document.
pub(crate) fn document() -> utoipa::openapi::OpenApi {
    routes().into_openapi()
}

/// The router of `service`.
pub(crate) fn router(service: Arc<ApiService>) -> Router {
    let (router, _) = routes().split_for_parts();
    router.fallback(no_route).method_not_allowed_fallback(no_method).with_state(service)
}

/// The router of the socket for reading: everything that changes nothing, except captures, which have the packets of
/// others.
pub(crate) fn read_router(service: Arc<ApiService>) -> Router {
    router(service).layer(from_fn(read_only))
}

pub(super) async fn read_only(request: Request, next: Next) -> Response {
    if request.method() == Method::GET && request.uri().path() != capture::PATH {
        return next.run(request).await;
    }
    let reason = "this client may only read the switch";
    ApiError::Forbidden(Diagnostic::bad(
        "request",
        reason,
        "use the control socket, or a token with write access",
    ))
    .into_response()
}

/// Routes that only read counters and health.
fn metrics_routes() -> OpenApiRouter<Arc<ApiService>> {
    OpenApiRouter::new().routes(routes!(metrics)).routes(routes!(health)).routes(routes!(readiness))
}

/// The router of the address for metrics.
pub(super) fn metrics_router(service: Arc<ApiService>) -> Router {
    let (router, _) = metrics_routes().split_for_parts();
    router.fallback(no_metrics).method_not_allowed_fallback(no_method).with_state(service)
}

/// The router of the web page: the requests that it needs, all of which only read.
pub(super) fn web_router(service: Arc<ApiService>) -> Router {
    let routes = OpenApiRouter::new()
        .routes(routes!(status))
        .routes(routes!(snapshot))
        .routes(routes!(show_port))
        .routes(routes!(show_bridges))
        .routes(routes!(bonds::show_bonds))
        .routes(routes!(show_neighbors))
        .routes(routes!(fdb::show_fdb))
        .routes(routes!(events::show_events))
        .routes(routes!(history::show_history))
        .routes(routes!(findings::show_findings));
    let (router, _) = routes.split_for_parts();
    router.route(capture::PATH, axum::routing::get(capture::capture_by_page)).with_state(service)
}

async fn no_metrics() -> ApiError {
    let remedy = "use /metrics, /healthz or /readyz, or the control socket";
    ApiError::not_found("request", "there is no such path at the address for metrics", remedy)
}

async fn no_route(uri: Uri) -> ApiError {
    if uri.path().starts_with("/v1/stack/") {
        let reason = "there is no such path, because this is a switch and not a program with a stack";
        let remedy = "name the control socket of a `linerate serve` or `linerate load`";
        return ApiError::not_found("request", reason, remedy);
    }
    ApiError::not_found("request", "there is no such path", "see the paths in /v1/openapi.json")
}

pub(super) async fn no_method() -> Response {
    let remedy = "see the methods of the path in /v1/openapi.json";
    let body = Diagnostic::bad("request", "the path does not support this method", remedy);
    (StatusCode::METHOD_NOT_ALLOWED, Json(body)).into_response()
}

/// This document
#[utoipa::path(get, path = "/v1/openapi.json", responses(
    (status = 200, description = "OpenAPI description of the control API", body = serde_json::Value),
))]
async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(document())
}

/// State of the switch, and sums over all ports
#[utoipa::path(get, path = "/v1/status", responses((status = 200, description = "The status", body = Status)))]
async fn status(State(service): Service) -> Json<Status> {
    Json(service.status())
}

/// All counters and states at one moment
#[utoipa::path(get, path = "/v1/snapshot", responses((status = 200, description = "The counters", body = Snapshot)))]
async fn snapshot(State(service): Service) -> Json<Snapshot> {
    Json(service.snapshot())
}

/// Counters in the text format of Prometheus, or in `OpenMetrics` 1.0 if the header `Accept` prefers it
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, description = "Counters of ports, workers and flow tables", content(
        (String = "text/plain"),
        (String = "application/openmetrics-text"),
    )),
))]
async fn metrics(State(service): Service, headers: HeaderMap) -> Response {
    let format = Format::accepted(headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()));
    let head = [(CONTENT_TYPE, format.media_type()), (VARY, "accept")];
    (head, service.metrics(format)).into_response()
}

/// Whether the process does its work
///
/// A supervisor should end a process that does not.
#[utoipa::path(get, path = "/healthz", responses(
    (status = 200, description = "No worker hangs", body = HealthReport),
    (status = 503, description = "A worker neither sleeps nor ends a round for 5 seconds", body = HealthReport),
))]
async fn health(State(service): Service) -> Response {
    let report = service.health();
    (status_of(report.hung_workers.is_empty()), Json(report)).into_response()
}

/// Whether all ports can carry packets
///
/// Ports that wait for their peers can.
#[utoipa::path(get, path = "/readyz", responses(
    (status = 200, description = "No port has failed", body = ReadyReport),
    (status = 503, description = "A port has failed", body = ReadyReport),
))]
async fn readiness(State(service): Service) -> Response {
    let report = service.readiness();
    (status_of(report.faulted_ports.is_empty()), Json(report)).into_response()
}

fn status_of(is_good: bool) -> StatusCode {
    if is_good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// All ports, with configuration and state
#[utoipa::path(get, path = "/v1/ports", responses(
    (status = 200, description = "The ports in the order of the file, then of their addition", body = [PortReport]),
))]
async fn show_ports(State(service): Service) -> Json<Vec<PortReport>> {
    Json(service.ports())
}

/// Adds a port
///
/// The body has the keys of a `[[port]]` section. Waits for the disk if the port replays a file.
#[utoipa::path(post, path = "/v1/ports", request_body = PortSettings, responses(
    (status = 201, description = "The port was added", body = PortReport),
    ApiError,
))]
async fn add_port(State(service): Service, Extension(peer): Extension<Peer>, body: Bytes) -> Response {
    created(on_own_thread(move || json(&body).and_then(|json| service.add_port(&json, &peer))).await)
}

/// One port
#[utoipa::path(get, path = "/v1/ports/{name}", params(("name" = String, Path, description = "Name")), responses(
    (status = 200, description = "The port", body = PortReport),
    ApiError,
))]
async fn show_port(State(service): Service, name: PathText) -> Answer<PortReport> {
    service.port(&path(name)?).map(Json)
}

/// Removes a port, and its learned and static addresses
#[utoipa::path(delete, path = "/v1/ports/{name}", params(("name" = String, Path, description = "Name")), responses(
    (status = 200, description = "The port was removed; the body is its configuration", body = PortSettings),
    ApiError,
))]
async fn remove_port(State(service): Service, name: PathText) -> Answer<PortSettings> {
    service.remove_port(&path(name)?).map(Json)
}

/// All bridges, with the learned addresses and refused moves of their ports
#[utoipa::path(get, path = "/v1/bridges", responses(
    (status = 200, description = "The bridges", body = [BridgeReport]),
))]
async fn show_bridges(State(service): Service) -> Json<Vec<BridgeReport>> {
    Json(service.bridges())
}

/// Neighbours that LLDP has found, and counters of the ports with LLDP
#[utoipa::path(get, path = "/v1/neighbors", responses(
    (status = 200, description = "The neighbours by port", body = NeighborsReport),
))]
async fn show_neighbors(State(service): Service) -> Json<NeighborsReport> {
    Json(service.neighbors())
}

/// Pairs of stations whose frames the kernel forwards
#[utoipa::path(get, path = "/v1/offload", responses(
    (status = 200, description = "The entries with their counters", body = OffloadReport),
))]
async fn show_offload(State(service): Service) -> Json<OffloadReport> {
    Json(service.offload())
}

/// Stops the switch and removes its sockets
#[utoipa::path(post, path = "/v1/shutdown", responses(
    (status = 202, description = "The switch is about to exit"),
    ApiError,
))]
async fn shutdown(State(service): Service) -> Result<StatusCode, ApiError> {
    service.shutdown().map(|()| StatusCode::ACCEPTED)
}
