//! Files in PEM for TLS: certificates, keys and tokens that are read again once they have changed, so that a renewed
//! one needs no restart.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::rustls::server::VerifierBuilderError;
use tokio_rustls::rustls::{self, RootCertStore};

/// Why files cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// A file cannot be read.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    File(PathBuf, pem::Error),
    /// A file has no certificate.
    #[error("{path}: it contains no certificate", path = .0.display())]
    Empty(PathBuf),
    /// The key does not fit the certificate, or a certificate is not valid.
    #[error(transparent)]
    Invalid(#[from] rustls::Error),
    /// The certificates of the authority cannot be used.
    #[error(transparent)]
    Authority(#[from] VerifierBuilderError),
}

/// The library that encrypts.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Reads certificates; at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| FileError::File(path.to_owned(), error))?;
    if found.is_empty() { Err(FileError::Empty(path.to_owned())) } else { Ok(found) }
}

/// Reads a private key.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| FileError::File(path.to_owned(), error))
}

/// Reads the certificates of an authority.
pub(crate) fn roots(path: &Path) -> Result<Arc<RootCertStore>, FileError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate)?;
    }
    Ok(Arc::new(roots))
}

/// Device, number, size, and time of the last change of a file: they differ if it was written or replaced.
type Stamp = (u64, u64, u64, i64, i64);

fn stamp(path: &Path) -> io::Result<Stamp> {
    let found = path.metadata()?;
    Ok((found.dev(), found.ino(), found.size(), found.ctime(), found.ctime_nsec()))
}

/// What files contained when they were read last.
#[derive(Debug)]
pub(crate) struct Fresh<T> {
    paths: Vec<PathBuf>,
    read: Mutex<Option<(Vec<Stamp>, T)>>,
}

impl<T: Clone> Fresh<T> {
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, read: Mutex::default() }
    }

    /// The content of the files as they are now. `load` reads them if one has changed.
    pub(crate) fn current<E: From<FileError>>(&self, load: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let stamps = self
            .paths
            .iter()
            .map(|path| stamp(path).map_err(|error| FileError::File(path.clone(), pem::Error::Io(error))));
        let stamps = stamps.collect::<Result<Vec<_>, _>>()?;
        // A poisoned lock is valid: the content changes in one step.
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, content)) = read.as_ref().filter(|(before, _)| *before == stamps) {
            return Ok(content.clone());
        }
        let content = load()?;
        *read = Some((stamps, content.clone()));
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_are_read_again_only_after_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "one").unwrap();
        let files = Fresh::new(vec![path.clone()]);
        let mut reads = 0;
        let mut current = || {
            let load = || -> Result<String, FileError> {
                reads += 1;
                Ok(fs::read_to_string(&path).unwrap())
            };
            files.current(load).map(|text| (text, reads))
        };
        assert_eq!(current().unwrap(), ("one".to_owned(), 1));
        assert_eq!(current().unwrap(), ("one".to_owned(), 1));
        fs::write(&path, "three").unwrap();
        assert_eq!(current().unwrap(), ("three".to_owned(), 2));
        fs::remove_file(&path).unwrap();
        assert!(matches!(current(), Err(FileError::File(..))));
    }

    #[test]
    fn a_file_without_certificate_is_named() {
        let error = certificates(Path::new("/dev/null")).unwrap_err().to_string();
        assert_eq!(error, "/dev/null: it contains no certificate");
    }
}
