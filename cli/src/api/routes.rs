//! Routes of the control API: paths, parameters, and the HTTP status of each result.
//!
//! A route is registered together with its description (`routes!`), so that the router and the OpenAPI document of
//! `GET /v1/openapi.json` list the same routes.

use super::answer::{Answer, FDB_FILTERS, FdbQuery, PathText, Service, created, filter, json, path};
use super::error::ApiError;
use super::metrics::MEDIA_TYPE;
use super::mirrors;
use super::model::{
    BondReport, FdbReport, FlowReport, FlowsChanged, Flushed, PlacementReport, PortReport, RebalanceRequest,
    Status, WorkerAdded, WorkerRequest, WorkersReport,
};
use super::multicast;
use super::queues;
use super::service::ApiService;
use crate::dataplane::connections::{ConnectionFilter, ConnectionLimits, ConnectionReport};
use crate::dataplane::export_report::ExportReport;
use crate::dataplane::flow_report::{TraceReport, TraceRequest};
use crate::dataplane::link_report::NeighborsReport;
use crate::dataplane::offload_report::OffloadReport;
use crate::dataplane::report::{BridgeReport, FdbEntry, FdbFilter, FlowFilter, FlowRequest};
use crate::dataplane::tunnels::TunnelEntry;
use crate::settings::bonds::BondSettings;
use crate::settings::topology::{PortSettings, StaticEntry};
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use console::Diagnostic;
use engine::Snapshot;
use engine::balance::Balance;
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

type ConnectionQuery = Result<Query<ConnectionFilter>, QueryRejection>;
type FlowQuery = Result<Query<FlowFilter>, QueryRejection>;

/// Parameters of [`FlowFilter`].
const FLOW_FILTERS: &str = "bridge, flow, strict, interval and limit";

/// Parameters of [`ConnectionFilter`].
const CONNECTION_FILTERS: &str = "zone and limit";

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
        .routes(routes!(metrics))
        .routes(routes!(show_ports, add_port))
        .routes(routes!(show_port, remove_port))
        .routes(routes!(show_bridges))
        .routes(routes!(show_bonds, add_bond))
        .routes(routes!(show_bond, set_bond, remove_bond))
        .routes(routes!(show_neighbors))
        .routes(routes!(show_offload))
        .routes(routes!(show_fdb, add_static, flush_fdb))
        .routes(routes!(remove_address))
        .routes(routes!(show_flows, add_flows, remove_flows))
        .routes(routes!(show_connections, flush_connections))
        .routes(routes!(show_limits, set_limits))
        .routes(routes!(mirrors::show_mirrors, mirrors::add_mirror))
        .routes(routes!(mirrors::remove_mirror))
        .routes(routes!(queues::show_queues))
        .routes(routes!(queues::set_queue))
        .routes(routes!(multicast::show_multicast, multicast::flush_multicast))
        .routes(routes!(show_tunnels))
        .routes(routes!(show_export))
        .routes(routes!(trace))
        .routes(routes!(show_workers, add_worker))
        .routes(routes!(show_placement))
        .routes(routes!(rebalance))
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

async fn no_route() -> ApiError {
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

/// Counters in the text format of Prometheus
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, description = "Counters of ports, workers and flow tables", content_type = "text/plain", body = String),
))]
async fn metrics(State(service): Service) -> Response {
    ([(CONTENT_TYPE, MEDIA_TYPE)], service.metrics()).into_response()
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
async fn add_port(State(service): Service, body: Bytes) -> Response {
    created(on_own_thread(move || json(&body).and_then(|json| service.add_port(&json))).await)
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

/// All bonds, with configuration and state
#[utoipa::path(get, path = "/v1/bonds", responses(
    (status = 200, description = "The bonds in the order of the file, then of their addition", body = [BondReport]),
))]
async fn show_bonds(State(service): Service) -> Json<Vec<BondReport>> {
    Json(service.bonds())
}

/// Adds a bond
///
/// The body has the keys of a `[[bond]]` section. The members leave their bridge.
#[utoipa::path(post, path = "/v1/bonds", request_body = BondSettings, responses(
    (status = 201, description = "The bond was added", body = BondReport),
    ApiError,
))]
async fn add_bond(State(service): Service, body: Bytes) -> Response {
    created(json(&body).and_then(|json| service.add_bond(&json)))
}

/// One bond
#[utoipa::path(get, path = "/v1/bonds/{name}", params(("name" = String, Path, description = "Name")), responses(
    (status = 200, description = "The bond", body = BondReport),
    ApiError,
))]
async fn show_bond(State(service): Service, name: PathText) -> Answer<BondReport> {
    service.bond(&path(name)?).map(Json)
}

/// Changes keys of a bond
///
/// The body has keys of a `[[bond]]` section; null is the default. Name, bridge, VLANs, limits and security are fixed. The
/// members leave the bond for a moment.
#[utoipa::path(patch, path = "/v1/bonds/{name}", params(("name" = String, Path, description = "Name")),
    request_body = serde_json::Value, responses(
    (status = 200, description = "The bond was changed", body = BondReport),
    ApiError,
))]
async fn set_bond(State(service): Service, name: PathText, body: Bytes) -> Answer<BondReport> {
    service.set_bond(&path(name)?, &json(&body)?).map(Json)
}

/// Removes a bond with its addresses; its members return to the bridge
#[utoipa::path(delete, path = "/v1/bonds/{name}", params(("name" = String, Path, description = "Name")), responses(
    (status = 200, description = "The bond was removed; the body is its configuration", body = BondSettings),
    ApiError,
))]
async fn remove_bond(State(service): Service, name: PathText) -> Answer<BondSettings> {
    service.remove_bond(&path(name)?).map(Json)
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
    (status = 200, description = "The pairs with their counters", body = OffloadReport),
))]
async fn show_offload(State(service): Service) -> Json<OffloadReport> {
    Json(service.offload())
}

/// Learned and static addresses that match a filter
#[utoipa::path(get, path = "/v1/fdb", params(FdbFilter), responses(
    (status = 200, description = "The addresses by bridge, VLAN and address", body = FdbReport),
    ApiError,
))]
async fn show_fdb(State(service): Service, query: FdbQuery) -> Answer<FdbReport> {
    service.fdb(&filter(query, FDB_FILTERS)?).map(Json)
}

/// Adds a static entry to the bridge of its port
#[utoipa::path(post, path = "/v1/fdb", request_body = StaticEntry, responses(
    (status = 201, description = "The entry was added", body = StaticEntry),
    ApiError,
))]
async fn add_static(State(service): Service, body: Bytes) -> Response {
    created(json(&body).and_then(|json| service.pin(&json)))
}

/// Removes the learned addresses that match a filter
#[utoipa::path(delete, path = "/v1/fdb", params(FdbFilter), responses(
    (status = 200, description = "The addresses were removed", body = Flushed),
    ApiError,
))]
async fn flush_fdb(State(service): Service, query: FdbQuery) -> Answer<Flushed> {
    service.flush(&filter(query, FDB_FILTERS)?).map(Json)
}

/// Removes one address, learned or static
#[utoipa::path(
    delete,
    path = "/v1/fdb/{mac}",
    params(("mac" = String, Path, description = "Ethernet address, such as `02:00:00:00:00:01`"), FdbFilter),
    responses(
        (status = 200, description = "The address was removed", body = FdbEntry),
        ApiError,
    )
)]
async fn remove_address(State(service): Service, mac: PathText, query: FdbQuery) -> Answer<FdbEntry> {
    service.forget(&path(mac)?, &filter(query, FDB_FILTERS)?).map(Json)
}

/// Flows of OpenFlow bridges that match a filter
///
/// With `interval`, the answer waits while rates are measured.
#[utoipa::path(get, path = "/v1/flows", params(FlowFilter), responses(
    (status = 200, description = "The flows by bridge, table and priority, or by rate", body = FlowReport),
    ApiError,
))]
async fn show_flows(State(service): Service, query: FlowQuery) -> Answer<FlowReport> {
    let wanted = filter(query, FLOW_FILTERS)?;
    on_own_thread(move || service.flows(&wanted)).await.map(Json)
}

/// Adds flows to an OpenFlow bridge, all or none
#[utoipa::path(post, path = "/v1/flows", request_body = FlowRequest, responses(
    (status = 201, description = "The flows were added", body = FlowsChanged),
    ApiError,
))]
async fn add_flows(State(service): Service, body: Bytes) -> Response {
    created(json(&body).and_then(flow_request).and_then(|request| service.add_flows(&request)))
}

/// Removes the flows that match a filter
#[utoipa::path(delete, path = "/v1/flows", params(FlowFilter), responses(
    (status = 200, description = "The flows were removed", body = FlowsChanged),
    ApiError,
))]
async fn remove_flows(State(service): Service, query: FlowQuery) -> Answer<FlowsChanged> {
    service.remove_flows(&filter(query, FLOW_FILTERS)?).map(Json)
}

/// Connections of OpenFlow bridges that match a filter
#[utoipa::path(get, path = "/v1/connections", params(ConnectionFilter), responses(
    (status = 200, description = "The connections", body = ConnectionReport),
    ApiError,
))]
async fn show_connections(State(service): Service, query: ConnectionQuery) -> Answer<ConnectionReport> {
    let wanted = filter(query, CONNECTION_FILTERS)?;
    on_own_thread(move || service.connections(&wanted)).await.map(Json)
}

/// Removes all connections, or those of a zone
#[utoipa::path(delete, path = "/v1/connections", params(ConnectionFilter), responses(
    (status = 200, description = "The connections were removed", body = Flushed),
    ApiError,
))]
async fn flush_connections(State(service): Service, query: ConnectionQuery) -> Answer<Flushed> {
    let wanted = filter(query, CONNECTION_FILTERS)?;
    on_own_thread(move || service.flush_connections(&wanted)).await.map(Json)
}

/// Limits and timeouts of connections, and the connections that count for them
#[utoipa::path(get, path = "/v1/connections/limits", responses(
    (status = 200, description = "The limits", body = ConnectionLimits),
    ApiError,
))]
async fn show_limits(State(service): Service) -> Answer<ConnectionLimits> {
    service.connection_limits().map(Json)
}

/// Changes limits and timeouts of connections
///
/// The body has keys of the `[conntrack]` section; null is the default. Connections above a new limit stay.
#[utoipa::path(patch, path = "/v1/connections/limits", request_body = serde_json::Value, responses(
    (status = 200, description = "The limits were changed", body = ConnectionLimits),
    ApiError,
))]
async fn set_limits(State(service): Service, body: Bytes) -> Answer<ConnectionLimits> {
    service.limit_connections(&json(&body)?).map(Json)
}

/// Export of samples and counters: collectors, and numbers of interfaces
#[utoipa::path(get, path = "/v1/export", responses(
    (status = 200, description = "The exporters", body = ExportReport),
))]
async fn show_export(State(service): Service) -> Json<ExportReport> {
    Json(service.export())
}

/// Tunnels with their counters
#[utoipa::path(get, path = "/v1/tunnels", responses(
    (status = 200, description = "The tunnels", body = Vec<TunnelEntry>),
))]
async fn show_tunnels(State(service): Service) -> Json<Vec<TunnelEntry>> {
    Json(service.tunnels())
}

/// Traces a packet through the tables of an OpenFlow bridge
///
/// Nothing is sent or counted.
#[utoipa::path(post, path = "/v1/trace", request_body = TraceRequest, responses(
    (status = 200, description = "The way of the packet", body = TraceReport),
    ApiError,
))]
async fn trace(State(service): Service, body: Bytes) -> Answer<TraceReport> {
    on_own_thread(move || json(&body).and_then(trace_request).and_then(|request| service.trace(&request)))
        .await
        .map(Json)
}

/// All workers, with their counters
#[utoipa::path(get, path = "/v1/workers", responses((status = 200, description = "The workers", body = WorkersReport)))]
async fn show_workers(State(service): Service) -> Json<WorkersReport> {
    Json(service.workers())
}

/// Adds a stage to a pipeline
#[utoipa::path(post, path = "/v1/workers", request_body = WorkerRequest, responses(
    (status = 201, description = "The worker was added", body = WorkerAdded),
    ApiError,
))]
async fn add_worker(State(service): Service, body: Bytes) -> Response {
    created(json(&body).and_then(|json| service.add_worker(&json)))
}

/// Placement of workers and receive queues
#[utoipa::path(get, path = "/v1/placement", responses(
    (status = 200, description = "The placement", body = PlacementReport),
    ApiError,
))]
async fn show_placement(State(service): Service) -> Answer<PlacementReport> {
    service.placement().map(Json)
}

/// Measures load, and moves receive queues to balance the workers
#[utoipa::path(post, path = "/v1/rebalance", request_body = RebalanceRequest, responses(
    (status = 200, description = "The loads, and the moves with the failure of each that failed", body = Balance),
    ApiError,
))]
async fn rebalance(State(service): Service, body: Bytes) -> Answer<Balance> {
    on_own_thread(move || json(&body).and_then(|json| service.rebalance(json))).await.map(Json)
}

/// Stops the switch and removes its sockets
#[utoipa::path(post, path = "/v1/shutdown", responses((status = 202, description = "The switch is about to exit")))]
async fn shutdown(State(service): Service) -> StatusCode {
    service.shutdown();
    StatusCode::ACCEPTED
}

/// Runs slow work on its own thread.
pub(super) async fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
        let remedy = "see the standard error of the switch";
        Err(ApiError::Failed(Diagnostic::failed("request", "the handler panicked", remedy)))
    })
}

fn flow_request(json: serde_json::Value) -> Result<FlowRequest, ApiError> {
    let bad = |e: serde_json::Error| ApiError::invalid("request", e, "send `bridge` and a list `flows`");
    serde_json::from_value(json).map_err(bad)
}

fn trace_request(json: serde_json::Value) -> Result<TraceRequest, ApiError> {
    let remedy = "send `flow`, or `in_port` and `frame`";
    serde_json::from_value(json).map_err(|e| ApiError::invalid("request", e, remedy))
}
