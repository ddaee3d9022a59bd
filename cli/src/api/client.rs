//! Client of a running switch or program with a stack: one connection per request, over its control socket.

use super::endpoint::{Credentials, CredentialsError, Stream, connect, header, is_remote};
use console::{BAD_INPUT, Diagnostic, FAILED};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Frame};
use hyper::header::{HeaderMap, HeaderValue, TE};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use std::error::Error;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::debug;

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of a request that may read a large file.
const LONG_TIMEOUT: Duration = Duration::from_mins(1);

/// Longest time without a piece of a body without end.
const PAUSE: Duration = Duration::from_millis(100);

/// The kind of a process with a control socket, for errors.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    /// Remedy if none listens on the socket.
    start: &'static str,
}

const SWITCH: Kind = Kind {
    name: "switch",
    start: "start a switch with `linerate run FILE`, or name its socket with --control",
};
const STACK: Kind = Kind {
    name: "program with a stack",
    start: "start `linerate serve` or `linerate load` with --control PATH, and name the same path here",
};

/// The process behind one control socket.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// A path, or `https://HOST:PORT`.
    socket: PathBuf,
    credentials: Credentials,
    timeout: Duration,
    kind: Kind,
}

impl Client {
    /// A client of the switch at `socket`, or at the default path.
    pub(crate) fn new(socket: Option<&Path>) -> Self {
        let socket = socket.map_or_else(crate::host::default_control, Path::to_owned);
        Self { socket, credentials: Credentials::default(), timeout: TIMEOUT, kind: SWITCH }
    }

    /// The client with files for an address of TCP.
    #[must_use]
    pub(crate) fn with(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }

    /// A client of the program with a TCP/IP stack at `socket`.
    pub(crate) fn of_stack(socket: &Path) -> Self {
        Self { kind: STACK, ..Self::new(Some(socket)) }
    }

    /// A client for requests that may read a large file.
    pub(crate) fn patient(&self) -> Self {
        Self { timeout: LONG_TIMEOUT, ..self.clone() }
    }

    /// The control socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// `GET`
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Diagnostic> {
        self.decode(&self.ask(Method::GET, path, Bytes::new())?)
    }

    /// `GET` of a body without end, which is passed to `take` in pieces until it ends or `take` returns an error. `take`
    /// gets an empty piece after each [`PAUSE`] without bytes, so that it can end then. `begin` gets the headers first.
    /// Returns the trailers.
    pub(crate) fn stream(
        &self,
        path: &str,
        begin: impl FnOnce(&HeaderMap),
        mut take: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<std::io::Result<HeaderMap>, Diagnostic> {
        self.runtime()?.block_on(async {
            let (mut sender, connection) = self.open().await.map_err(|e| self.unreached(&*e))?;
            // It ends with the runtime at the latest.
            drop(tokio::spawn(connection));
            let request = self.request(&Method::GET, path, Bytes::new());
            let mut request = request.map_err(|e| self.unreached(&*e))?;
            request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
            let mut response = sender.send_request(request).await.map_err(|e| self.silent(&e))?;
            let status = response.status();
            let (mut refusal, mut trailers) = (Vec::new(), HeaderMap::new());
            if status.is_success() {
                begin(response.headers());
            }
            loop {
                let frame = match tokio::time::timeout(PAUSE, response.frame()).await {
                    Ok(None) => break,
                    Ok(Some(frame)) => frame.map_err(|e| self.broken(&e))?,
                    Err(_) => Frame::data(Bytes::new()),
                };
                let piece = match frame.into_data() {
                    Ok(piece) => piece,
                    Err(last) => {
                        trailers.extend(last.into_trailers().unwrap_or_default());
                        continue;
                    }
                };
                if !status.is_success() {
                    refusal.extend_from_slice(&piece);
                } else if let Err(error) = take(&piece) {
                    return Ok(Err(error));
                }
            }
            if status.is_success() { Ok(Ok(trailers)) } else { Err(self.refused(status, &refusal)) }
        })
    }

    /// `GET` of a report that has a body also if the state that it reports is bad (503).
    pub(crate) fn get_report<T: DeserializeOwned>(&self, path: &str) -> Result<T, Diagnostic> {
        let (status, body) = self.send(Method::GET, path, Bytes::new())?;
        let is_report = status.is_success() || status == StatusCode::SERVICE_UNAVAILABLE;
        if is_report { self.decode(&body) } else { Err(self.refused(status, &body)) }
    }

    /// `POST` with a JSON body.
    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<T, Diagnostic> {
        self.decode(&self.ask(Method::POST, path, Bytes::from(body.to_string()))?)
    }

    /// `POST` with a text as its body.
    pub(crate) fn post_text<T: DeserializeOwned>(&self, path: &str, body: String) -> Result<T, Diagnostic> {
        self.decode(&self.ask(Method::POST, path, Bytes::from(body))?)
    }

    /// `PATCH` with a JSON body.
    pub(crate) fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<T, Diagnostic> {
        self.decode(&self.ask(Method::PATCH, path, Bytes::from(body.to_string()))?)
    }

    /// `POST` without a result.
    pub(crate) fn order(&self, path: &str) -> Result<(), Diagnostic> {
        self.ask(Method::POST, path, Bytes::new()).map(drop)
    }

    /// `DELETE`
    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Diagnostic> {
        self.decode(&self.ask(Method::DELETE, path, Bytes::new())?)
    }

    /// Sends a request. Returns the body of a successful answer.
    fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, Diagnostic> {
        let (status, body) = self.send(method, path, body)?;
        if status.is_success() { Ok(body) } else { Err(self.refused(status, &body)) }
    }

    fn runtime(&self) -> Result<tokio::runtime::Runtime, Diagnostic> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        runtime.map_err(|e| self.silent(&e))
    }

    fn send(&self, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Bytes), Diagnostic> {
        let silent = |e: &dyn std::fmt::Display| self.silent(e);
        let runtime = self.runtime()?;
        let asked = method.clone();
        let exchange = self.exchange(method, path, body);
        let answer = async { tokio::time::timeout(self.timeout, exchange).await };
        let answer = runtime.block_on(answer).map_err(|_| {
            let seconds = self.timeout.as_secs();
            silent(&format!("no answer within {seconds} seconds"))
        })?;
        let (status, body) = answer.map_err(|e| self.unreached(&*e))?;
        debug!(method = %asked, path, status = status.as_u16(), "request");
        Ok((status, body))
    }

    /// Error if a request was not answered.
    fn unreached(&self, error: &(dyn Error + 'static)) -> Diagnostic {
        if let Some(error) = error.downcast_ref::<CredentialsError>() {
            let place = format!("--control {}", self.socket.display());
            return Diagnostic::bad(place, error, CredentialsError::REMEDY);
        }
        let denied = |io: &std::io::Error| io.kind() == std::io::ErrorKind::PermissionDenied;
        if is_remote(&self.socket) || !error.downcast_ref().is_some_and(denied) {
            return self.silent(&error);
        }
        let remedy = match std::fs::metadata(&self.socket).map(|found| found.uid()) {
            Ok(owner) => format!("run as user {owner}, the owner of the socket, or as root"),
            Err(_) => format!("run as the user that started the {}, or as root", self.kind.name),
        };
        Diagnostic::failed(format!("control socket {}", self.socket.display()), error, remedy)
    }

    /// Error of an answer that does not end as it should.
    fn broken(&self, reason: &dyn std::fmt::Display) -> Diagnostic {
        let place = format!("the answer of the {} at {} broke off", self.kind.name, self.socket.display());
        Diagnostic::failed(place, reason, format!("see the log of the {}", self.kind.name))
    }

    fn silent(&self, reason: &dyn std::fmt::Display) -> Diagnostic {
        let place = format!("no {} answers on {}", self.kind.name, self.socket.display());
        Diagnostic::failed(place, reason, self.kind.start)
    }

    /// The error returned by the switch, unchanged.
    fn refused(&self, status: StatusCode, body: &[u8]) -> Diagnostic {
        let unreadable = || {
            let place = format!("the {} at {}", self.kind.name, self.socket.display());
            let remedy = format!("use the linerate that started the {}", self.kind.name);
            Diagnostic::failed(place, format!("HTTP status {status}"), remedy)
        };
        let error: Diagnostic = serde_json::from_slice(body).unwrap_or_else(|_| unreadable());
        Diagnostic { code: if status.is_client_error() { BAD_INPUT } else { FAILED }, ..error }
    }

    fn decode<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, Diagnostic> {
        serde_json::from_slice(body).map_err(|e| {
            let place = format!("the answer of the {} at {}", self.kind.name, self.socket.display());
            Diagnostic::failed(place, e, format!("use the linerate that started the {}", self.kind.name))
        })
    }
}

type Connection = hyper::client::conn::http1::Connection<TokioIo<Box<dyn Stream>>, Full<Bytes>>;
type Sender = hyper::client::conn::http1::SendRequest<Full<Bytes>>;
type Failure = Box<dyn Error + Send + Sync>;

impl Client {
    /// Opens a connection. Its future transfers the bytes.
    async fn open(&self) -> Result<(Sender, Connection), Failure> {
        let stream = connect(&self.socket, &self.credentials).await?;
        Ok(hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?)
    }

    fn request(&self, method: &Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>, Failure> {
        let request = Request::builder().method(method).uri(path).header("host", "linerate");
        let request = request.header("content-type", "application/json");
        // A token is sent over TLS only.
        let token = if is_remote(&self.socket) { header(&self.credentials)? } else { None };
        let request = token.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        Ok(request.body(Full::new(body))?)
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let (mut sender, connection) = self.open().await?;
        let request = self.request(&method, path, body)?;
        let answer = async {
            let response = sender.send_request(request).await?;
            let status = response.status();
            Ok::<_, hyper::Error>((status, response.into_body().collect().await?.to_bytes()))
        };
        // The connection task transfers the bytes; it ends by itself only when the switch closes the connection.
        let mut connection = std::pin::pin!(connection);
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            answer = &mut answer => Ok(answer?),
            ended = &mut connection => {
                ended?;
                Ok(answer.await?)
            }
        }
    }
}

/// The query of the parameters that have a value, without question mark.
pub(crate) fn query<T: AsRef<str>>(given: impl IntoIterator<Item = (&'static str, Option<T>)>) -> String {
    let parts =
        given.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", quote(value?.as_ref()))));
    parts.collect::<Vec<_>>().join("&")
}

/// Percent-encodes `value` as a part of a path or a query.
pub(crate) fn quote(value: &str) -> String {
    utf8_percent_encode(value, NON_ALPHANUMERIC).to_string()
}
