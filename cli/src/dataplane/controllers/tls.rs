//! TLS of OpenFlow connections. Both sides must have certificates that the configured authority has signed.
//!
//! The name of a controller is not verified, as in Open vSwitch: certificates of `ovs-pki` name a controller instead of
//! its host. The authority must therefore sign controllers of this network only. Each connection reads the files
//! again if they have changed, so that a renewed certificate needs no restart.

use crate::settings::openflow::TlsSettings;
use crate::tls::{FileError, Fresh, certificates, private_key, provider, roots};
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

/// Why there is no TLS connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum TlsError {
    /// The bridge has no files.
    #[error("the bridge has no `tls`")]
    Unconfigured,
    /// The files cannot be used.
    #[error(transparent)]
    Files(#[from] FileError),
    /// The handshake failed.
    #[error("TLS: {0}")]
    Handshake(#[from] io::Error),
}

/// Settings of both directions.
#[derive(Clone)]
pub(super) struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// The files of a bridge, and what they contained when they were read last.
pub(super) struct TlsFiles {
    files: TlsSettings,
    read: Fresh<Tls>,
}

impl TlsFiles {
    pub(super) fn new(files: TlsSettings) -> Self {
        let read = Fresh::new(files.files().map(|(_, path)| path.to_owned()).to_vec());
        Self { files, read }
    }

    /// The settings in the files as they are now.
    pub(super) fn current(&self) -> Result<Tls, TlsError> {
        self.read.current(|| Ok(Tls::load(&self.files)?))
    }
}

impl Tls {
    /// Reads the files.
    pub(super) fn load(files: &TlsSettings) -> Result<Self, FileError> {
        let (chain, key) = (certificates(&files.certificate)?, private_key(&files.private_key)?);
        let (roots, provider) = (roots(&files.ca_certificate)?, provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone()).build()?;
        let client = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyName(verifier)))
            .with_client_auth_cert(chain.clone(), key.clone_key())?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build()?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }

    /// Connects as a client to the controller `host`.
    pub(super) async fn connect(
        self,
        host: &str,
        stream: TcpStream,
    ) -> Result<client::TlsStream<TcpStream>, TlsError> {
        // The name is not verified, but some servers choose a certificate by it.
        let without_scope = host.split('%').next().unwrap_or(host);
        let name = ServerName::try_from(without_scope.to_owned());
        let name = name.or_else(|_| ServerName::try_from("controller"));
        let name = name.map_err(|_| TlsError::Handshake(io::ErrorKind::InvalidInput.into()))?;
        Ok(TlsConnector::from(self.client).connect(name, stream).await?)
    }

    /// Accepts a controller.
    pub(super) async fn accept(self, stream: TcpStream) -> Result<server::TlsStream<TcpStream>, TlsError> {
        Ok(TlsAcceptor::from(self.server).accept(stream).await?)
    }
}

/// Verifies the certificate of a controller except for its name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The signatures of the chain are verified before the name.
        match self.0.verify_server_cert(end_entity, intermediates, name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
