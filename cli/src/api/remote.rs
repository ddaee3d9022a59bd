//! The control API over TCP: connections with TLS, and requests of clients that a certificate or a token identifies.
//!
//! The handshake has the deadline of a request, and a connection without it counts as one of the server. Clients
//! whose token is for reading have the requests of the socket for reading.

use super::peer::Peer;
use super::routes;
use super::server::{self, Accept, Gate, Listener, Role, Server};
use super::service::ApiService;
use super::tokens::{self, Access, Tokens};
use crate::settings::remote::RemoteSettings;
use crate::tls::{self, FileError, Fresh};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, HeaderMap, WWW_AUTHENTICATE};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use console::Diagnostic;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::server::TlsStream;
use x509_cert::der::Decode;

/// The API at its address, before it is served.
pub(crate) struct Remote {
    listener: TcpListener,
    files: Files,
    tokens: Option<Tokens>,
}

/// The files of TLS, read again when they have changed.
struct Files {
    settings: RemoteSettings,
    read: Fresh<Arc<ServerConfig>>,
}

impl Files {
    fn new(settings: &RemoteSettings) -> Self {
        let paths = settings.files().filter(|(key, _)| *key != "token_file");
        let read = Fresh::new(paths.map(|(_, path)| path.to_owned()).collect());
        Self { settings: settings.clone(), read }
    }

    fn current(&self) -> Result<Arc<ServerConfig>, FileError> {
        self.read.current(|| load(&self.settings))
    }
}

/// Reads the files. A client with a certificate of the authority needs no token; without tokens, all need one.
fn load(settings: &RemoteSettings) -> Result<Arc<ServerConfig>, FileError> {
    let chain = tls::certificates(&settings.certificate)?;
    let key = tls::private_key(&settings.private_key)?;
    let config =
        ServerConfig::builder_with_provider(tls::provider()).with_safe_default_protocol_versions()?;
    let config = if let Some(authority) = &settings.client_ca {
        let verifier = WebPkiClientVerifier::builder_with_provider(tls::roots(authority)?, tls::provider());
        let has_tokens = settings.token_file.is_some();
        let verifier = if has_tokens { verifier.allow_unauthenticated() } else { verifier };
        config.with_client_cert_verifier(verifier.build()?)
    } else {
        config.with_no_client_auth()
    };
    Ok(Arc::new(config.with_single_cert(chain, key)?))
}

impl Remote {
    /// Listens at the address of `settings`, after all files were read.
    pub(crate) fn listen(settings: &RemoteSettings) -> Result<Self, Diagnostic> {
        Self::with(settings, || {
            TcpListener::bind(settings.address).map_err(|error| {
                let place = format!("address for the API {}", settings.address);
                Diagnostic::failed(place, error, "choose another `address` in `api` of [switch]")
            })
        })
    }

    /// The API at a socket that listens at the address of `settings`.
    pub(crate) fn over(listener: TcpListener, settings: &RemoteSettings) -> Result<Self, Diagnostic> {
        Self::with(settings, || Ok(listener))
    }

    pub(crate) fn listener(&self) -> &TcpListener {
        &self.listener
    }

    fn with(
        settings: &RemoteSettings,
        listen: impl FnOnce() -> Result<TcpListener, Diagnostic>,
    ) -> Result<Self, Diagnostic> {
        let files = Files::new(settings);
        files.current().map_err(|error| {
            Diagnostic::bad("api", error, "name files in PEM whose key belongs to the certificate")
        })?;
        let tokens = settings.token_file.as_deref().map(Tokens::open).transpose();
        let tokens = tokens.map_err(|error| tokens::failed(&error))?;
        Ok(Self { listener: listen()?, files, tokens })
    }

    /// Serves the API of `service`.
    pub(crate) fn start(self, service: Arc<ApiService>) -> Result<Server, Diagnostic> {
        let Self { listener, files, tokens } = self;
        let router = routes::router(service).layer(from_fn(limited));
        let gate: Gate = Box::new(move |headers, peer| identify(tokens.as_ref(), headers, peer));
        server::start_gated("remote-api", Role::Changes, Encrypted { listener, files }, (router, gate))
    }
}

/// A listener whose connections begin with a handshake.
struct Encrypted<L> {
    listener: L,
    files: Files,
}

impl Listener for Encrypted<TcpListener> {
    type Open = Encrypted<tokio::net::TcpListener>;

    fn open(self) -> io::Result<Self::Open> {
        Ok(Encrypted { listener: self.listener.open()?, files: self.files })
    }
}

impl Accept for Encrypted<tokio::net::TcpListener> {
    type Stream = TlsStream<TcpStream>;
    type Accepted = (TcpStream, SocketAddr, Arc<ServerConfig>);

    async fn accept(&self) -> io::Result<Self::Accepted> {
        let (stream, address) = self.listener.accept().await?;
        let config = self.files.current().map_err(|error| {
            tracing::warn!(%error, "the API over TCP cannot accept clients");
            io::Error::other(error)
        })?;
        Ok((stream, address, config))
    }

    async fn greet((stream, address, config): Self::Accepted) -> io::Result<(Self::Stream, Peer)> {
        let stream = TlsAcceptor::from(config).accept(stream).await?;
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let peer = match certificate {
            Some(certificate) => Peer::certified(&subject(certificate), address),
            None => Peer::remote(address.to_string()),
        };
        Ok((stream, peer))
    }
}

/// Subject of a certificate whose signature was verified.
fn subject(certificate: &CertificateDer<'_>) -> String {
    let parsed = x509_cert::Certificate::from_der(certificate.as_ref());
    let subject = parsed.map(|parsed| parsed.tbs_certificate.subject.to_string());
    // A name must not control the terminal that shows the log.
    subject.map_or_else(|_| "unknown".to_owned(), |subject| subject.escape_default().to_string())
}

/// Identifies the client of a request by its certificate or its token.
fn identify(tokens: Option<&Tokens>, headers: &HeaderMap, peer: &Peer) -> Result<Peer, Response> {
    if peer.is_certified {
        return Ok(peer.clone());
    }
    let client = bearer(headers).and_then(|token| tokens?.find(token));
    client.map(|(name, access)| peer.named(&name, access == Access::Read)).ok_or_else(unauthorized)
}

/// Refuses changes by clients that may only read.
async fn limited(Extension(peer): Extension<Peer>, request: Request, next: Next) -> Response {
    if peer.is_reader { routes::read_only(request, next).await } else { next.run(request).await }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

fn unauthorized() -> Response {
    let remedy = "name a token with --control-token-file, or a certificate with --control-certificate";
    let body =
        Diagnostic::bad("request", "the client has neither a valid certificate nor a valid token", remedy);
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], Json(body)).into_response()
}
