//! Connections of a client: to a Unix socket, or to `https://HOST:PORT` with TLS.

use crate::tls::{self, FileError};
use hyper::header::{AUTHORIZATION, HeaderValue};
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::{InvalidDnsNameError, ServerName};

/// Beginning of an address in place of a path.
pub(crate) const SCHEME: &str = "https://";

/// Files of a client for TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// Certificates that the one of the switch is signed with.
    pub(crate) ca: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) token_file: Option<PathBuf>,
}

/// Why a client cannot use TLS.
#[derive(Debug, thiserror::Error)]
pub(super) enum CredentialsError {
    #[error("the address is not https://HOST:PORT")]
    Address,
    #[error("the certificate of the switch cannot be verified without an authority")]
    NoAuthority,
    #[error("a certificate needs its key, and a key its certificate")]
    Half,
    #[error(transparent)]
    Files(#[from] FileError),
    #[error(transparent)]
    Tls(#[from] tokio_rustls::rustls::Error),
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Token(PathBuf, io::Error),
    #[error("{path}: it has no token", path = .0.display())]
    NoToken(PathBuf),
    #[error(transparent)]
    Name(#[from] InvalidDnsNameError),
}

impl CredentialsError {
    pub(super) const REMEDY: &str = "name files with --control-ca, and with --control-token-file or \
        --control-certificate and --control-key";
}

type Failure = Box<dyn Error + Send + Sync>;

/// A connected stream of bytes.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Whether a control socket is an address of TCP.
pub(super) fn is_remote(socket: &Path) -> bool {
    socket.to_str().is_some_and(|text| text.starts_with(SCHEME))
}

/// Connects to a control socket or an address.
pub(super) async fn connect(socket: &Path, credentials: &Credentials) -> Result<Box<dyn Stream>, Failure> {
    let address = socket.to_str().and_then(|text| text.strip_prefix(SCHEME));
    let Some(address) = address else { return Ok(Box::new(unix(socket).await?)) };
    let address = address.trim_end_matches('/');
    let (host, _) = address.rsplit_once(':').ok_or(CredentialsError::Address)?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host).map_err(CredentialsError::Name)?;
    let connector = TlsConnector::from(Arc::new(config(credentials)?));
    let stream = TcpStream::connect(address).await?;
    Ok(Box::new(connector.connect(name, stream).await?))
}

/// Connects; retries while the listen backlog is full.
async fn unix(socket: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(socket).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            other => return other,
        }
    }
}

fn config(credentials: &Credentials) -> Result<ClientConfig, CredentialsError> {
    let authority = credentials.ca.as_deref().ok_or(CredentialsError::NoAuthority)?;
    let config =
        ClientConfig::builder_with_provider(tls::provider()).with_safe_default_protocol_versions()?;
    let config = config.with_root_certificates(tls::roots(authority)?);
    Ok(match (&credentials.certificate, &credentials.key) {
        (Some(certificate), Some(key)) => {
            config.with_client_auth_cert(tls::certificates(certificate)?, tls::private_key(key)?)?
        }
        (None, None) => config.with_no_client_auth(),
        _ => return Err(CredentialsError::Half),
    })
}

/// Name and value of the header with the token of a request.
pub(super) fn header(
    credentials: &Credentials,
) -> Result<Option<(hyper::header::HeaderName, HeaderValue)>, CredentialsError> {
    let Some(path) = &credentials.token_file else { return Ok(None) };
    let text = std::fs::read_to_string(path).map_err(|error| CredentialsError::Token(path.clone(), error))?;
    let value = HeaderValue::from_str(&format!("Bearer {}", text.trim()));
    let value = value.ok().filter(|_| !text.trim().is_empty());
    let mut value = value.ok_or_else(|| CredentialsError::NoToken(path.clone()))?;
    value.set_sensitive(true);
    Ok(Some((AUTHORIZATION, value)))
}
