//! Changes of single ports and bridges: made as the file is applied that describes them, whole or not at all.
//!
//! That file is never written here. It is read as a start would read it, so that a change which could not be saved and
//! started again is refused.

use super::super::answer::{Answer, PathText, Service, created, json, on_own_thread, path};
use super::super::error::ApiError;
use super::super::peer::Peer;
use super::super::service::{ApiService, missing};
use super::{Applied, Origin, Wanted, no_file, not_expressed};
use crate::settings::changes::Changes;
use crate::settings::config::requests;
use crate::settings::document;
use crate::settings::topology::Topology;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Json};
use console::Diagnostic;
use serde_json::Value;

impl ApiService {
    /// `PATCH /v1/ports/{name}`
    pub(crate) fn set_port(&self, name: &str, json: &Value, peer: &Peer) -> Result<Applied, ApiError> {
        self.edit(peer, |wanted| {
            let index = wanted.ports.iter().position(|port| port.name == name);
            let index = index.ok_or_else(|| missing("port", name))?;
            wanted.ports[index] = requests::changed_port(json, wanted, index)?;
            Ok(())
        })
    }

    /// `POST /v1/bridges`
    pub(crate) fn add_bridge(&self, json: &Value, peer: &Peer) -> Result<Applied, ApiError> {
        self.edit(peer, |wanted| {
            let bridge = requests::new_bridge(json, wanted)?;
            wanted.bridges.push(bridge);
            Ok(())
        })
    }

    /// `PATCH /v1/bridges/{name}`
    pub(crate) fn set_bridge(&self, name: &str, json: &Value, peer: &Peer) -> Result<Applied, ApiError> {
        self.edit(peer, |wanted| {
            let index = bridge_index(name, wanted)?;
            wanted.bridges[index] = requests::changed_bridge(json, wanted, index)?;
            Ok(())
        })
    }

    /// `DELETE /v1/bridges/{name}`
    pub(crate) fn remove_bridge(&self, name: &str, peer: &Peer) -> Result<Applied, ApiError> {
        self.edit(peer, |wanted| {
            let index = bridge_index(name, wanted)?;
            is_unused(name, wanted)?;
            wanted.bridges.remove(index);
            Ok(())
        })
    }

    /// Applies a change of the running configuration.
    pub(super) fn edit(
        &self,
        peer: &Peer,
        change: impl FnOnce(&mut Topology) -> Result<(), ApiError>,
    ) -> Result<Applied, ApiError> {
        let running = self.topology().clone();
        let mut wanted = running.clone();
        change(&mut wanted)?;
        let places = self.places(peer);
        let made = |topology| Wanted { topology, origin: Origin::Running(&running) };
        // Before files of the client's choice are read.
        self.may_add_all(&made(&wanted), places.as_ref())?;
        let wanted = self.read_back(&running, &wanted)?;
        self.replace(&made(&wanted), false, || ())
    }

    /// The configuration that a start reads from the file of `wanted`.
    fn read_back(&self, running: &Topology, wanted: &Topology) -> Result<Topology, ApiError> {
        let source = self.source().clone().ok_or_else(no_file)?;
        let text = document::update(&source.text, &source.topology, wanted).map_err(not_expressed)?;
        let read = source.overrides.parse_change(&text, &running.ports)?;
        if let Some(other) = Changes::between(wanted, &read).report().first() {
            let reason = format!("the file of the switch would also change {}", other.object);
            let remedy = "change the file, and use `linerate apply`";
            return Err(ApiError::Conflict(Diagnostic::bad("configuration", reason, remedy)));
        }
        Ok(read)
    }
}

fn bridge_index(name: &str, topology: &Topology) -> Result<usize, ApiError> {
    let index = topology.bridges.iter().position(|bridge| bridge.name == name);
    index.ok_or_else(|| missing("bridge", name))
}

/// Refuses to remove a bridge that others need.
fn is_unused(name: &str, topology: &Topology) -> Result<(), ApiError> {
    let place = || format!("bridge \"{name}\"");
    if topology.bridges.len() == 1 {
        let error = Diagnostic::bad(place(), "a switch has at least one bridge", "add another one first");
        return Err(ApiError::Conflict(error));
    }
    let ports = topology.ports.iter().filter(|port| port.bridge == name).map(|port| port.name.as_str());
    let ports: Vec<_> = ports.collect();
    if ports.is_empty() {
        return Ok(());
    }
    let reason = format!("it has the ports {}", ports.join(", "));
    Err(ApiError::Conflict(Diagnostic::bad(place(), reason, "remove them first, or set their `bridge`")))
}

/// Changes keys of a port
///
/// The body has keys of a `[[port]]` section; null is the default. A port that differs is removed and added again with
/// its number: its peer connects again, and its counters start at 0. All or nothing, as with a configuration file.
#[utoipa::path(patch, path = "/v1/ports/{name}", params(("name" = String, Path, description = "Name")),
    request_body = Value, responses(
    (status = 200, description = "The differences", body = Applied),
    ApiError,
))]
pub(in super::super) async fn set_port(
    State(service): Service,
    Extension(peer): Extension<Peer>,
    name: PathText,
    body: Bytes,
) -> Answer<Applied> {
    let name = path(name)?;
    on_own_thread(move || service.set_port(&name, &json(&body)?, &peer)).await.map(Json)
}

/// Adds a bridge
///
/// The body has the keys of a `[[bridge]]` section. Bridges with flow tables, a spanning tree, multicast snooping or
/// export are those of the start.
#[utoipa::path(post, path = "/v1/bridges", request_body = Value, responses(
    (status = 201, description = "The bridge was added", body = Applied),
    ApiError,
))]
pub(in super::super) async fn add_bridge(
    State(service): Service,
    Extension(peer): Extension<Peer>,
    body: Bytes,
) -> Response {
    created(on_own_thread(move || service.add_bridge(&json(&body)?, &peer)).await)
}

/// Changes keys of a bridge
///
/// The body has keys of a `[[bridge]]` section; null is the default. Its ports and addresses stay. Keys other than
/// `ageing`, `mac_moves`, `max_macs_per_port` and `forward_reserved` are those of the start.
#[utoipa::path(patch, path = "/v1/bridges/{name}", params(("name" = String, Path, description = "Name")),
    request_body = Value, responses(
    (status = 200, description = "The differences", body = Applied),
    ApiError,
))]
pub(in super::super) async fn set_bridge(
    State(service): Service,
    Extension(peer): Extension<Peer>,
    name: PathText,
    body: Bytes,
) -> Answer<Applied> {
    let name = path(name)?;
    on_own_thread(move || service.set_bridge(&name, &json(&body)?, &peer)).await.map(Json)
}

/// Removes a bridge without ports
#[utoipa::path(delete, path = "/v1/bridges/{name}", params(("name" = String, Path, description = "Name")), responses(
    (status = 200, description = "The bridge was removed", body = Applied),
    ApiError,
))]
pub(in super::super) async fn remove_bridge(
    State(service): Service,
    Extension(peer): Extension<Peer>,
    name: PathText,
) -> Answer<Applied> {
    let name = path(name)?;
    on_own_thread(move || service.remove_bridge(&name, &peer)).await.map(Json)
}
