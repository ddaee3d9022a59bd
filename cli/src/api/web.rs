//! The server of the web page: its files for everybody on this machine, and for sessions the requests of the control
//! API that only read.
//!
//! It is served by the server of the control API, with its deadlines and limits, on a separate thread. The listener's
//! address is a loopback address, because it uses no TLS. All answers have the headers of `web::guard`; requests with
//! another host, or caused by another site, are refused before anything else. `POST /session` exchanges the token for a
//! cookie; no other request has an effect.

use super::error::ApiError;
use super::routes::{self, no_method};
use super::server::{self, Server};
use super::service::ApiService;
use crate::web::files::{DOCUMENT, FILES, PageFile};
use crate::web::guard;
use crate::web::session::{Session, Sessions};
use crate::web::token::Token;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{Router, get};
use axum::{Extension, Json};
use console::Diagnostic;
use serde::Serialize;
use std::fmt::Display;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

type Open = State<Arc<Sessions>>;

/// The page at its address, before it is served.
pub(crate) struct Page {
    listener: TcpListener,
    sessions: Sessions,
    /// Where a browser opens it; with the token if it is not in a file. What follows `#` is not sent to servers, and is
    /// in no log of requests.
    pub(crate) url: String,
    /// The token, if it is not in a file.
    pub(crate) token: Option<String>,
}

/// Whether the configuration permits captures by the page.
#[derive(Clone, Copy, Debug)]
struct MayCapture(bool);

/// `GET /session`
#[derive(Serialize)]
struct SessionReport {
    signed_in: bool,
    /// Whether the configuration permits captures by the page.
    may_capture: bool,
}

impl Page {
    /// Listens at `address`. The token is that of `file`, or random.
    pub(crate) fn listen(address: SocketAddr, file: Option<&Path>) -> Result<Self, Diagnostic> {
        let listener = TcpListener::bind(address).map_err(|error| {
            let remedy = "choose another address with `web` in [switch] or --web";
            Diagnostic::failed(format!("address for the web page {address}"), error, remedy)
        })?;
        Self::over(listener, file, None)
    }

    /// The page at a listening socket. The token is that of `file`, or `token`, or random.
    pub(crate) fn over(
        listener: TcpListener,
        file: Option<&Path>,
        token: Option<&str>,
    ) -> Result<Self, Diagnostic> {
        let failed =
            |error: &dyn Display| Diagnostic::failed("web page", error, "name a file with `web_token_file`");
        let token = match (file, token.and_then(Token::parse)) {
            (Some(path), _) => Token::read(path).map_err(|error| error.of(path))?,
            (None, Some(token)) => token,
            (None, None) => Token::random().map_err(|error| failed(&error))?,
        };
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let secret = if file.is_none() { format!("#token={}", token.text()) } else { String::new() };
        let url = format!("http://{address}/{secret}");
        let sessions = Sessions::new(&token, address.port());
        Ok(Self { listener, sessions, url, token: file.is_none().then(|| token.text().to_owned()) })
    }

    pub(crate) fn listener(&self) -> &TcpListener {
        &self.listener
    }

    /// Serves the page of `service`.
    pub(crate) fn start(self, service: Arc<ApiService>) -> Result<Server, Diagnostic> {
        server::start("web", server::Role::Reads, self.listener, router(service, self.sessions))
    }
}

fn router(service: Arc<ApiService>, sessions: Sessions) -> Router {
    let (sessions, may_capture) = (Arc::new(sessions), MayCapture(service.topology().switch.web_capture));
    let data = routes::web_router(service).layer(from_fn_with_state(sessions.clone(), with_session));
    let session = get(show_session).post(open_session).delete(close_session);
    let files = FILES.iter().chain([&DOCUMENT]);
    let page = Router::new().route("/session", session).with_state(sessions);
    files
        .fold(page, |page, &file| page.route(file.path, get(move || async move { content(file) })))
        .merge(data)
        .fallback(no_page)
        .method_not_allowed_fallback(no_method)
        .layer(Extension(may_capture))
        .layer(from_fn(guarded))
}

fn content(file: PageFile) -> Response {
    ([(CONTENT_TYPE, file.media_type)], file.text).into_response()
}

async fn no_page() -> ApiError {
    let remedy = "open /, or use the control socket";
    ApiError::not_found("request", "there is no such path at the address of the web page", remedy)
}

/// Refuses requests of other sites, and adds the headers to every answer.
async fn guarded(request: Request, next: Next) -> Response {
    let mut response = if is_foreign(&request) {
        let remedy = "open the page at 127.0.0.1, [::1] or localhost";
        let body = Diagnostic::bad("request", "its host or its site is not that of the page", remedy);
        ApiError::Forbidden(body).into_response()
    } else {
        next.run(request).await
    };
    for (name, value) in guard::HEADERS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

/// Whether the request names another host, or a browser says that another site caused it. A user who follows a link to
/// the page is not refused: the document has no data.
fn is_foreign(request: &Request) -> bool {
    let headers = request.headers();
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    let is_local = host.is_some_and(guard::is_local_host) && hosts.next().is_none();
    let site = headers.get("sec-fetch-site").map(|site| site.to_str().unwrap_or_default());
    let is_document = request.uri().path() == DOCUMENT.path;
    request.uri().authority().is_some() || !is_local || !(is_document || guard::is_own_site(site))
}

/// Answers 401 without a valid cookie, and prolongs its session.
async fn with_session(State(sessions): Open, request: Request, next: Next) -> Response {
    let Some(session) = session(&sessions, request.headers()) else { return unauthorized() };
    let mut response = next.run(request).await;
    if let Some(renewal) = session.renewal {
        add_cookie(&mut response, &renewal);
    }
    response
}

fn session(sessions: &Sessions, headers: &HeaderMap) -> Option<Session> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|cookie| cookie.to_str().ok());
    sessions.find(cookies, SystemTime::now())
}

fn unauthorized() -> Response {
    let remedy = "open the URL that the switch printed at its start, or enter the token of its file";
    let body = Diagnostic::bad("request", "the token is missing, wrong or no longer valid", remedy);
    (StatusCode::UNAUTHORIZED, Json(body)).into_response()
}

/// Whether the request has a session. The status is always 200, so that browsers log no error.
async fn show_session(
    State(sessions): Open,
    Extension(MayCapture(may_capture)): Extension<MayCapture>,
    headers: HeaderMap,
) -> Json<SessionReport> {
    Json(SessionReport { signed_in: session(&sessions, &headers).is_some(), may_capture })
}

/// Exchanges the token, as `Authorization: Bearer TOKEN`, for a cookie. Other sites cannot send this header.
async fn open_session(State(sessions): Open, headers: HeaderMap) -> Response {
    let token = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let cookie = token.and_then(|token| sessions.open(token, SystemTime::now()));
    cookie.map_or_else(unauthorized, |cookie| with_cookie(&cookie))
}

async fn close_session(State(sessions): Open) -> Response {
    with_cookie(&sessions.close())
}

fn with_cookie(cookie: &str) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    add_cookie(&mut response, cookie);
    response
}

fn add_cookie(response: &mut Response, cookie: &str) {
    // A cookie has characters of headers only.
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(SET_COOKIE, value);
    }
}
