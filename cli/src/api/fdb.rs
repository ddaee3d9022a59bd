//! Addresses of bridges in the control API: requests and routes.

use super::answer::{Answer, FDB_FILTERS, FdbQuery, PathText, Service, created, filter, json, path};
use super::error::ApiError;
use super::model::{FdbReport, Flushed};
use super::service::{ApiService, missing};
use crate::dataplane::report::{FdbEntry, FdbFilter, StationFilter};
use crate::settings::config;
use crate::settings::topology::{StaticEntry, Topology};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use serde_json::Value;
use wire::MacAddress;

/// Largest VLAN identifier (IEEE 802.1Q section 9.6).
const MAX_VLAN: u16 = 4094;

impl ApiService {
    /// `GET /v1/fdb`
    pub(crate) fn fdb(&self, wanted: &StationFilter) -> Result<FdbReport, ApiError> {
        self.known(wanted.bridge.as_deref(), wanted.port.as_deref(), wanted.vlan)?;
        let mut entries = self.data_plane().fdb(wanted);
        entries.sort_by(|a, b| (&a.bridge, a.vlan, a.mac).cmp(&(&b.bridge, b.vlan, b.mac)));
        let total = entries.len();
        entries.truncate(wanted.limit.unwrap_or(usize::MAX));
        Ok(FdbReport { total, entries })
    }

    /// `POST /v1/fdb`
    pub(crate) fn pin(&self, json: &Value) -> Result<StaticEntry, ApiError> {
        let mut topology = self.change()?;
        let entry = config::requests::new_static(json, &topology)?;
        self.data_plane().pin(&entry)?;
        let home = topology.ports.iter().find(|port| port.name == entry.port).map(|port| port.bridge.clone());
        let home = topology.bridges.iter_mut().find(|bridge| Some(&bridge.name) == home.as_ref());
        if let Some(bridge) = home {
            bridge.statics.push(entry.clone());
        }
        Ok(entry)
    }

    /// `DELETE /v1/fdb/{mac}`: one address, learned or static.
    pub(crate) fn forget(&self, mac: &str, wanted: &FdbFilter) -> Result<FdbEntry, ApiError> {
        self.known_all(wanted)?;
        let entry = self.only(mac, wanted)?;
        let mut topology = self.change()?;
        self.data_plane().forget(&entry.bridge, entry.mac, entry.vlan)?;
        if let Some(bridge) = topology.bridges.iter_mut().find(|bridge| bridge.name == entry.bridge) {
            // An entry written without a VLAN is listed under its port's VLAN.
            let gone = |old: &StaticEntry| old.mac == entry.mac && [0, entry.vlan].contains(&old.vlan);
            bridge.statics.retain(|old| !gone(old));
        }
        Ok(entry)
    }

    /// The only entry that matches.
    fn only(&self, mac: &str, wanted: &FdbFilter) -> Result<FdbEntry, ApiError> {
        let place = format!("address \"{mac}\"");
        let remedy = "write it as 02:00:00:00:00:01";
        let address = mac.parse::<MacAddress>();
        let address = address.map_err(|_| ApiError::invalid(&place, "not an Ethernet address", remedy))?;
        let mut found = self.data_plane().fdb(&wanted.with_mac(address));
        match (found.pop(), found.len()) {
            (None, _) => {
                let remedy = "see the addresses in `linerate fdb show`";
                Err(ApiError::not_found(place, format!("not in {}", wanted.table()), remedy))
            }
            (Some(entry), 0) => Ok(entry),
            (Some(_), more) => {
                let reason = format!("{address} has {} entries, and one can be removed at a time", more + 1);
                let remedy = "name the bridge, the port or the VLAN as well; see `linerate fdb show`";
                Err(ApiError::invalid(place, reason, remedy))
            }
        }
    }

    /// `DELETE /v1/fdb`
    pub(crate) fn flush(&self, wanted: &FdbFilter) -> Result<Flushed, ApiError> {
        self.known_all(wanted)?;
        Ok(Flushed { flushed: self.data_plane().flush(wanted)? })
    }

    /// [`ApiService::known`] of a filter.
    pub(super) fn known_all(&self, wanted: &FdbFilter) -> Result<(), ApiError> {
        self.known(wanted.bridge.as_deref(), wanted.port.as_deref(), wanted.vlan)
    }

    /// Checks that the bridge and the port of a filter exist and that its VLAN is valid.
    fn known(&self, bridge: Option<&str>, port: Option<&str>, vlan: Option<u16>) -> Result<(), ApiError> {
        if let Some(vlan) = vlan.filter(|vlan| *vlan > MAX_VLAN) {
            let reason = format!("invalid value {vlan} for vlan: expected 0 to {MAX_VLAN}");
            return Err(ApiError::invalid("query", reason, "name a VLAN, or 0 for addresses without one"));
        }
        let topology = self.topology();
        match (bridge, port) {
            (Some(name), _) if topology.bridges.iter().all(|bridge| bridge.name != name) => {
                Err(missing("bridge", name))
            }
            (_, Some(name)) if !is_port(&topology, name) => Err(missing("port", name)),
            _ => Ok(()),
        }
    }
}

/// Learned and static addresses that match a filter
#[utoipa::path(get, path = "/v1/fdb", params(StationFilter), responses(
    (status = 200, description = "The addresses by bridge, VLAN and address", body = FdbReport),
    ApiError,
))]
pub(super) async fn show_fdb(
    State(service): Service,
    query: Result<Query<StationFilter>, QueryRejection>,
) -> Answer<FdbReport> {
    service.fdb(&filter(query, "bridge, port, vlan, mac and limit")?).map(Json)
}

/// Adds a static entry to the bridge of its port
#[utoipa::path(post, path = "/v1/fdb", request_body = StaticEntry, responses(
    (status = 201, description = "The entry was added", body = StaticEntry),
    ApiError,
))]
pub(super) async fn add_static(State(service): Service, body: Bytes) -> Response {
    created(json(&body).and_then(|json| service.pin(&json)))
}

/// Removes the learned addresses that match a filter
#[utoipa::path(delete, path = "/v1/fdb", params(FdbFilter), responses(
    (status = 200, description = "The addresses were removed", body = Flushed),
    ApiError,
))]
pub(super) async fn flush_fdb(State(service): Service, query: FdbQuery) -> Answer<Flushed> {
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
pub(super) async fn remove_address(
    State(service): Service,
    mac: PathText,
    query: FdbQuery,
) -> Answer<FdbEntry> {
    service.forget(&path(mac)?, &filter(query, FDB_FILTERS)?).map(Json)
}

/// Whether addresses can be at a port or bond of this name.
fn is_port(topology: &Topology, name: &str) -> bool {
    topology.ports.iter().any(|port| port.name == name) || topology.bonds.iter().any(|bond| bond.name == name)
}
