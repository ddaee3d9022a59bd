//! HTTP server of the control API, and of the address for metrics. One thread with its own runtime; requests are
//! processed sequentially, except that requests which wait for a disk or a measurement run on their own threads.
//!
//! A connection carries one request and its response. Each step has a deadline: reading the request, headers and body,
//! [`READ_TIMEOUT`]; processing it, [`REQUEST_TIMEOUT`]; writing the response, [`WRITE_TIMEOUT`]. With at most
//! [`MAX_CLIENTS`] connections, clients that neither complete their request nor read their response delay the others at
//! most by the sum of the first and the last. At most [`MAX_WAITING`] requests wait for an event.

use super::error::ApiError;
use super::peer::Peer;
use crate::settings::config;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::{IntoResponse, Response};
use console::Diagnostic;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::Instant;
use tracing::{debug, error, info};

/// Maximum delay of shutdown by responses being written.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of clients of a server: each holds a descriptor, and ports need descriptors of the same process. Few
/// in unit tests, so that using all of them does not take longer than the deadlines on a loaded machine.
pub(super) const MAX_CLIENTS: usize = if cfg!(test) { 16 } else { 256 };
/// Maximum number of requests of a server that wait for an event. Further ones are answered at once.
const MAX_WAITING: usize = MAX_CLIENTS / 8;
/// Timeout for reading a request: headers and body.
const READ_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout for processing a request.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);
/// Timeout for writing a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3);
/// Rights of a server's thread, and of those that it starts for long requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Those of the process: its requests open ports.
    Changes,
    /// None: its requests only read.
    Reads,
}

impl Role {
    fn enter(self) -> io::Result<()> {
        match self {
            Self::Changes => Ok(()),
            Self::Reads => confine::enter(confine::Role::Reader).map_err(io::Error::other),
        }
    }
}

/// Mark of a response that is written as long as its client reads it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endless;

/// Timeout for writing an endless response.
const FOREVER: Duration = Duration::from_hours(24 * 3650);
/// Maximum size of a request body. The longest request names 4094 VLANs.
const MAX_BODY: usize = 64 << 10;
/// Path of the requests whose body is a configuration file. One is read at a time, so that they use bounded memory.
const LARGE: &str = "/v1/config";
/// Path of a request that changes nothing although it has a body.
const TRACE: &str = "/v1/trace";
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The API's thread. Dropping it closes the API; pending responses are still sent.
pub(crate) struct Server {
    close: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.close.take());
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was already printed, and shutdown continues.
            let _ = thread.join();
        }
    }
}

impl Server {
    /// Runs `serve` on a thread called `name` with the rights of `role`, until the server is dropped.
    pub(super) fn run<L: Listener, F: Future<Output = ()> + Send>(
        (name, role): (&str, Role),
        listener: L,
        serve: impl FnOnce(L::Open, oneshot::Receiver<()>) -> F + Send + 'static,
    ) -> Result<Self, Diagnostic> {
        let begun = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
            // Here and not on the thread, so that an error ends the start.
            let listener = {
                let _inside = runtime.enter();
                listener.open()?
            };
            let (close, closed) = oneshot::channel();
            let thread = std::thread::Builder::new().name(name.to_owned());
            let thread = thread.spawn(move || match role.enter() {
                Ok(()) => runtime.block_on(serve(listener, closed)),
                Err(error) => error!(%error, "a server of the API ends"),
            })?;
            Ok(Self { close: Some(close), thread: Some(thread) })
        };
        let remedy = "raise the limits on threads and descriptors of this process";
        begun().map_err(|e: io::Error| Diagnostic::failed(format!("server \"{name}\""), e, remedy))
    }
}

/// A bound socket, for the runtime that it is opened in.
pub(crate) trait Listener: Send + 'static {
    type Open: Accept;

    fn open(self) -> io::Result<Self::Open>;
}

/// A socket that accepts connections.
pub(crate) trait Accept: Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;
    /// A connection before its handshake.
    type Accepted: Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Accepted>> + Send;

    /// Completes the handshake of a connection, if it has one.
    fn greet(
        accepted: Self::Accepted,
    ) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send + 'static;
}

impl Listener for UnixListener {
    type Open = tokio::net::UnixListener;

    fn open(self) -> io::Result<Self::Open> {
        self.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(self)
    }
}

impl Accept for tokio::net::UnixListener {
    type Stream = tokio::net::UnixStream;
    type Accepted = (Self::Stream, Peer);

    async fn accept(&self) -> io::Result<Self::Accepted> {
        let (stream, _) = self.accept().await?;
        let peer = Peer::local(stream.peer_cred().ok().as_ref());
        Ok((stream, peer))
    }

    async fn greet(accepted: Self::Accepted) -> io::Result<(Self::Stream, Peer)> {
        Ok(accepted)
    }
}

impl Listener for TcpListener {
    type Open = tokio::net::TcpListener;

    fn open(self) -> io::Result<Self::Open> {
        self.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(self)
    }
}

impl Accept for tokio::net::TcpListener {
    type Stream = tokio::net::TcpStream;
    type Accepted = (Self::Stream, Peer);

    async fn accept(&self) -> io::Result<Self::Accepted> {
        let (stream, peer) = self.accept().await?;
        Ok((stream, Peer::remote(peer.to_string())))
    }

    async fn greet(accepted: Self::Accepted) -> io::Result<(Self::Stream, Peer)> {
        Ok(accepted)
    }
}

/// Serves the routes of `router` on `listener`, on a thread called `name` with the rights of `role`.
pub(crate) fn start(
    name: &str,
    role: Role,
    listener: impl Listener,
    router: Router,
) -> Result<Server, Diagnostic> {
    start_site((name, role), listener, Site::new(router, None, role))
}

/// [`start`], with a gate for the clients of each request.
pub(super) fn start_gated(
    name: &str,
    role: Role,
    listener: impl Listener,
    (router, gate): (Router, Gate),
) -> Result<Server, Diagnostic> {
    start_site((name, role), listener, Site::new(router, Some(gate), role))
}

fn start_site(thread: (&str, Role), listener: impl Listener, site: Site) -> Result<Server, Diagnostic> {
    Server::run(thread, listener, |listener, closed| serve(listener, Arc::new(site), closed))
}

/// Identifies the client of a request by its headers, or returns the refusal.
pub(super) type Gate = Box<dyn Fn(&HeaderMap, &Peer) -> Result<Peer, Response> + Send + Sync>;

/// What all connections of a server share.
struct Site {
    router: Router,
    /// Decides before the body of a request is read.
    gate: Option<Gate>,
    /// Whether its requests may change something, such as one with a large body.
    role: Role,
    /// One request with a large body is read at a time.
    large: Semaphore,
    waits: Waits,
}

/// The requests of a server that may wait for an event.
#[derive(Clone)]
pub(super) struct Waits(Arc<Semaphore>);

impl Waits {
    /// Held by a request while it waits; `None` if too many others do.
    pub(super) fn begin(self) -> Option<OwnedSemaphorePermit> {
        self.0.try_acquire_owned().ok()
    }
}

impl Site {
    fn new(router: Router, gate: Option<Gate>, role: Role) -> Self {
        let waits = Waits(Arc::new(Semaphore::new(MAX_WAITING)));
        Self { router, gate, role, large: Semaphore::new(1), waits }
    }

    fn admit(&self, headers: &HeaderMap, peer: &Peer) -> Result<Peer, Response> {
        self.gate.as_ref().map_or_else(|| Ok(peer.clone()), |gate| gate(headers, peer))
    }
}

/// Whether servers accept connections; otherwise these wait for the process that takes over.
static ACCEPTS: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(true));

/// Lets all servers of this process accept connections, or none.
pub(crate) fn accept_connections(accepts: bool) {
    ACCEPTS.send_replace(accepts);
}

/// The next connection, while servers accept connections.
pub(super) async fn accept<L: Accept>(listener: &L) -> io::Result<L::Accepted> {
    let mut accepts = ACCEPTS.subscribe();
    loop {
        // The sender is not dropped.
        let _ = accepts.wait_for(|accepts| *accepts).await;
        tokio::select! {
            biased;
            _ = accepts.changed() => {}
            accepted = listener.accept() => return accepted,
        }
    }
}

/// Accepts connections until closed, then completes pending responses.
async fn serve<A: Accept>(listener: A, site: Arc<Site>, mut closed: oneshot::Receiver<()>) {
    let (room, open) = (Arc::new(Semaphore::new(MAX_CLIENTS)), GracefulShutdown::new());
    loop {
        let next = async {
            let place = room.clone().acquire_owned().await;
            (accept(&listener).await, place)
        };
        let (accepted, place) = tokio::select! {
            _ = &mut closed => break,
            next = next => next,
        };
        match accepted {
            Ok(accepted) => {
                let (site, watcher) = (site.clone(), open.watcher());
                drop(tokio::spawn(async move {
                    let greeted = tokio::time::timeout(READ_TIMEOUT, A::greet(accepted)).await;
                    // Errors are the client's: it does not use TLS, or has no valid certificate.
                    if let Ok(Ok(client)) = greeted {
                        converse(client, site, watcher).await;
                    }
                    drop(place);
                }));
            }
            // Usually no descriptor is available; clients that disconnect release some.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
    drop(listener);
    tokio::select! {
        () = open.shutdown() => {}
        () = tokio::time::sleep(SHUTDOWN_TIMEOUT) => {}
    }
}

/// Serves one client until its response is sent or a deadline has passed.
fn converse(
    (stream, peer): (impl AsyncRead + AsyncWrite + Send + Unpin + 'static, Peer),
    site: Arc<Site>,
    open: Watcher,
) -> impl Future<Output = ()> + Send + 'static {
    let (deadline, deadlines) = watch::channel(Instant::now() + READ_TIMEOUT);
    let mut http = http1::Builder::new();
    // The deadline includes the headers; each connection carries one request only.
    http.header_read_timeout(None).keep_alive(false);
    let service = service_fn(move |request| answer((request, peer.clone()), site.clone(), deadline.clone()));
    let connection = open.watch(http.serve_connection(TokioIo::new(stream), service));
    async move {
        tokio::select! {
            // Errors are the client's: it disconnected or does not use HTTP.
            _ = connection => {}
            () = expired(deadlines) => {}
        }
    }
}

/// Reads the rest of a request and responds; `deadline` is extended with each step.
async fn answer(
    (request, peer): (hyper::Request<Incoming>, Peer),
    site: Arc<Site>,
    deadline: watch::Sender<Instant>,
) -> Result<Response, Infallible> {
    let (parts, body) = request.into_parts();
    let peer = match site.admit(&parts.headers, &peer) {
        Ok(peer) => peer,
        Err(refusal) => {
            debug!(method = %parts.method, uri = %parts.uri, %peer, "an unknown client was refused");
            deadline.send_replace(Instant::now() + WRITE_TIMEOUT);
            return Ok(refusal);
        }
    };
    let may_change = site.role == Role::Changes && !peer.is_reader;
    let is_large = may_change && parts.method == Method::POST && parts.uri.path() == LARGE;
    let turn = if is_large { site.large.acquire().await.ok() } else { None };
    let most = if is_large { config::LARGEST as usize } else { MAX_BODY };
    let body = axum::body::to_bytes(Body::new(body), most).await;
    deadline.send_replace(Instant::now() + REQUEST_TIMEOUT);
    let (method, uri) = (parts.method.clone(), parts.uri.clone());
    let mut logged = Logged { method, uri, peer: peer.clone(), status: None };
    let response = if let Ok(body) = body {
        let mut request = Request::from_parts(parts, Body::from(body));
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(site.waits.clone());
        TowerToHyperService::new(site.router.clone()).call(request).await?
    } else {
        let reason = format!("the body is incomplete, or has more than {most} bytes");
        let body = Diagnostic::bad("request", reason, "send one JSON object");
        ApiError::TooLarge(body).into_response()
    };
    drop(turn);
    logged.status = Some(response.status().as_u16());
    drop(logged);
    let is_endless = response.extensions().get::<Endless>().is_some();
    deadline.send_replace(Instant::now() + if is_endless { FOREVER } else { WRITE_TIMEOUT });
    Ok(response)
}

/// A request whose body was read. Its log line is written when this is dropped: a change is completed on its own thread
/// although its client disconnects or its deadline passes.
struct Logged {
    method: Method,
    uri: Uri,
    peer: Peer,
    /// `None` while there is no response.
    status: Option<u16>,
}

impl Drop for Logged {
    fn drop(&mut self) {
        let Self { method, uri, peer, status } = self;
        if *method == Method::GET || uri.path() == TRACE {
            debug!(%method, %uri, %peer, status, "request");
            return;
        }
        let reason = status.is_none().then_some("no response: the client disconnected or the time ran out");
        info!(%method, %uri, %peer, status, reason, "request to change the switch");
    }
}

/// Returns when a deadline has passed without being extended.
async fn expired(mut deadlines: watch::Receiver<Instant>) {
    loop {
        let deadline = *deadlines.borrow_and_update();
        match tokio::time::timeout_at(deadline, deadlines.changed()).await {
            Ok(Ok(())) => {}
            // The deadline is no longer extended.
            Ok(Err(_)) => tokio::time::sleep_until(deadline).await,
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_log::recorded;
    use tokio::io::AsyncWriteExt;
    use tokio::sync::Notify;

    #[test]
    fn a_change_whose_client_disconnects_is_logged_with_it() {
        let begun = Arc::new(Notify::new());
        let starts = begun.clone();
        let slow = || async move {
            starts.notify_one();
            std::future::pending::<()>().await;
        };
        let router = Router::new().route("/v1/ports", axum::routing::post(slow));
        let site = Arc::new(Site::new(router, None, Role::Changes));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let events = recorded(|| {
            runtime.block_on(async {
                let (mut client, stream) = tokio::io::duplex(1024);
                let peer = Peer::remote("tester".to_owned());
                let open = GracefulShutdown::new();
                let served = tokio::spawn(converse((stream, peer), site, open.watcher()));
                let request = "POST /v1/ports HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n";
                client.write_all(request.as_bytes()).await.unwrap();
                begun.notified().await;
                drop(client);
                served.await.unwrap();
            });
        });
        let events = events.after(0, 9).events;
        let [event] = events.as_slice() else { panic!("{events:?}") };
        let field = |name: &str| event.fields.get(name).and_then(serde_json::Value::as_str);
        assert_eq!(event.message, "request to change the switch");
        assert_eq!(
            (field("peer"), field("method"), field("uri")),
            (Some("tester"), Some("POST"), Some("/v1/ports"))
        );
        assert!(field("reason").is_some() && field("status").is_none(), "{event:?}");
    }
}
