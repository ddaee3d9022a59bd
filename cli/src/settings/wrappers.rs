//! `capture`, `trace`, `fault`, `tx_coalesce`, `policer` and `queues`: wrappers for ports of any kind.

mod fault;
mod policer;
pub(crate) mod queues;
pub(crate) mod rate;

use crate::settings::kinds::claim::Claim;
use crate::settings::kinds::kind::OpenError;
use crate::settings::model::ModelKind;
use crate::settings::reader::fields::Fields;
use crate::settings::reader::files::output;
use crate::settings::reader::node::Value;
use crate::settings::reader::shape::Shape;
use crate::settings::reader::validation::Validation;
use ::port::pcap::Output;
use ::port::wrap::{self as port_kind, Directions};
use ::port::{PortControl, PortFault, Remedy};
use console::Span;
use fault::Fault;
use policer::Policer;
use queues::Queues;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A function that wraps a port of this name.
type WrapPort = fn(
    Box<dyn PortControl>,
    &str,
    &port_kind::Wrappers,
) -> Result<Box<dyn PortControl>, port_kind::WrapError>;

/// At least an Ethernet header, at most a whole frame.
const SNAP: RangeInclusive<i128> = 14..=65_550;
/// Frames sent together; the default is the burst size of DPDK.
const COALESCED: RangeInclusive<i128> = 1..=256;
const DPDK_BURST: u16 = 32;
/// Maximum wait of frames for others.
const WAIT: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(1);

/// Affected packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    /// All.
    #[default]
    Both,
    /// Packets that enter the switch through the port.
    In,
    /// Packets that leave the switch through the port.
    Out,
}

/// `capture = "x.pcapng"` or `capture = { file = "x.pcapng", snap = 128 }`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Capture {
    file: PathBuf,
    /// Maximum bytes stored per packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snap: Option<u32>,
    #[serde(default)]
    direction: Direction,
    #[serde(default)]
    overwrite: bool,
}

/// `trace = "x.log"` or `trace = { file = "x.log", direction = "in" }`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trace {
    file: PathBuf,
    #[serde(default)]
    direction: Direction,
    #[serde(default)]
    overwrite: bool,
}

/// `tx_coalesce = "immediate"`, or `tx_coalesce = { frames = 32, delay = "20us" }`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TxCoalesce {
    frames: u16,
    /// Maximum wait of the first frame for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delay: Option<Span>,
}

/// Wrappers of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wrappers {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    capture: Option<Capture>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<Trace>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fault: Option<Fault>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tx_coalesce: Option<TxCoalesce>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policer: Option<Policer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queues: Option<Queues>,
}

/// The queues of a port cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("the queues of the port cannot be created: {0}")]
struct ShaperError(PortFault);

impl Remedy for ShaperError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("close something, or raise the limit of open files".into())
    }
}

impl Wrappers {
    /// Reads all keys.
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Self {
        Self {
            capture: read_capture(fields),
            trace: read_trace(fields),
            fault: fault::read(fields),
            tx_coalesce: read_tx_coalesce(fields),
            policer: policer::read(fields),
            queues: queues::read(fields),
        }
    }

    /// Checks that the files can be created and that `fault` configures at least one fault.
    pub(crate) fn validate(&self, validation: &mut Validation<'_>, model: ModelKind, workers: usize) {
        for (key, file, overwrite) in self.files() {
            if !validation.is_spoiled(key) {
                output(validation, key, file, overwrite);
            }
        }
        let nothing = self.fault.as_ref().is_some_and(Fault::does_nothing);
        if nothing && !validation.is_spoiled("fault") {
            let remedy = "add a fault such as drop = 0.01, or remove `fault`";
            validation.wrong("fault", "`fault` contains no fault", remedy);
        }
        self.keeps_order(validation, model, workers);
    }

    /// Each worker holds packets back separately, so the packets of one flow must not be sent by several workers.
    pub(crate) fn keeps_order(&self, validation: &mut Validation<'_>, model: ModelKind, workers: usize) {
        let keeps = self.tx_coalesce.is_some_and(|tx_coalesce| tx_coalesce.frames > 1);
        if keeps && model == ModelKind::Stealing && workers > 1 && !validation.is_spoiled("tx_coalesce") {
            let reason = "`tx_coalesce` delays packets at each worker, and with work stealing \
                          the packets of a flow would be reordered";
            let remedy =
                "write tx_coalesce = \"immediate\", or choose model = \"run-to-completion\" in [worker]";
            validation.wrong("tx_coalesce", reason, remedy);
        }
    }

    /// Key of the first wrapper; `None` if there is none.
    pub(crate) fn first_key(&self) -> Option<&'static str> {
        let keys = [
            ("capture", self.capture.is_some()),
            ("trace", self.trace.is_some()),
            ("fault", self.fault.is_some()),
            ("tx_coalesce", self.tx_coalesce.is_some()),
            ("policer", self.policer.is_some()),
            ("queues", self.queues.is_some()),
        ];
        keys.into_iter().find(|(_, is_set)| *is_set).map(|(key, _)| key)
    }

    /// The files that are written, each with its key and whether it may be replaced.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&'static str, &Path, bool)> {
        let capture = self.capture.iter().map(|own| ("capture", &*own.file, own.overwrite));
        capture.chain(self.trace.iter().map(|own| ("trace", &*own.file, own.overwrite)))
    }

    /// The files are exclusive to this port.
    pub(crate) fn claims(&self) -> impl Iterator<Item = Claim<'_>> {
        self.files().map(|(key, file, _)| Claim::file(key, file))
    }

    /// Wraps a port named `name`.
    pub(crate) fn around(
        &self,
        port: Box<dyn PortControl>,
        name: &str,
    ) -> Result<Box<dyn PortControl>, OpenError> {
        self.around_by(port, name, port_kind::wrap)
    }

    /// Wraps a port named `name` that continues the one of another process, with its files.
    pub(crate) fn around_successor(
        &self,
        port: Box<dyn PortControl>,
        name: &str,
    ) -> Result<Box<dyn PortControl>, OpenError> {
        self.around_by(port, name, port_kind::wrap_successor)
    }

    fn around_by(
        &self,
        port: Box<dyn PortControl>,
        name: &str,
        wrap: WrapPort,
    ) -> Result<Box<dyn PortControl>, OpenError> {
        let output = |file: &Path, overwrite| Output { path: file.to_owned(), overwrite };
        let capture = self.capture.as_ref().map(|own| port_kind::Capture {
            output: output(&own.file, own.overwrite),
            snap: own.snap,
            directions: own.direction.into(),
        });
        let trace = self.trace.as_ref().map(|own| port_kind::Trace {
            output: output(&own.file, own.overwrite),
            directions: own.direction.into(),
        });
        let tx_coalesce = self
            .tx_coalesce
            .map(|own| port_kind::TxCoalesce { frames: own.frames, delay: own.delay.map(|delay| delay.0) });
        let fault = self.fault.as_ref().map(Fault::faults);
        let wrappers = port_kind::Wrappers { capture, trace, fault, tx_coalesce };
        let port = wrap(port, name, &wrappers).map_err(|error| OpenError::refused(name, &error))?;
        let shaper = self.queues.as_ref().map(Queues::shaper).transpose();
        let shaper = shaper.map_err(|fault| OpenError::refused(name, &ShaperError(fault)))?;
        Ok(qos::wrap(port, self.policer.as_ref().map(Policer::policer), shaper))
    }
}

fn read_capture(fields: &mut Fields<'_, '_>) -> Option<Capture> {
    inner(fields, "capture", "a file's path, or { file = \"/tmp/x.pcapng\", snap = 128 }", |inner, file| {
        Capture {
            file: file.unwrap_or_else(|| inner.required("file", "/tmp/x.pcapng").into()),
            snap: inner.number("snap", SNAP, "bytes"),
            direction: read_direction(inner),
            overwrite: inner.flag("overwrite").unwrap_or_default(),
        }
    })
}

fn read_trace(fields: &mut Fields<'_, '_>) -> Option<Trace> {
    inner(
        fields,
        "trace",
        "a file's path, or { file = \"/tmp/x.log\", direction = \"in\" }",
        |inner, file| Trace {
            file: file.unwrap_or_else(|| inner.required("file", "/tmp/x.log").into()),
            direction: read_direction(inner),
            overwrite: inner.flag("overwrite").unwrap_or_default(),
        },
    )
}

fn read_tx_coalesce(fields: &mut Fields<'_, '_>) -> Option<TxCoalesce> {
    let wanted = "\"immediate\", or how many frames are sent together: { frames = 32, delay = \"20us\" }";
    fields.accepts("tx_coalesce", || Shape::Word(vec!["immediate".to_owned()]));
    fields.accepts("tx_coalesce", || Shape::Table);
    let (place, node) = (fields.place("tx_coalesce"), fields.node("tx_coalesce")?);
    match &node.value {
        Value::Text(word) if word == "immediate" => return None,
        Value::Table(_) => {}
        _ => return fields.not("tx_coalesce", node, wanted),
    }
    fields.notes.written((place.0, "frames"), node.line);
    let mut inner = Fields::open_inner(node, place, fields.notes);
    let tx_coalesce = TxCoalesce {
        frames: inner.number("frames", COALESCED, "frames").unwrap_or(DPDK_BURST),
        delay: inner.span_within("delay", &WAIT),
    };
    inner.finish();
    Some(tx_coalesce)
}

/// Reads a path, or a table that contains one.
fn inner<T>(
    fields: &mut Fields<'_, '_>,
    key: &'static str,
    wanted: &str,
    read: impl FnOnce(&mut Fields<'_, '_>, Option<PathBuf>) -> T,
) -> Option<T> {
    fields.accepts(key, || Shape::Text);
    fields.accepts(key, || Shape::Table);
    let (place, node) = (fields.place(key), fields.node(key)?);
    let file = match &node.value {
        Value::Text(path) => Some(PathBuf::from(path)),
        Value::Table(_) => None,
        _ => return fields.not(key, node, wanted),
    };
    // A missing key of the inner table is reported for the section.
    fields.notes.written((place.0, "file"), node.line);
    let mut inner = Fields::open_inner(node, place, fields.notes);
    let read = read(&mut inner, file);
    let incomplete = inner.is_spoiled("file");
    inner.finish();
    if incomplete {
        fields.notes.mark_invalid(place);
    }
    Some(read)
}

fn read_direction(fields: &mut Fields<'_, '_>) -> Direction {
    let words = [("both", Direction::Both), ("in", Direction::In), ("out", Direction::Out)];
    fields.choice("direction", &words).unwrap_or_default()
}

impl From<Direction> for Directions {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Both => Directions::Both,
            Direction::In => Directions::In,
            Direction::Out => Directions::Out,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Both => "",
            Direction::In => " of received frames",
            Direction::Out => " of sent frames",
        })
    }
}

impl fmt::Display for Wrappers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Capture { file, direction, .. }) = &self.capture {
            write!(f, ", capture{direction} in {}", file.display())?;
        }
        if let Some(Trace { file, direction, .. }) = &self.trace {
            write!(f, ", trace{direction} in {}", file.display())?;
        }
        if let Some(fault) = &self.fault {
            write!(f, ", {fault}")?;
        }
        if let Some(policer) = &self.policer {
            write!(f, ", {policer}")?;
        }
        if let Some(queues) = &self.queues {
            write!(f, ", {queues}")?;
        }
        let Some(TxCoalesce { frames, delay }) = self.tx_coalesce else { return Ok(()) };
        write!(f, ", transmits {frames} at once")?;
        delay.map_or(Ok(()), |delay| write!(f, " or after {delay}"))
    }
}
