//! Multicast groups in the control API.

use super::answer::{Answer, FDB_FILTERS, FdbQuery, Service, filter};
use super::error::ApiError;
use super::model::Flushed;
use super::service::ApiService;
use crate::dataplane::multicast_report::MulticastReport;
use crate::dataplane::report::FdbFilter;
use axum::Json;
use axum::extract::State;

impl ApiService {
    /// `GET /v1/multicast`
    fn multicast(&self, wanted: &FdbFilter) -> Result<Vec<MulticastReport>, ApiError> {
        self.known_all(wanted)?;
        let mut bridges = self.data_plane().multicast();
        bridges.retain(|report| wanted.bridge.as_ref().is_none_or(|name| *name == report.bridge));
        for MulticastReport { groups, routers, queriers, ports, .. } in &mut bridges {
            let is_at = |port: &String| wanted.port.as_ref().is_none_or(|name| name == port);
            let is_in = |vlan: u16| wanted.vlan.is_none_or(|wanted| wanted == vlan);
            groups.retain(|group| is_at(&group.port) && is_in(group.vlan));
            groups.truncate(wanted.limit.unwrap_or(usize::MAX));
            routers.retain(|router| is_at(&router.port) && router.vlan.is_none_or(is_in));
            queriers.retain(|querier| is_in(querier.vlan));
            ports.retain(|port| is_at(&port.port));
        }
        Ok(bridges)
    }

    /// `DELETE /v1/multicast`
    fn flush_multicast(&self, wanted: &FdbFilter) -> Result<Flushed, ApiError> {
        self.known_all(wanted)?;
        Ok(Flushed { flushed: self.data_plane().flush_multicast(wanted) })
    }
}

/// Multicast groups, router ports and queriers that match a filter
#[utoipa::path(get, path = "/v1/multicast", params(FdbFilter), responses(
    (status = 200, description = "The bridges with multicast snooping", body = [MulticastReport]),
    ApiError,
))]
pub(super) async fn show_multicast(State(service): Service, query: FdbQuery) -> Answer<Vec<MulticastReport>> {
    service.multicast(&filter(query, FDB_FILTERS)?).map(Json)
}

/// Removes the memberships of multicast groups that match a filter
///
/// Hosts become members again with their next report.
#[utoipa::path(delete, path = "/v1/multicast", params(FdbFilter), responses(
    (status = 200, description = "The memberships were removed", body = Flushed),
    ApiError,
))]
pub(super) async fn flush_multicast(State(service): Service, query: FdbQuery) -> Answer<Flushed> {
    service.flush_multicast(&filter(query, FDB_FILTERS)?).map(Json)
}
