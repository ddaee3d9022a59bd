//! Errors of requests: the HTTP status of each, and their description in the OpenAPI document.

use crate::dataplane::interface::DataPlaneError;
use crate::settings::config::requests::Refused;
use crate::settings::reader::notes::Cause;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use console::{BAD_INPUT, Diagnostic};
use std::collections::BTreeMap;
use std::fmt::Display;
use utoipa::openapi::{self, Content, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

/// An error of a request, by its HTTP status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ApiError {
    /// The request is invalid.
    Invalid(Diagnostic),
    /// The policy of the switch does not allow it.
    Forbidden(Diagnostic),
    /// It names an object that does not exist.
    NotFound(Diagnostic),
    /// It adds an object that exists, or that uses what belongs to another object.
    Conflict(Diagnostic),
    /// Its body is incomplete or too large.
    TooLarge(Diagnostic),
    /// It is valid and failed.
    Failed(Diagnostic),
}

impl ApiError {
    /// All kinds, for the description of the API.
    pub(super) const KINDS: [fn(Diagnostic) -> Self; 5] =
        [Self::Invalid, Self::NotFound, Self::Conflict, Self::TooLarge, Self::Failed];

    /// The error without its class.
    pub(crate) fn into_diagnostic(self) -> Diagnostic {
        self.parts().2
    }

    /// Status and body, of an answer that is not HTTP.
    pub(super) fn status(self) -> (u16, Diagnostic) {
        let (status, _, body) = self.parts();
        (status.as_u16(), body)
    }

    /// Status, meaning of the status, and body.
    pub(super) fn parts(self) -> (StatusCode, &'static str, Diagnostic) {
        match self {
            Self::Invalid(body) => {
                (StatusCode::BAD_REQUEST, "The request is invalid; `more` has further errors", body)
            }
            Self::Forbidden(body) => {
                (StatusCode::FORBIDDEN, "The policy of the switch does not allow it", body)
            }
            Self::NotFound(body) => (StatusCode::NOT_FOUND, "An object that it names does not exist", body),
            Self::Conflict(body) => {
                (StatusCode::CONFLICT, "The object exists, or needs an object in use by another one", body)
            }
            Self::TooLarge(body) => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "The body is incomplete, or larger than 64 KiB (a configuration file: 16 MiB)",
                body,
            ),
            Self::Failed(body) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "The request is valid and failed", body)
            }
        }
    }

    /// The request is invalid.
    pub(super) fn invalid(place: impl Display, reason: impl Display, remedy: &str) -> Self {
        Self::Invalid(Diagnostic::bad(place, reason, remedy))
    }

    /// There is no such object.
    pub(super) fn not_found(place: impl Display, reason: impl Display, remedy: impl Display) -> Self {
        Self::NotFound(Diagnostic::bad(place, reason, remedy))
    }
}

/// Errors of the validation of a request.
impl From<Refused> for ApiError {
    fn from((cause, error): Refused) -> Self {
        match cause {
            Cause::Invalid => Self::Invalid(error),
            Cause::Unknown => Self::NotFound(error),
            Cause::Taken => Self::Conflict(error),
        }
    }
}

impl From<DataPlaneError> for ApiError {
    fn from(error: DataPlaneError) -> Self {
        let error = error.into_diagnostic();
        if error.code == BAD_INPUT { Self::Invalid(error) } else { Self::Failed(error) }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, _, body) = self.parts();
        (status, Json(body)).into_response()
    }
}

impl IntoResponses for ApiError {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let response = |kind: fn(Diagnostic) -> Self| {
            let (status, about, _) = kind(Diagnostic::failed("", "", "")).parts();
            let content = Content::new(Some(Ref::from_schema_name(Diagnostic::name())));
            let response = ResponseBuilder::new().description(about).content("application/json", content);
            (status.as_str().to_owned(), RefOr::T(response.build()))
        };
        BTreeMap::from(Self::KINDS.map(response))
    }
}
