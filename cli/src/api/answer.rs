//! Arguments and answers that the handlers of several files of routes share.

use super::error::ApiError;
use super::service::ApiService;
use crate::dataplane::report::FdbFilter;
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use console::Diagnostic;
use serde::Serialize;
use std::fmt::Display;
use std::sync::Arc;
use std::thread::Builder;
use tokio::sync::oneshot;

pub(super) type Service = State<Arc<ApiService>>;
pub(super) type Answer<T> = Result<Json<T>, ApiError>;
pub(super) type PathText = Result<Path<String>, PathRejection>;
pub(super) type FdbQuery = Result<Query<FdbFilter>, QueryRejection>;

/// Parameters of [`FdbFilter`].
pub(super) const FDB_FILTERS: &str = "bridge, port, vlan and limit";

pub(super) fn created<T: Serialize>(result: Result<T, ApiError>) -> Response {
    match result {
        Ok(object) => (StatusCode::CREATED, Json(object)).into_response(),
        Err(error) => error.into_response(),
    }
}

pub(super) fn path(text: PathText) -> Result<String, ApiError> {
    let Path(text) =
        text.map_err(|e| ApiError::invalid("path", e.body_text(), "encode it as UTF-8 with percent signs"))?;
    Ok(text)
}

/// The filter of a query; `names` lists its parameters.
pub(super) fn filter<T>(query: Result<Query<T>, QueryRejection>, names: &str) -> Result<T, ApiError> {
    let Query(filter) =
        query.map_err(|e| ApiError::invalid("query", e.body_text(), &format!("filters are {names}")))?;
    Ok(filter)
}

pub(super) fn json(body: &[u8]) -> Result<serde_json::Value, ApiError> {
    let bad = |e| ApiError::invalid("request", format!("the body is not JSON: {e}"), "send one JSON object");
    serde_json::from_slice(body).map_err(bad)
}

/// Runs slow work on its own thread. Not on those of tokio, which panics if the system refuses the first one.
pub(super) async fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let failed =
        |reason: &dyn Display, remedy| ApiError::Failed(Diagnostic::failed("request", reason, remedy));
    let (sender, receiver) = oneshot::channel();
    // Fails if the client is gone.
    let started = Builder::new().name("request".to_owned()).spawn(move || drop(sender.send(work())));
    started.map_err(|error| failed(&error, "raise the limit of threads of this process"))?;
    let panicked = |_| Err(failed(&"the handler panicked", "see the standard error of the switch"));
    receiver.await.unwrap_or_else(panicked)
}
