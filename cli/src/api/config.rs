//! The configuration of a running switch in the control API: it is shown, compared with a file, and replaced by one.
//!
//! A new configuration is applied whole or not at all. Sections that a running switch cannot change refuse it before
//! anything is done; if a step fails, `steps` changes the switch back. A port whose settings do not change is not
//! touched.

pub(super) mod edits;
mod steps;

use super::answer::{Answer, Service, filter, on_own_thread};
use super::error::ApiError;
use super::peer::Peer;
use super::places::Places;
use super::service::ApiService;
use super::source::Source;
use crate::dataplane::interface::DataPlaneError;
use crate::settings::changes::{Change, Changes};
use crate::settings::config;
use crate::settings::document::{self, DocumentError};
use crate::settings::kinds::PortKind;
use crate::settings::topology::Topology;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::{Extension, Json};
use console::Diagnostic;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use utoipa::{IntoParams, ToSchema};

/// `GET /v1/config`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Configuration {
    /// The file that the switch was started from, or that was applied last: an absolute path.
    #[schema(value_type = String)]
    pub(crate) file: PathBuf,
    /// A file that describes the running switch: the text of `file` with the changes since.
    pub(crate) text: String,
    /// The text of `file` when it was read.
    pub(crate) loaded: String,
}

/// Parameters of `POST /v1/config`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ApplyQuery {
    /// Absolute path of the file, for errors and for `GET /v1/config`: that of the switch, unless the client is root or
    /// the user of the switch, or `dry_run` is set.
    #[param(value_type = String)]
    file: PathBuf,
    /// Whether nothing is changed, and the differences are reported only.
    #[serde(default)]
    dry_run: bool,
    /// Whether the running configuration was saved as this file: nothing is changed, and later differences are those
    /// from it.
    #[serde(default)]
    saved: bool,
}

/// Result of `POST /v1/config`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Applied {
    /// What differed.
    pub(crate) changes: Vec<Change>,
    /// Whether the switch has the new configuration now.
    pub(crate) done: bool,
    /// Ports that were removed although a hung worker may still use their memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) held: Vec<Diagnostic>,
}

impl ApiService {
    /// `GET /v1/config`
    pub(crate) fn configuration(&self) -> Result<Configuration, ApiError> {
        self.configuration_of(&self.topology())
    }

    /// The configuration of a switch that runs `topology`.
    pub(super) fn configuration_of(&self, topology: &Topology) -> Result<Configuration, ApiError> {
        let source = self.source();
        let Some(source) = &*source else { return Err(no_file()) };
        let text = document::update(&source.text, &source.topology, topology).map_err(not_expressed)?;
        Ok(Configuration { file: source.file.clone(), text, loaded: source.text.clone() })
    }

    /// [`ApiService::configuration_of`] for a process that has the workers beside it. If no text expresses them, the
    /// result has those of the file.
    pub(super) fn configuration_beside_workers(
        &self,
        topology: &Topology,
    ) -> Result<Configuration, ApiError> {
        let file = self.source().as_ref().map(|source| source.topology.clone());
        self.configuration_of(topology).or_else(|error| {
            let Topology { workers, placement, .. } = file.ok_or(error)?;
            self.configuration_of(&Topology { workers, placement, ..topology.clone() })
        })
    }

    /// Reads the file of the switch again, and applies it.
    pub(crate) fn reload(&self) -> Result<Applied, ApiError> {
        let file = self.source().as_ref().map(|source| source.file.clone()).ok_or_else(no_file)?;
        let text = config::text(&file).map_err(ApiError::Invalid)?;
        self.apply((&file, &text), false, &Peer::own())
    }

    /// `POST /v1/config`
    pub(crate) fn apply(
        &self,
        (file, text): (&Path, &str),
        dry_run: bool,
        peer: &Peer,
    ) -> Result<Applied, ApiError> {
        if !dry_run {
            self.admit_source(file, peer)?;
        }
        let places = self.places(peer);
        let source = self.read(file, text, places.as_ref())?;
        let topology = source.topology.clone();
        let wanted = Wanted { topology: &topology, origin: Origin::File(file) };
        self.may_add_all(&wanted, places.as_ref())?;
        self.replace(&wanted, dry_run, || *self.source() = Some(source))
    }

    /// Replaces the running configuration by one whose new ports were admitted. `done` follows before another change.
    fn replace(&self, wanted: &Wanted<'_>, dry_run: bool, done: impl FnOnce()) -> Result<Applied, ApiError> {
        let new = Changes::between(&self.topology(), wanted.topology);
        let mut loaded = steps::load(&new, |port| self.load(port))?;
        let mut running = self.change()?;
        wanted.is_current(&running)?;
        let changes = Changes::between(&running, wanted.topology);
        wanted.is_permitted(&changes)?;
        wanted.has_free_names(&running)?;
        let report = changes.report();
        if dry_run {
            return Ok(Applied { changes: report, done: false, held: Vec::new() });
        }
        let held = steps::apply(self.data_plane(), &mut running, wanted.topology, &mut |port| {
            // A port of before, which is restored, has the same name and its own recording.
            let found = loaded.iter().position(|(of, _)| of == port);
            found.map_or_else(|| self.load(port), |at| Ok(loaded.swap_remove(at).1))
        })?;
        done();
        Ok(Applied { changes: report, done: true, held })
    }

    /// Refuses a client without the rights of the switch that names another file than that of the switch: a reload
    /// applies it with all rights.
    fn admit_source(&self, file: &Path, peer: &Peer) -> Result<(), ApiError> {
        let own = self.source().as_ref().map(|source| source.file.clone());
        if peer.is_trusted || own.as_deref() == Some(file) {
            return Ok(());
        }
        let own = own.map_or_else(|| "it has none".to_owned(), |own| own.display().to_string());
        let reason = format!("`file` {} is not the configuration file of the switch: {own}", file.display());
        let remedy = "change that file, or apply this one as root or as the user of the switch";
        Err(ApiError::Forbidden(Diagnostic::bad("request", reason, remedy)))
    }

    /// Refuses new ports that the client may not add, or that the process cannot open.
    fn may_add_all(&self, wanted: &Wanted<'_>, places: Option<&Places>) -> Result<(), ApiError> {
        let changes = Changes::between(&self.topology(), wanted.topology);
        let new = changes.ports.iter().filter_map(|edit| edit.new.as_ref());
        wanted.origin.forbid(new.filter_map(|port| self.may_add(port, places).err()))
    }

    /// `POST /v1/config` of a file that the running configuration was saved as. Others may have changed the switch
    /// meanwhile, so nothing is applied. Its sections that only a start reads are those of the running switch: a
    /// successor is started with them.
    fn saved(&self, file: &Path, text: &str, peer: &Peer) -> Result<Applied, ApiError> {
        self.admit_source(file, peer)?;
        let source = self.read(file, text, self.places(peer).as_ref())?;
        let wanted = Wanted { topology: &source.topology, origin: Origin::File(file) };
        wanted.is_permitted(&Changes::between(&self.topology(), &source.topology))?;
        *self.source() = Some(source);
        Ok(Applied { changes: Vec::new(), done: true, held: Vec::new() })
    }

    /// Reads a file, and the files that its new ports play.
    fn read(&self, file: &Path, text: &str, places: Option<&Places>) -> Result<Source, ApiError> {
        let overrides = self.source().as_ref().map(|source| source.overrides.clone()).unwrap_or_default();
        let running = self.topology().ports.clone();
        if let Some(places) = places {
            let new = config::ports(text).into_iter().filter(|port| !running.contains(port));
            Origin::File(file).forbid(new.filter_map(|port| places.admit(&port).err()))?;
        }
        let topology = overrides.parse(text, &running);
        let topology = topology.map_err(|errors| ApiError::Invalid(config::in_file(file, errors)))?;
        Ok(Source { file: file.to_owned(), text: text.to_owned(), overrides, topology })
    }
}

fn no_file() -> ApiError {
    ApiError::not_found("configuration", "the switch was not started from a file", "apply a file first")
}

/// The text of the file cannot have a change.
fn not_expressed(error: DocumentError) -> ApiError {
    let remedy = "change the file by hand; see `linerate apply --diff FILE`";
    ApiError::Failed(Diagnostic::failed("configuration", error, remedy))
}

/// A configuration that is to run.
struct Wanted<'a> {
    topology: &'a Topology,
    origin: Origin<'a>,
}

/// What a configuration was made of.
enum Origin<'a> {
    /// A file, which errors name.
    File(&'a Path),
    /// The running configuration, which must not have changed since.
    Running(&'a Topology),
}

impl Origin<'_> {
    /// Errors as one.
    fn all(&self, errors: Vec<Diagnostic>) -> Diagnostic {
        match self {
            Self::File(file) => config::in_file(file, errors),
            Self::Running(_) => Diagnostic::all(errors),
        }
    }

    /// The refusals of ports as one.
    fn forbid(&self, refused: impl Iterator<Item = ApiError>) -> Result<(), ApiError> {
        let refused: Vec<_> = refused.map(ApiError::into_diagnostic).collect();
        if refused.is_empty() { Ok(()) } else { Err(ApiError::Forbidden(self.all(refused))) }
    }
}

impl Wanted<'_> {
    /// Refuses to take back what another request has changed meanwhile.
    fn is_current(&self, running: &Topology) -> Result<(), ApiError> {
        match self.origin {
            Origin::Running(since) if !Changes::between(since, running).is_empty() => {}
            _ => return Ok(()),
        }
        let reason = "another request has changed the switch meanwhile";
        Err(ApiError::Conflict(Diagnostic::bad("configuration", reason, "try again")))
    }

    /// Refuses changes of sections that only a start reads.
    fn is_permitted(&self, changes: &Changes) -> Result<(), ApiError> {
        let remedy = match self.origin {
            Origin::File(_) => "leave it as it is, or restart the switch with this file",
            Origin::Running(_) => "change the configuration file, and restart the switch",
        };
        let refused = changes.fixed().into_iter();
        let refused: Vec<_> = refused.map(|(place, reason)| Diagnostic::bad(place, reason, remedy)).collect();
        if refused.is_empty() { Ok(()) } else { Err(ApiError::Invalid(self.origin.all(refused))) }
    }

    /// Refuses names that ports of applications have.
    fn has_free_names(&self, running: &Topology) -> Result<(), ApiError> {
        let granted = running.ports.iter().filter(|port| matches!(port.kind, PortKind::Granted(_)));
        let taken = |name: &str| {
            let (ports, bonds) = (self.topology.ports.iter(), self.topology.bonds.iter());
            ports.map(|port| &port.name).chain(bonds.map(|bond| &bond.name)).any(|own| own == name)
        };
        let bad = |name: &String| {
            let reason = "a port of an application has this name";
            Diagnostic::bad(format!("port \"{name}\""), reason, "choose another name, or remove that port")
        };
        let taken: Vec<_> = granted.filter(|port| taken(&port.name)).map(|port| bad(&port.name)).collect();
        if taken.is_empty() { Ok(()) } else { Err(ApiError::Conflict(self.origin.all(taken))) }
    }
}

/// A step failed.
fn failed(error: DataPlaneError, not_restored: Vec<Diagnostic>) -> ApiError {
    let mut error = error.into_diagnostic();
    let restored =
        if not_restored.is_empty() { "the configuration of before runs again" } else { "see below" };
    error.reason = format!("{}; {restored}", error.reason);
    error.more = error.more.into_iter().chain(not_restored).collect();
    ApiError::Failed(error)
}

/// The running configuration as a file
#[utoipa::path(get, path = "/v1/config", responses(
    (status = 200, description = "The text of the file with the changes since", body = Configuration),
    ApiError,
))]
pub(super) async fn show_config(State(service): Service) -> Answer<Configuration> {
    service.configuration().map(Json)
}

/// Applies a configuration file
///
/// The body is the text of the file. Ports that do not change are not touched. All or nothing: if a port cannot be
/// added, the switch is changed back.
#[utoipa::path(post, path = "/v1/config", params(ApplyQuery), request_body(content = String, content_type = "text/plain"),
    responses(
        (status = 200, description = "The differences", body = Applied),
        ApiError,
    )
)]
pub(super) async fn apply_config(
    State(service): Service,
    Extension(peer): Extension<Peer>,
    query: Result<Query<ApplyQuery>, QueryRejection>,
    body: Bytes,
) -> Answer<Applied> {
    let query = filter(query, "file, dry_run and saved")?;
    let applied = on_own_thread(move || {
        let text = std::str::from_utf8(&body)
            .map_err(|_| ApiError::invalid("request", "the body is not text in UTF-8", "send a TOML file"))?;
        if query.saved {
            return service.saved(&query.file, text, &peer);
        }
        service.apply((&query.file, text), query.dry_run, &peer)
    });
    applied.await.map(Json)
}

#[cfg(test)]
mod tests;
