//! Known causes of faults in the control API: those of `linerate doctor` that the switch knows of itself.
//!
//! Nothing of the machine and of other processes is read here, except the files of the sockets of ports.

use super::answer::{Answer, Service, on_own_thread};
use super::service::ApiService;
use crate::causes::checks;
use crate::causes::evidence::{Evidence, Readings};
use crate::causes::findings::Finding;
use axum::Json;
use axum::extract::State;
use engine::Snapshot;
use serde::Serialize;
use std::sync::PoisonError;
use utoipa::ToSchema;

/// Seconds that two readings are apart: at least, so that rates have a meaning, and at most, so that they are current.
const APART: std::ops::Range<f64> = 1.0..60.0;

/// `GET /v1/findings`
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct FindingsReport {
    /// Seconds in which counters were compared; 0 at the first request for some time.
    seconds: f64,
    /// The most severe first.
    findings: Vec<Finding>,
}

/// Takes a reading, unless the last one is too recent.
fn take(readings: &mut Readings, now: Snapshot) {
    let since = now.uptime_ns.saturating_sub(readings.now.uptime_ns) as f64 / 1e9;
    if since >= APART.end {
        *readings = Readings { before: now.clone(), now };
    } else if since >= APART.start {
        readings.before = std::mem::replace(&mut readings.now, now);
    }
}

impl ApiService {
    /// `GET /v1/findings`
    fn findings(&self) -> FindingsReport {
        let readings = {
            let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
            take(&mut readings, self.snapshot());
            readings.clone()
        };
        let settings = self.topology().ports.clone();
        let evidence = Evidence {
            seconds: readings.seconds(),
            ports: settings.into_iter().map(|port| readings.port(port, None)).collect(),
            bonds: self.data_plane().bonds(),
            bridges: self.bridges(),
            workers: readings.workers().collect(),
            hung: self.health().hung_workers,
            ..Evidence::default()
        };
        FindingsReport { seconds: evidence.seconds, findings: checks::all(&evidence) }
    }
}

/// Known causes of ports that are down, slow or lose packets
///
/// Counters are compared with those of an earlier request, at least a second ago. Causes in the machine and in other
/// processes are found by `linerate doctor` only.
#[utoipa::path(get, path = "/v1/findings", responses(
    (status = 200, description = "The causes", body = FindingsReport),
    super::error::ApiError,
))]
pub(super) async fn show_findings(State(service): Service) -> Answer<FindingsReport> {
    on_own_thread(move || Ok(service.findings())).await.map(Json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_apart_and_current() {
        let mut readings = Readings::default();
        let mut apart = |now_ms: u64| {
            take(&mut readings, Snapshot { uptime_ns: now_ms * 1_000_000, ..Snapshot::default() });
            (readings.seconds() * 1000.0) as u64
        };
        let found = [100_000, 100_500, 102_000, 102_500, 107_000].map(&mut apart);
        assert_eq!(found, [0, 0, 2000, 2000, 5000]);
        assert_eq!([180_000, 185_000].map(apart), [0, 5000]);
    }
}
