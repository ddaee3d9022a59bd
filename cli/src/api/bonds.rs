//! Bonds in the control API: requests and routes.

use super::answer::{Answer, PathText, Service, created, json, path};
use super::error::ApiError;
use super::model::BondReport;
use super::service::{ApiService, missing};
use crate::settings::bonds::BondSettings;
use crate::settings::config;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;

impl ApiService {
    /// `GET /v1/bonds`
    pub(crate) fn bonds(&self) -> Vec<BondReport> {
        let (topology, mut live) = (self.topology(), self.data_plane().bonds());
        let report =
            |bond: &BondSettings| BondReport { settings: bond.clone(), live: live.remove(&bond.name) };
        topology.bonds.iter().map(report).collect()
    }

    /// `GET /v1/bonds/{name}`
    pub(crate) fn bond(&self, name: &str) -> Result<BondReport, ApiError> {
        self.bonds().into_iter().find(|bond| bond.settings.name == name).ok_or_else(|| missing("bond", name))
    }

    /// `POST /v1/bonds`
    pub(crate) fn add_bond(&self, json: &Value) -> Result<BondReport, ApiError> {
        let mut topology = self.change()?;
        let bond = config::requests::new_bond(json, &topology)?;
        self.data_plane().add_bond(&bond, &topology.ports)?;
        topology.bonds.push(bond.clone());
        drop(topology);
        self.bond(&bond.name)
    }

    /// `PATCH /v1/bonds/{name}`
    pub(crate) fn set_bond(&self, name: &str, json: &Value) -> Result<BondReport, ApiError> {
        let mut topology = self.change()?;
        let index =
            topology.bonds.iter().position(|bond| bond.name == name).ok_or_else(|| missing("bond", name))?;
        let bond = config::requests::changed_bond(json, &topology, index)?;
        self.data_plane().set_bond(&bond, &topology.ports)?;
        topology.bonds[index] = bond;
        drop(topology);
        self.bond(name)
    }

    /// `DELETE /v1/bonds/{name}`
    pub(crate) fn remove_bond(&self, name: &str) -> Result<BondSettings, ApiError> {
        let mut topology = self.change()?;
        let index =
            topology.bonds.iter().position(|bond| bond.name == name).ok_or_else(|| missing("bond", name))?;
        self.data_plane().remove_bond(name, &topology.ports)?;
        Ok(topology.bonds.remove(index))
    }
}

/// All bonds, with configuration and state
#[utoipa::path(get, path = "/v1/bonds", responses(
    (status = 200, description = "The bonds in the order of the file, then of their addition", body = [BondReport]),
))]
pub(super) async fn show_bonds(State(service): Service) -> Json<Vec<BondReport>> {
    Json(service.bonds())
}

/// Adds a bond
///
/// The body has the keys of a `[[bond]]` section. The members leave their bridge.
#[utoipa::path(post, path = "/v1/bonds", request_body = BondSettings, responses(
    (status = 201, description = "The bond was added", body = BondReport),
    ApiError,
))]
pub(super) async fn add_bond(State(service): Service, body: Bytes) -> Response {
    created(json(&body).and_then(|json| service.add_bond(&json)))
}

/// One bond
#[utoipa::path(get, path = "/v1/bonds/{name}", params(("name" = String, Path, description = "Name")), responses(
    (status = 200, description = "The bond", body = BondReport),
    ApiError,
))]
pub(super) async fn show_bond(State(service): Service, name: PathText) -> Answer<BondReport> {
    service.bond(&path(name)?).map(Json)
}

/// Changes keys of a bond
///
/// The body has keys of a `[[bond]]` section; null is the default. Name, bridge, VLANs, limits and security are fixed.
/// The members leave the bond for a moment.
#[utoipa::path(patch, path = "/v1/bonds/{name}", params(("name" = String, Path, description = "Name")),
    request_body = serde_json::Value, responses(
    (status = 200, description = "The bond was changed", body = BondReport),
    ApiError,
))]
pub(super) async fn set_bond(State(service): Service, name: PathText, body: Bytes) -> Answer<BondReport> {
    service.set_bond(&path(name)?, &json(&body)?).map(Json)
}

/// Removes a bond with its addresses; its members return to the bridge
#[utoipa::path(delete, path = "/v1/bonds/{name}", params(("name" = String, Path, description = "Name")), responses(
    (status = 200, description = "The bond was removed; the body is its configuration", body = BondSettings),
    ApiError,
))]
pub(super) async fn remove_bond(State(service): Service, name: PathText) -> Answer<BondSettings> {
    service.remove_bond(&path(name)?).map(Json)
}
