//! Flows, connections, tunnels, export and traces in the control API: requests and routes.

use super::answer::{Answer, Service, created, filter, json, on_own_thread};
use super::error::ApiError;
use super::model::{FlowReport, FlowsChanged, Flushed, OptionsChanged};
use super::service::ApiService;
use crate::dataplane::connections::{ConnectionFilter, ConnectionLimits, ConnectionReport};
use crate::dataplane::export_report::ExportReport;
use crate::dataplane::flow_report::{TraceReport, TraceRequest};
use crate::dataplane::report::{FlowFilter, FlowRequest};
use crate::dataplane::tunnels::{OptionEntry, OptionFilter, OptionRequest, TunnelEntry};
use crate::settings::config;
use crate::settings::topology::PipelineKind;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// Duration of a measurement of flows, whose counters workers update about twice a second.
const FLOWS_MEASURED: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(8);

type ConnectionQuery = Result<Query<ConnectionFilter>, QueryRejection>;
type OptionQuery = Result<Query<OptionFilter>, QueryRejection>;
type FlowQuery = Result<Query<FlowFilter>, QueryRejection>;

/// Parameters of [`FlowFilter`].
const FLOW_FILTERS: &str = "bridge, flow, strict, interval and limit";

/// Parameters of [`OptionFilter`].
const OPTION_FILTERS: &str = "bridge and field";

/// Parameters of [`ConnectionFilter`].
const CONNECTION_FILTERS: &str = "zone and limit";

impl ApiService {
    /// `GET /v1/flows`: waits while rates are measured.
    pub(crate) fn flows(&self, wanted: &FlowFilter) -> Result<FlowReport, ApiError> {
        self.openflow(wanted.bridge.as_deref())?;
        if let Some(interval) = wanted.interval.filter(|interval| !FLOWS_MEASURED.contains(&interval.0)) {
            let reason = format!("invalid value \"{interval}\" for interval: expected 100ms to 8s");
            return Err(ApiError::invalid("query", reason, "measure for 100ms to 8s"));
        }
        let (total, flows) = self.data_plane().flows(wanted)?;
        Ok(FlowReport { total, flows })
    }

    /// `POST /v1/trace`
    pub(crate) fn trace(&self, request: &TraceRequest) -> Result<TraceReport, ApiError> {
        self.openflow(request.bridge.as_deref())?;
        Ok(self.data_plane().trace(request)?)
    }

    /// `POST /v1/flows`
    pub(crate) fn add_flows(&self, request: &FlowRequest) -> Result<FlowsChanged, ApiError> {
        self.may_change()?;
        self.openflow(request.bridge.as_deref())?;
        Ok(FlowsChanged { changed: self.data_plane().add_flows(request)? })
    }

    /// `DELETE /v1/flows`
    pub(crate) fn remove_flows(&self, wanted: &FlowFilter) -> Result<FlowsChanged, ApiError> {
        self.may_change()?;
        self.openflow(wanted.bridge.as_deref())?;
        Ok(FlowsChanged { changed: self.data_plane().remove_flows(wanted)? })
    }

    /// `GET /v1/connections`
    pub(crate) fn connections(&self, wanted: &ConnectionFilter) -> Result<ConnectionReport, ApiError> {
        self.openflow(None)?;
        Ok(self.data_plane().connections(wanted)?)
    }

    /// `GET /v1/connections/limits`
    pub(crate) fn connection_limits(&self) -> Result<ConnectionLimits, ApiError> {
        self.openflow(None)?;
        let settings = self.topology().conntrack.clone();
        Ok(self.data_plane().connection_limits(&settings)?)
    }

    /// `PATCH /v1/connections/limits`
    pub(crate) fn limit_connections(&self, json: &Value) -> Result<ConnectionLimits, ApiError> {
        self.openflow(None)?;
        let mut topology = self.change()?;
        let changed = config::requests::changed_conntrack(json, &topology.conntrack)?;
        self.data_plane().limit_connections(&changed)?;
        topology.conntrack = changed;
        drop(topology);
        self.connection_limits()
    }

    /// `DELETE /v1/connections`
    pub(crate) fn flush_connections(&self, wanted: &ConnectionFilter) -> Result<Flushed, ApiError> {
        self.may_change()?;
        self.openflow(None)?;
        Ok(Flushed { flushed: self.data_plane().flush_connections(wanted.zone)? })
    }

    /// `GET /v1/export`
    pub(crate) fn export(&self) -> ExportReport {
        self.data_plane().export()
    }

    /// `GET /v1/tunnels`
    pub(crate) fn tunnels(&self) -> Vec<TunnelEntry> {
        self.data_plane().tunnels()
    }

    /// `GET /v1/tunnels/options`
    pub(crate) fn tunnel_options(&self, wanted: &OptionFilter) -> Result<Vec<OptionEntry>, ApiError> {
        self.openflow(wanted.bridge.as_deref())?;
        Ok(self.data_plane().tunnel_options(wanted)?)
    }

    /// `POST /v1/tunnels/options`
    pub(crate) fn add_tunnel_options(&self, request: &OptionRequest) -> Result<OptionsChanged, ApiError> {
        self.may_change()?;
        self.openflow(request.bridge.as_deref())?;
        Ok(OptionsChanged { changed: self.data_plane().add_tunnel_options(request)? })
    }

    /// `DELETE /v1/tunnels/options`
    pub(crate) fn remove_tunnel_options(&self, wanted: &OptionFilter) -> Result<OptionsChanged, ApiError> {
        self.may_change()?;
        self.openflow(wanted.bridge.as_deref())?;
        Ok(OptionsChanged { changed: self.data_plane().remove_tunnel_options(wanted)? })
    }

    /// Checks that there is an OpenFlow bridge, of this name if one is given.
    fn openflow(&self, name: Option<&str>) -> Result<(), ApiError> {
        let topology = self.topology();
        let mut bridges = topology.bridges.iter().filter(|bridge| bridge.pipeline == PipelineKind::Openflow);
        if bridges.any(|bridge| name.is_none_or(|name| name == bridge.name)) {
            return Ok(());
        }
        let place = name.map_or_else(|| "flows".to_owned(), |name| format!("bridge \"{name}\""));
        let remedy = "set `pipeline = \"openflow\"` in a [[bridge]] section, and restart the switch";
        Err(ApiError::not_found(place, "there is no such OpenFlow bridge", remedy))
    }
}

/// Flows of OpenFlow bridges that match a filter
///
/// With `interval`, the answer waits while rates are measured.
#[utoipa::path(get, path = "/v1/flows", params(FlowFilter), responses(
    (status = 200, description = "The flows by bridge, table and priority, or by rate", body = FlowReport),
    ApiError,
))]
pub(super) async fn show_flows(State(service): Service, query: FlowQuery) -> Answer<FlowReport> {
    let wanted = filter(query, FLOW_FILTERS)?;
    on_own_thread(move || service.flows(&wanted)).await.map(Json)
}

/// Adds flows to an OpenFlow bridge, all or none
#[utoipa::path(post, path = "/v1/flows", request_body = FlowRequest, responses(
    (status = 201, description = "The flows were added", body = FlowsChanged),
    ApiError,
))]
pub(super) async fn add_flows(State(service): Service, body: Bytes) -> Response {
    let wanted = request::<FlowRequest>(&body, "send `bridge` and a list `flows`");
    created(wanted.and_then(|wanted| service.add_flows(&wanted)))
}

/// Removes the flows that match a filter
#[utoipa::path(delete, path = "/v1/flows", params(FlowFilter), responses(
    (status = 200, description = "The flows were removed", body = FlowsChanged),
    ApiError,
))]
pub(super) async fn remove_flows(State(service): Service, query: FlowQuery) -> Answer<FlowsChanged> {
    service.remove_flows(&filter(query, FLOW_FILTERS)?).map(Json)
}

/// Connections of OpenFlow bridges that match a filter
#[utoipa::path(get, path = "/v1/connections", params(ConnectionFilter), responses(
    (status = 200, description = "The connections", body = ConnectionReport),
    ApiError,
))]
pub(super) async fn show_connections(
    State(service): Service,
    query: ConnectionQuery,
) -> Answer<ConnectionReport> {
    let wanted = filter(query, CONNECTION_FILTERS)?;
    on_own_thread(move || service.connections(&wanted)).await.map(Json)
}

/// Removes all connections, or those of a zone
#[utoipa::path(delete, path = "/v1/connections", params(ConnectionFilter), responses(
    (status = 200, description = "The connections were removed", body = Flushed),
    ApiError,
))]
pub(super) async fn flush_connections(State(service): Service, query: ConnectionQuery) -> Answer<Flushed> {
    let wanted = filter(query, CONNECTION_FILTERS)?;
    on_own_thread(move || service.flush_connections(&wanted)).await.map(Json)
}

/// Limits and timeouts of connections, and the connections that count for them
#[utoipa::path(get, path = "/v1/connections/limits", responses(
    (status = 200, description = "The limits", body = ConnectionLimits),
    ApiError,
))]
pub(super) async fn show_limits(State(service): Service) -> Answer<ConnectionLimits> {
    service.connection_limits().map(Json)
}

/// Changes limits and timeouts of connections
///
/// The body has keys of the `[conntrack]` section; null is the default. Connections above a new limit stay.
#[utoipa::path(patch, path = "/v1/connections/limits", request_body = serde_json::Value, responses(
    (status = 200, description = "The limits were changed", body = ConnectionLimits),
    ApiError,
))]
pub(super) async fn set_limits(State(service): Service, body: Bytes) -> Answer<ConnectionLimits> {
    service.limit_connections(&json(&body)?).map(Json)
}

/// Export of samples and counters: collectors, and numbers of interfaces
#[utoipa::path(get, path = "/v1/export", responses(
    (status = 200, description = "The exporters", body = ExportReport),
))]
pub(super) async fn show_export(State(service): Service) -> Json<ExportReport> {
    Json(service.export())
}

/// Tunnels with their counters
#[utoipa::path(get, path = "/v1/tunnels", responses(
    (status = 200, description = "The tunnels", body = Vec<TunnelEntry>),
))]
pub(super) async fn show_tunnels(State(service): Service) -> Json<Vec<TunnelEntry>> {
    Json(service.tunnels())
}

/// Options of Geneve tunnels, and the fields that they are bound to
#[utoipa::path(get, path = "/v1/tunnels/options", params(OptionFilter), responses(
    (status = 200, description = "The options by bridge and field", body = Vec<OptionEntry>),
    ApiError,
))]
pub(super) async fn show_tunnel_options(
    State(service): Service,
    query: OptionQuery,
) -> Answer<Vec<OptionEntry>> {
    service.tunnel_options(&filter(query, OPTION_FILTERS)?).map(Json)
}

/// Binds options of Geneve tunnels to fields, all or none
#[utoipa::path(post, path = "/v1/tunnels/options", request_body = OptionRequest, responses(
    (status = 201, description = "The options were bound", body = OptionsChanged),
    ApiError,
))]
pub(super) async fn add_tunnel_options(State(service): Service, body: Bytes) -> Response {
    let wanted = request::<OptionRequest>(&body, "send `bridge` and a list `options`");
    created(wanted.and_then(|wanted| service.add_tunnel_options(&wanted)))
}

/// Frees a field of an option of Geneve tunnels, or all of a bridge
#[utoipa::path(delete, path = "/v1/tunnels/options", params(OptionFilter), responses(
    (status = 200, description = "The fields were freed", body = OptionsChanged),
    ApiError,
))]
pub(super) async fn remove_tunnel_options(
    State(service): Service,
    query: OptionQuery,
) -> Answer<OptionsChanged> {
    service.remove_tunnel_options(&filter(query, OPTION_FILTERS)?).map(Json)
}

/// Traces a packet through the tables of an OpenFlow bridge
///
/// Nothing is sent or counted.
#[utoipa::path(post, path = "/v1/trace", request_body = TraceRequest, responses(
    (status = 200, description = "The way of the packet", body = TraceReport),
    ApiError,
))]
pub(super) async fn trace(State(service): Service, body: Bytes) -> Answer<TraceReport> {
    on_own_thread(move || {
        let wanted = request::<TraceRequest>(&body, "send `flow`, or `in_port` and `frame`")?;
        service.trace(&wanted)
    })
    .await
    .map(Json)
}

/// The request in a body.
fn request<T: DeserializeOwned>(body: &Bytes, remedy: &'static str) -> Result<T, ApiError> {
    serde_json::from_value(json(body)?).map_err(|e| ApiError::invalid("request", e, remedy))
}
