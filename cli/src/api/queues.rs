//! Queues of ports in the control API: requests and routes.

use super::answer::{Answer, PathText, Service, json, path};
use super::error::ApiError;
use super::queue_report::{QueueReport, reports};
use super::service::ApiService;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// New rates of a class; absent ones stay.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueRates {
    /// Port.
    pub(crate) port: String,
    /// Number of the class.
    pub(crate) queue: u8,
    /// Guaranteed rate, such as `100Mbit/s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<String>,
    /// Maximum rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ceil: Option<String>,
}

impl ApiService {
    /// `GET /v1/queues`
    pub(super) fn queues(&self) -> Vec<QueueReport> {
        self.topology().ports.iter().flat_map(reports).collect()
    }

    /// `PATCH /v1/queues/{port}`
    pub(super) fn set_queue(&self, name: &str, json: &Value) -> Result<Vec<QueueReport>, ApiError> {
        let wanted: QueueRates = serde_json::from_value(json.clone()).map_err(|error| {
            ApiError::invalid("request", error, "send `port`, `queue`, and `rate` or `ceil`")
        })?;
        let mut topology = self.change()?;
        let place = || format!("queue {} of port \"{name}\"", wanted.queue);
        let missing = || ApiError::not_found(place(), "there is no such queue", "see `linerate queues show`");
        let port = topology.ports.iter_mut().find(|port| port.name == name).ok_or_else(missing)?;
        let queues = port.wrappers.queues.as_mut().ok_or_else(missing)?;
        let at = queues.classes.iter().position(|class| class.queue == wanted.queue).ok_or_else(missing)?;
        let refused = |reason: String| ApiError::invalid(place(), reason, "see `linerate queues show`");
        let parse = |text: &Option<String>| text.as_ref().map(|text| text.parse()).transpose();
        let (rate, ceil) = (parse(&wanted.rate).map_err(refused)?, parse(&wanted.ceil).map_err(refused)?);
        let class = &queues.classes[at];
        let (rate, ceil) = (rate.unwrap_or(class.rate), ceil.or(class.ceil));
        queues.set(at, rate, ceil).map_err(refused)?;
        Ok(reports(port))
    }
}

/// All queues of ports, with their counters
#[utoipa::path(get, path = "/v1/queues", responses(
    (status = 200, description = "The classes by port, in the order of the settings", body = [QueueReport]),
))]
pub(super) async fn show_queues(State(service): Service) -> Json<Vec<QueueReport>> {
    Json(service.queues())
}

/// Changes the rates of a queue
#[utoipa::path(patch, path = "/v1/queues/{port}", params(("port" = String, Path, description = "Port")),
    request_body = QueueRates, responses(
    (status = 200, description = "The rates were changed; the body has the queues of the port", body = [QueueReport]),
    ApiError,
))]
pub(super) async fn set_queue(
    State(service): Service,
    port: PathText,
    body: Bytes,
) -> Answer<Vec<QueueReport>> {
    service.set_queue(&path(port)?, &json(&body)?).map(Json)
}
