//! Captures in the control API: the answer is a pcapng file, which ends with the capture.
//!
//! If another process takes the switch over, the answer ends with the trailer [`CONTINUES`]. A client that accepts
//! trailers repeats its request with the trailer as a further parameter, and appends the answer.

use super::answer::{Service, filter};
use super::error::ApiError;
use super::peer::Peer;
use super::server::Endless;
use super::service::{ApiService, missing};
use crate::dataplane::capture_report::{CaptureEnd, CaptureRequest, Captured};
use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::{CONTENT_TYPE, TE, TRAILER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use console::Diagnostic;
use hyper::body::{Bytes, Frame};
use serde::Deserialize;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe::Receiver;
use tracing::info;
use utoipa::IntoParams;

/// Path of the route.
pub(super) const PATH: &str = "/v1/capture";
/// Trailer of an answer that goes on in another process, and name of the parameter for its value.
pub(crate) const CONTINUES: &str = "linerate-continues";
const PARAMETER: &str = "continues";
/// Header of an answer that does not begin at the end of the part before: microseconds without capture.
pub(crate) const INTERRUPTION: &str = "linerate-interruption-us";
/// Parameters of [`CaptureQuery`].
const PARAMETERS: &str = "ports, direction, snaplen, limit, filter, trace and continues";
/// Maximum number of packets of a capture by the web page.
const PAGE_LIMIT: u64 = 10_000;
/// Bytes of one piece of the answer.
const PIECE: usize = 64 << 10;

/// Parameters of `GET /v1/capture`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CaptureQuery {
    /// Names of ports, separated by commas; by default all. With `trace`, those that receive the packets.
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
    /// Follows packets: each that was received and matches has a number, which is in the comments of its records, with
    /// the time since its reception. At most this number of packets per second on each worker, 1 to 1000.
    trace: Option<u32>,
    /// The trailer `linerate-continues` of an answer to the same request, which ended because another process has taken
    /// the switch over. Packets of the parts before count for `limit`.
    continues: Option<String>,
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
        if self.trace.is_some_and(|rate| !(1..=1000).contains(&rate)) {
            let reason = format!("invalid value {} for trace: expected 1 to 1000", self.trace.unwrap_or(0));
            return Err(ApiError::invalid("query", reason, "name 1 to 1000 packets per second"));
        }
        let has = |word: &str| directions.is_empty() || directions.iter().any(|own| own == word);
        let program = self.filter.map(|text| text.parse()).transpose();
        let remedy = "compile it with `tcpdump -ddd` for Ethernet";
        let continues = self.continues.map(|text| text.parse()).transpose();
        let continues = continues.map_err(|e| {
            ApiError::invalid("query", format!("invalid value for continues: {e}"), "leave it out")
        })?;
        Ok(CaptureRequest {
            ports: words(self.ports),
            received: has("in"),
            sent: has("out"),
            dropped: has("drop"),
            snap: self.snaplen,
            limit: self.limit,
            trace: self.trace,
            filter: program.map_err(|e| ApiError::invalid("query", e, remedy))?,
            continues,
            query: None,
        })
    }
}

/// Reads the parameters of a request to the process before.
pub(crate) fn parse(query: &str) -> Result<CaptureRequest, Diagnostic> {
    let unreadable = |reason: String| Diagnostic::bad("capture", reason, "capture again");
    let uri = format!("{PATH}?{query}").parse().map_err(|e| unreadable(format!("{e}")))?;
    let read = Query::<CaptureQuery>::try_from_uri(&uri).map_err(|e| unreadable(e.to_string()))?;
    let request = read.0.read().map_err(ApiError::into_diagnostic)?;
    Ok(CaptureRequest { query: Some(query.to_owned()), ..request })
}

/// The parameters for a process that takes over, if the client reads the trailer.
fn for_successor(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let accepted = headers.get(TE)?.to_str().ok()?;
    accepted.split(',').find(|coding| coding.trim() == "trailers")?;
    let own = |part: &&str| part.split('=').next() != Some(PARAMETER);
    Some(uri.query().unwrap_or_default().split('&').filter(own).collect::<Vec<_>>().join("&"))
}

impl ApiService {
    /// `GET /v1/capture`
    fn capture(&self, request: &CaptureRequest) -> Result<Captured, ApiError> {
        let topology = self.topology();
        let is_port = |name: &String| topology.ports.iter().any(|port| port.name == *name);
        if let Some(unknown) = request.ports.iter().find(|name| !is_port(name)) {
            return Err(missing("port", unknown));
        }
        drop(topology);
        Ok(self.data_plane().capture(request)?)
    }
}

/// A pipe as the body of an answer. A capture that broke off is an error, by which the client sees that the file is not
/// whole.
struct Piped {
    pipe: Receiver,
    end: Arc<OnceLock<CaptureEnd>>,
    has_ended: bool,
}

impl Piped {
    /// What follows the last byte, once.
    fn last(&mut self) -> Option<io::Result<Frame<Bytes>>> {
        let is_first = !std::mem::replace(&mut self.has_ended, true);
        match self.end.get().filter(|_| is_first)? {
            CaptureEnd::BrokeOff(reason) => Some(Err(io::Error::other(reason.clone()))),
            CaptureEnd::Continues(end) => {
                let value = HeaderValue::try_from(end.to_string()).ok()?;
                let trailers = [(HeaderName::from_static(CONTINUES), value)];
                Some(Ok(Frame::trailers(HeaderMap::from_iter(trailers))))
            }
        }
    }
}

impl hyper::body::Body for Piped {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let mut bytes = vec![0; PIECE];
        let mut piece = ReadBuf::new(&mut bytes);
        let read = ready!(Pin::new(&mut self.pipe).poll_read(context, &mut piece));
        let len = piece.filled().len();
        bytes.truncate(len);
        Poll::Ready(match read {
            Ok(()) if len == 0 => self.last(),
            read => Some(read.map(|()| Frame::data(Bytes::from(bytes)))),
        })
    }
}

/// Captures packets of running ports
///
/// The body is a pcapng file that grows until the capture ends: by its limit, when the client closes the connection, or
/// with the switch. If another process takes the switch over, clients that send `TE: trailers` get the trailer
/// `linerate-continues`, for the parameter `continues` of the same request: its answer begins with the first packet in
/// that process, and is to be appended. It waits for 10 seconds; later, the answer has the header
/// `linerate-interruption-us`, and a comment in its section header that names the missing time. Packets that come faster
/// than they are written are missing; whenever their number has changed, it is in interface statistics (`isb_ifdrop`).
#[utoipa::path(get, path = "/v1/capture", params(CaptureQuery), responses(
    (status = 200, description = "The packets", content_type = "application/x-pcapng", body = Vec<u8>),
    ApiError,
))]
pub(super) async fn capture(
    State(service): Service,
    Extension(peer): Extension<Peer>,
    (uri, headers): (Uri, HeaderMap),
    query: Result<Query<CaptureQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let request = filter(query, PARAMETERS)?.read()?;
    // The numbers of followed packets begin again in another process.
    let query = for_successor(&headers, &uri).filter(|_| request.trace.is_none());
    answer(&service, &peer, &CaptureRequest { query, ..request })
}

/// [`capture`] for the web page, if the configuration permits it: one port, and a limit of packets.
pub(super) async fn capture_by_page(
    State(service): Service,
    Extension(peer): Extension<Peer>,
    query: Result<Query<CaptureQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    if !service.topology().switch.web_capture {
        let remedy = "set `web_capture` in [switch], or use `linerate capture`";
        let reason = "the web page must not capture packets";
        return Err(ApiError::Forbidden(Diagnostic::bad("request", reason, remedy)));
    }
    let request = filter(query, PARAMETERS)?.read()?;
    if request.ports.len() != 1 || request.limit.is_none_or(|limit| limit > PAGE_LIMIT) {
        let reason = format!("the web page captures one port, and at most {PAGE_LIMIT} packets");
        return Err(ApiError::invalid("query", reason, "name one port and a limit"));
    }
    answer(&service, &peer, &request)
}

fn answer(service: &ApiService, peer: &Peer, request: &CaptureRequest) -> Result<Response, ApiError> {
    let Captured { pipe, end, interruption } = service.capture(request)?;
    let pipe = Receiver::from_owned_fd(pipe);
    let pipe = pipe.map_err(|e| ApiError::Failed(Diagnostic::failed("capture", e, "try again")))?;
    let ports = if request.ports.is_empty() { "all".to_owned() } else { request.ports.join(",") };
    let continues = request.continues.is_some();
    info!(%peer, ports, limit = request.limit, continues, "a capture begins");
    let headers = [(CONTENT_TYPE, "application/x-pcapng"), (TRAILER, CONTINUES)];
    let mut response = (headers, Body::new(Piped { pipe, end, has_ended: false })).into_response();
    if let Some(missing) = interruption {
        let us = HeaderValue::from(missing.as_micros() as u64);
        response.headers_mut().insert(INTERRUPTION, us);
    }
    response.extensions_mut().insert(Endless);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_gets_the_parameters_without_the_parts_before() {
        let uri: Uri = "/v1/capture?ports=a%2Cb&limit=5&continues=1-2-3-4".parse().unwrap();
        let mut headers = HeaderMap::new();
        assert_eq!(for_successor(&headers, &uri), None);
        headers.insert(TE, HeaderValue::from_static("gzip, trailers"));
        let query = for_successor(&headers, &uri).unwrap();
        assert_eq!(query, "ports=a%2Cb&limit=5");
        let request = parse(&query).unwrap();
        assert_eq!(
            (request.ports, request.limit, request.continues),
            (vec!["a".into(), "b".into()], Some(5), None)
        );
        assert_eq!(parse("limit=0").unwrap_err().place, "query");
    }
}
