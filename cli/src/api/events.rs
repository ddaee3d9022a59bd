//! Events of the switch in the control API.

use super::answer::{Answer, Service, filter};
use super::error::ApiError;
use super::server::Waits;
use crate::event_log::EventsReport;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::{Extension, Json};
use console::Span;
use serde::Deserialize;
use std::time::Duration;
use utoipa::IntoParams;

/// Longest wait for an event, shorter than the time that a request may take.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Parameters of `GET /v1/events`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// Number of an event: only later ones are returned; by default all that are kept.
    #[serde(default)]
    after: u64,
    /// `start` of the report that `after` is of. If the switch began at another time, all events are returned.
    start: Option<u64>,
    /// Maximum number of events; the last ones are returned.
    limit: Option<usize>,
    /// Time to wait, at most 30s, until there is an event after `after`. The answer comes at once if many others wait.
    #[param(value_type = Option<String>)]
    wait: Option<Span>,
}

/// Events of the switch: ports, workers, bonds, controllers, changes, captures
///
/// They are those that the log has at level `INFO` and above, with the same fields.
#[utoipa::path(get, path = "/v1/events", params(EventsQuery), responses(
    (status = 200, description = "The events, oldest first", body = EventsReport),
    ApiError,
))]
pub(super) async fn show_events(
    State(service): Service,
    Extension(waits): Extension<Waits>,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Answer<EventsReport> {
    let EventsQuery { after, start, limit, wait } = filter(query, "after, start, limit and wait")?;
    let (limit, wait) = (limit.unwrap_or(usize::MAX), wait.unwrap_or_default());
    if wait.0 > LONGEST_WAIT {
        let reason = format!("invalid value \"{wait}\" for wait: expected at most 30s");
        return Err(ApiError::invalid("query", reason, "wait for at most 30s, and ask again"));
    }
    let waiting = if wait.0.is_zero() { None } else { waits.begin() };
    let wait = waiting.as_ref().map_or(Duration::ZERO, |_| wait.0);
    let events = service.events();
    Ok(Json(events.wait_after(events.resume(after, start), limit, wait).await))
}
