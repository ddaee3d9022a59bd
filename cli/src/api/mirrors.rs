//! Mirrors in the control API: requests and routes.

use super::answer::{Answer, PathText, Service, created, json, path};
use super::error::ApiError;
use super::model::MirrorReport;
use super::service::{ApiService, missing};
use crate::settings::config::requests;
use crate::settings::mirror::MirrorSettings;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;

impl ApiService {
    /// `GET /v1/mirrors`
    pub(super) fn mirrors(&self) -> Vec<MirrorReport> {
        let mirrors = self.topology().mirrors.clone();
        mirrors.into_iter().map(|settings| self.mirror(settings)).collect()
    }

    fn mirror(&self, settings: MirrorSettings) -> MirrorReport {
        let counts = self.data_plane().mirrors(&settings.bridge);
        let counts = counts.into_iter().find(|counts| counts.name == settings.name);
        let (active, packets, bytes) =
            counts.map_or((false, 0, 0), |counts| (counts.is_active, counts.packets, counts.bytes));
        MirrorReport { settings, active, packets, bytes }
    }

    /// `POST /v1/mirrors`
    fn add_mirror(&self, json: &Value) -> Result<MirrorReport, ApiError> {
        let mut topology = self.change()?;
        let mirror = requests::new_mirror(json, &topology)?;
        let mirrors: Vec<_> = topology.mirrors.iter().chain([&mirror]).cloned().collect();
        self.data_plane().set_mirrors(&mirrors)?;
        topology.mirrors = mirrors;
        Ok(self.mirror(mirror))
    }

    /// `DELETE /v1/mirrors/{name}`
    fn remove_mirror(&self, name: &str) -> Result<MirrorReport, ApiError> {
        let mut topology = self.change()?;
        let mut mirrors = topology.mirrors.clone();
        let index =
            mirrors.iter().position(|mirror| mirror.name == name).ok_or_else(|| missing("mirror", name))?;
        let removed = self.mirror(mirrors.remove(index));
        self.data_plane().set_mirrors(&mirrors)?;
        topology.mirrors = mirrors;
        Ok(removed)
    }
}

/// All mirrors, with their counters
#[utoipa::path(get, path = "/v1/mirrors", responses(
    (status = 200, description = "The mirrors in the order of the file, then of their addition", body = [MirrorReport]),
))]
pub(super) async fn show_mirrors(State(service): Service) -> Json<Vec<MirrorReport>> {
    Json(service.mirrors())
}

/// Adds a mirror
///
/// The body has the keys of a `[[mirror]]` section.
#[utoipa::path(post, path = "/v1/mirrors", request_body = MirrorSettings, responses(
    (status = 201, description = "The mirror was added", body = MirrorReport),
    ApiError,
))]
pub(super) async fn add_mirror(State(service): Service, body: Bytes) -> Response {
    created(json(&body).and_then(|json| service.add_mirror(&json)))
}

/// Removes a mirror
#[utoipa::path(delete, path = "/v1/mirrors/{name}", params(("name" = String, Path, description = "Name")), responses(
    (status = 200, description = "The mirror was removed; the body has its last counters", body = MirrorReport),
    ApiError,
))]
pub(super) async fn remove_mirror(State(service): Service, name: PathText) -> Answer<MirrorReport> {
    service.remove_mirror(&path(name)?).map(Json)
}
