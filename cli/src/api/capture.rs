//! Captures in the control API: the answer is a pcapng file, which ends with the capture.

use super::answer::{Service, filter};
use super::error::ApiError;
use super::server::Endless;
use super::service::{ApiService, missing};
use crate::dataplane::report::CaptureRequest;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use hyper::body::{Bytes, Frame};
use rustix::fd::OwnedFd;
use serde::Deserialize;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe::Receiver;
use utoipa::IntoParams;

/// Path of the route.
pub(super) const PATH: &str = "/v1/capture";
/// Bytes of one piece of the answer.
const PIECE: usize = 64 << 10;

/// Parameters of `GET /v1/capture`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaptureQuery {
    /// Names of ports, separated by commas; by default all.
    ports: Option<String>,
    /// What is captured, separated by commas: `in`, `out` and `drop`; by default all.
    direction: Option<String>,
    /// Maximum bytes of a packet.
    snaplen: Option<u32>,
    /// Number of packets after which the capture ends.
    limit: Option<u64>,
    /// Instructions of a classic BPF program for Ethernet, as `tcpdump -ddd` prints them, separated by `;`, which sees
    /// the first 128 bytes of a packet.
    filter: Option<String>,
}

impl CaptureQuery {
    fn read(self) -> Result<CaptureRequest, ApiError> {
        let words = |text: Option<String>| -> Vec<String> {
            text.unwrap_or_default().split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        let directions = words(self.direction);
        if let Some(unknown) = directions.iter().find(|word| !["in", "out", "drop"].contains(&word.as_str()))
        {
            let reason = format!("invalid value \"{unknown}\" for direction: expected in, out or drop");
            return Err(ApiError::invalid("query", reason, "name in, out or drop"));
        }
        if self.limit == Some(0) {
            return Err(ApiError::invalid("query", "invalid value 0 for limit", "name at least one packet"));
        }
        let has = |word: &str| directions.is_empty() || directions.iter().any(|own| own == word);
        let program = self.filter.map(|text| text.parse()).transpose();
        let remedy = "compile it with `tcpdump -ddd` for Ethernet";
        Ok(CaptureRequest {
            ports: words(self.ports),
            received: has("in"),
            sent: has("out"),
            dropped: has("drop"),
            snap: self.snaplen,
            limit: self.limit,
            filter: program.map_err(|e| ApiError::invalid("query", e, remedy))?,
        })
    }
}

impl ApiService {
    /// `GET /v1/capture`
    fn capture(&self, request: &CaptureRequest) -> Result<OwnedFd, ApiError> {
        let topology = self.topology();
        let is_port = |name: &String| topology.ports.iter().any(|port| port.name == *name);
        if let Some(unknown) = request.ports.iter().find(|name| !is_port(name)) {
            return Err(missing("port", unknown));
        }
        drop(topology);
        Ok(self.data_plane().capture(request)?)
    }
}

/// A pipe as the body of an answer.
struct Piped(Receiver);

impl hyper::body::Body for Piped {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let mut bytes = vec![0; PIECE];
        let mut piece = ReadBuf::new(&mut bytes);
        let read = ready!(Pin::new(&mut self.0).poll_read(context, &mut piece));
        let len = piece.filled().len();
        bytes.truncate(len);
        Poll::Ready(match read {
            Ok(()) if len == 0 => None,
            read => Some(read.map(|()| Frame::data(Bytes::from(bytes)))),
        })
    }
}

/// Captures packets of running ports
///
/// The body is a pcapng file that grows until the capture ends: by its limit, when the client closes the connection, or
/// with the switch.
#[utoipa::path(get, path = "/v1/capture", params(CaptureQuery), responses(
    (status = 200, description = "The packets", content_type = "application/x-pcapng", body = Vec<u8>),
    ApiError,
))]
pub(super) async fn capture(
    State(service): Service,
    query: Result<Query<CaptureQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let request = filter(query, "ports, direction, snaplen, limit and filter")?.read()?;
    let pipe = Receiver::from_owned_fd(service.capture(&request)?);
    let pipe = pipe.map_err(|e| ApiError::Failed(console::Diagnostic::failed("capture", e, "try again")))?;
    let headers = [(CONTENT_TYPE, "application/x-pcapng")];
    let mut response = (headers, Body::new(Piped(pipe))).into_response();
    response.extensions_mut().insert(Endless);
    Ok(response)
}
