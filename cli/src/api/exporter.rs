//! The address for metrics: the requests of the control API that only read counters and health, served to every host
//! that reaches the address, on a separate thread.

use super::routes;
use super::server::{self, Server};
use super::service::ApiService;
use console::Diagnostic;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// Listens at `address`.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, Diagnostic> {
    TcpListener::bind(address).map_err(|error| {
        let remedy = "choose another address with `metrics` in [switch]";
        Diagnostic::failed(format!("address for metrics {address}"), error, remedy)
    })
}

/// Serves the metrics of `service`.
pub(crate) fn start(listener: TcpListener, service: Arc<ApiService>) -> Result<Server, Diagnostic> {
    server::start("metrics", server::Role::Reads, listener, routes::metrics_router(service))
}
