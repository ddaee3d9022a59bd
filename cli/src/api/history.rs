//! Rates of the last minutes in the control API.

use super::answer::{Answer, Service, filter};
use super::service::ApiService;
use crate::causes::earlier::Earlier;
use crate::dataplane::rate_history::{HistoryReport, RateHistory};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use engine::Snapshot;
use serde::Deserialize;
use std::sync::PoisonError;
use utoipa::IntoParams;

/// Parameters of `GET /v1/history`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryQuery {
    /// Name of a port; by default all.
    port: Option<String>,
    /// Maximum number of samples, the latest ones.
    samples: Option<usize>,
}

impl ApiService {
    /// Counters were taken over from another process: what they count until now was not at once.
    pub(crate) fn begin_rates(&self) {
        *self.history.lock().unwrap_or_else(PoisonError::into_inner) = RateHistory::default();
        *self.earlier.lock().unwrap_or_else(PoisonError::into_inner) = Earlier::since(self.snapshot());
    }

    /// Takes a sample of rates. Must be called again and again.
    pub(crate) fn observe_rates(&self, now: &Snapshot) {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).observe(now);
    }
}

/// Rates of ports in the last five minutes
#[utoipa::path(get, path = "/v1/history", params(HistoryQuery), responses(
    (status = 200, description = "The rates", body = HistoryReport),
    super::error::ApiError,
))]
pub(super) async fn show_history(
    State(service): Service,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Answer<HistoryReport> {
    let query = filter(query, "port and samples")?;
    Ok(Json(
        service
            .history
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .report(query.port.as_deref(), query.samples),
    ))
}
