//! HTTP around the desk. One thread with its own small runtime; requests are handled one after the other.

use super::desk::{Desk, No};
use super::model::{FdbFilter, Refusal};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use std::io;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, oneshot};

/// How long answers that are being written may hold up the end.
const FAREWELL: Duration = Duration::from_secs(1);
/// Clients at one time: each holds a descriptor, and ports need descriptors of the same process.
const MOST_CLIENTS: usize = 256;
/// How long a client may take to ask.
const SILENCE: Duration = Duration::from_secs(3);
/// How long a client may take altogether.
const CONVERSATION: Duration = Duration::from_mins(1);
/// A pause where no client could be let in.
const BREATH: Duration = Duration::from_millis(50);

/// The API's thread. Dropping it closes the API; answers under way are still given.
pub(crate) struct Server {
    close: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.close.take());
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was printed when it happened, and the end comes anyway.
            let _ = thread.join();
        }
    }
}

/// Serves `desk` on `listener`.
pub(crate) fn start(listener: UnixListener, desk: Arc<Desk>) -> io::Result<Server> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let (close, closed) = oneshot::channel();
    let life = async move {
        match tokio::net::UnixListener::from_std(listener) {
            Ok(listener) => serve(listener, router(desk), closed).await,
            Err(e) => report(&e),
        }
    };
    let thread =
        std::thread::Builder::new().name("control-api".to_owned()).spawn(move || runtime.block_on(life))?;
    Ok(Server { close: Some(close), thread: Some(thread) })
}

/// Answers until it is told to close, then finishes the answers under way.
async fn serve(listener: tokio::net::UnixListener, router: Router, mut closed: oneshot::Receiver<()>) {
    let (room, open) = (Arc::new(Semaphore::new(MOST_CLIENTS)), GracefulShutdown::new());
    loop {
        let next = async {
            let place = room.clone().acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            _ = &mut closed => break,
            next = next => next,
        };
        match accepted {
            Ok((stream, _)) => drop(tokio::spawn(converse(stream, router.clone(), &open, place))),
            // Most likely there is no descriptor left; clients that leave give some back.
            Err(_) => tokio::time::sleep(BREATH).await,
        }
    }
    drop(listener);
    tokio::select! {
        () = open.shutdown() => {}
        () = tokio::time::sleep(FAREWELL) => {}
    }
}

/// One client. Whoever says nothing, or reads nothing, is cut off, so that nobody holds its place for ever.
fn converse(
    stream: tokio::net::UnixStream,
    router: Router,
    open: &GracefulShutdown,
    place: Result<OwnedSemaphorePermit, AcquireError>,
) -> impl Future<Output = ()> + Send + 'static {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(SILENCE);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let connection = open.watch(connection);
    async move {
        // Its errors are the client's: it left, or spoke something else than HTTP.
        let _ = tokio::time::timeout(CONVERSATION, connection).await;
        drop(place);
    }
}

fn report(error: &io::Error) {
    eprintln!(
        "linerate: control API: {error}; packets flow on, but `linerate` verbs no longer reach this switch"
    );
}

type Answer<T> = Result<Json<T>, No>;

fn router(desk: Arc<Desk>) -> Router {
    Router::new()
        .route("/v1/status", get(async |State(desk): State<Arc<Desk>>| Json(desk.status())))
        .route("/v1/bridges", get(async |State(desk): State<Arc<Desk>>| Json(desk.bridges())))
        .route("/v1/ports", get(async |State(desk): State<Arc<Desk>>| Json(desk.ports())).post(add_port))
        .route("/v1/ports/{name}", get(port).delete(remove_port))
        .route("/v1/fdb", get(fdb).post(pin).delete(flush))
        .route("/v1/fdb/{mac}", delete(forget))
        .route("/v1/snapshot", get(async |State(desk): State<Arc<Desk>>| Json(desk.snapshot())))
        .route(
            "/v1/workers",
            get(async |State(desk): State<Arc<Desk>>| Json(desk.workers())).post(add_worker),
        )
        .route("/v1/placement", get(async |State(desk): State<Arc<Desk>>| desk.placement().map(Json)))
        .route("/v1/rebalance", post(rebalance))
        .route("/v1/shutdown", post(shutdown))
        .fallback(async || {
            No::Missing(Refusal::new("there is nothing at this path", "paths begin with /v1/"))
        })
        .method_not_allowed_fallback(async || {
            let refusal = Refusal::new("this path does not know that method", "see the API's list of routes");
            (StatusCode::METHOD_NOT_ALLOWED, Json(refusal))
        })
        .with_state(desk)
}

async fn port(State(desk): State<Arc<Desk>>, Path(name): Path<String>) -> Answer<impl Serialize> {
    desk.port(&name).map(Json)
}

async fn add_port(State(desk): State<Arc<Desk>>, body: axum::body::Bytes) -> Response {
    match json(&body).and_then(|json| desk.add_port(&json)) {
        Ok(port) => (StatusCode::CREATED, Json(port)).into_response(),
        Err(no) => no.into_response(),
    }
}

async fn add_worker(State(desk): State<Arc<Desk>>, body: axum::body::Bytes) -> Response {
    match json(&body).and_then(|json| desk.add_worker(&json)) {
        Ok(worker) => (StatusCode::CREATED, Json(worker)).into_response(),
        Err(no) => no.into_response(),
    }
}

async fn remove_port(State(desk): State<Arc<Desk>>, Path(name): Path<String>) -> Answer<impl Serialize> {
    desk.remove_port(&name).map(Json)
}

async fn fdb(State(desk): State<Arc<Desk>>, query: FdbQuery) -> Answer<impl Serialize> {
    desk.fdb(&filter(query)?).map(Json)
}

async fn pin(State(desk): State<Arc<Desk>>, body: axum::body::Bytes) -> Response {
    match json(&body).and_then(|json| desk.pin(&json)) {
        Ok(entry) => (StatusCode::CREATED, Json(entry)).into_response(),
        Err(no) => no.into_response(),
    }
}

async fn flush(State(desk): State<Arc<Desk>>, query: FdbQuery) -> Answer<impl Serialize> {
    desk.flush(&filter(query)?).map(Json)
}

async fn forget(
    State(desk): State<Arc<Desk>>,
    Path(mac): Path<String>,
    query: FdbQuery,
) -> Answer<impl Serialize> {
    desk.forget(&mac, &filter(query)?).map(Json)
}

/// Measuring takes a while, so it has a thread of its own.
async fn rebalance(State(desk): State<Arc<Desk>>, body: axum::body::Bytes) -> Response {
    let measured = tokio::task::spawn_blocking(move || json(&body).and_then(|json| desk.rebalance(json)));
    match measured.await {
        Ok(Ok(balance)) => Json(balance).into_response(),
        Ok(Err(no)) => no.into_response(),
        Err(_) => {
            let remedy = "see what the switch printed";
            No::Failed(Refusal::new("measuring ended without a result", remedy)).into_response()
        }
    }
}

async fn shutdown(State(desk): State<Arc<Desk>>) -> StatusCode {
    desk.shutdown();
    StatusCode::ACCEPTED
}

type FdbQuery = Result<Query<FdbFilter>, axum::extract::rejection::QueryRejection>;

fn filter(query: FdbQuery) -> Result<FdbFilter, No> {
    match query {
        Ok(Query(filter)) => Ok(filter),
        Err(e) => Err(No::Bad(Refusal::new(e.body_text(), "filters are bridge, port, vlan and limit"))),
    }
}

fn json(body: &[u8]) -> Result<serde_json::Value, No> {
    let bad = |e| No::Bad(Refusal::new(format!("the body is not JSON: {e}"), "send one JSON object"));
    serde_json::from_slice(body).map_err(bad)
}

impl IntoResponse for No {
    fn into_response(self) -> Response {
        let (status, refusal) = match self {
            No::Bad(refusal) => (StatusCode::BAD_REQUEST, refusal),
            No::Missing(refusal) => (StatusCode::NOT_FOUND, refusal),
            No::Failed(refusal) => (StatusCode::INTERNAL_SERVER_ERROR, refusal),
        };
        (status, Json(refusal)).into_response()
    }
}
