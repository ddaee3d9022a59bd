//! `api` in `[switch]`: the control API over TCP, with TLS only.

use super::reader::fields::Fields;
use super::reader::notes::{Findings, Section};
use super::reader::shape::Shape;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Address and files of the API over TCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RemoteSettings {
    pub(crate) address: SocketAddr,
    pub(crate) private_key: PathBuf,
    /// Certificate of the switch, followed by intermediate ones.
    pub(crate) certificate: PathBuf,
    /// Certificates that those of clients are signed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Tokens of clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
}

const EXAMPLE: &str = "write api = { address = \"192.0.2.1:9443\", certificate = \"/etc/linerate/api.crt\", \
    private_key = \"/etc/linerate/api.key\", token_file = \"/etc/linerate/api.tokens\" }";

impl RemoteSettings {
    /// Reads the table. Without `client_ca` and `token_file`, no client could be recognised.
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Option<Self> {
        fields.accepts("api", || Shape::Table);
        let place = fields.place("api");
        let node = fields.node("api")?;
        let mut inner = Fields::open_inner(node, place, fields.notes);
        let address = inner.address("address");
        let [private_key, certificate, client_ca, token_file] =
            ["private_key", "certificate", "client_ca", "token_file"]
                .map(|key| inner.text(key).map(PathBuf::from));
        inner.report_unknown();
        let (Some(address), Some(private_key), Some(certificate)) = (address, private_key, certificate)
        else {
            let reason = "`api` needs `address`, `certificate` and `private_key`";
            return fields.wrong("api", reason, EXAMPLE.to_owned());
        };
        if client_ca.is_none() && token_file.is_none() {
            let reason =
                "`api` has neither `client_ca` nor `token_file`, so every host could change the switch";
            let remedy = "add one of them, or both".to_owned();
            return fields.wrong("api", reason, remedy);
        }
        Some(Self { address, private_key, certificate, client_ca, token_file })
    }

    /// The files with their keys.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let optional = [("client_ca", &self.client_ca), ("token_file", &self.token_file)];
        let optional = optional.into_iter().filter_map(|(key, path)| Some((key, path.as_deref()?)));
        [("private_key", &*self.private_key), ("certificate", &*self.certificate)].into_iter().chain(optional)
    }

    /// Validates that the files can be read.
    pub(crate) fn validate(&self, notes: &mut Findings) {
        for (key, path) in self.files() {
            let error = match std::fs::File::open(path) {
                _ if !path.is_absolute() => "the path is not absolute".to_owned(),
                Ok(_) => continue,
                Err(error) => format!("it cannot be read: {error}"),
            };
            let reason = format!("`{key}` {}: {error}", path.display());
            notes.wrong((Section::Switch, key), reason, "name a file that the switch may read");
        }
    }
}
