//! OpenFlow keys of a `[[bridge]]` section: its controllers, how they are reached, and what the bridge does without
//! them.
//!
//! Nothing here opens a connection. `config` validates the settings against other sections and this machine.

mod option;
mod target;

pub(crate) use option::{TunnelOption, added};
pub(crate) use target::Target;

use super::access::Access;
use super::reader::fields::Fields;
use console::Span;
use serde::{Serialize, Serializer};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Range of `probe_interval` and `max_backoff`.
const INTERVAL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);

/// Range of `auxiliary`.
const AUXILIARY: RangeInclusive<i128> = 0..=8;

/// OpenFlow settings of one bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct OpenflowSettings {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) controllers: Vec<Target>,
    /// Auxiliary connections to each controller that the bridge connects to.
    pub(crate) auxiliary: u8,
    pub(crate) fail_mode: FailMode,
    /// Name of the port that has the number LOCAL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) local: Option<String>,
    /// Identifier of the bridge; `None` until the configuration is completed.
    pub(crate) datapath_id: Option<DatapathId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<TlsSettings>,
    /// Silence of a controller after which it is probed.
    pub(crate) probe_interval: Span,
    /// Longest time between two attempts to connect.
    pub(crate) max_backoff: Span,
    /// Maximum number of flows of each table.
    pub(crate) max_flows: usize,
    /// Options of Geneve tunnels, and the fields that they are bound to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tunnel_options: Vec<TunnelOption>,
    /// The management socket; `None` until the configuration is completed.
    pub(crate) management: Option<PathBuf>,
    /// Access to the management socket and those of `punix`.
    #[serde(flatten)]
    pub(crate) access: Access,
}

/// Behaviour of a bridge while no controller is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FailMode {
    /// It keeps its flows and forwards by them only.
    #[default]
    Secure,
    /// It forwards as a learning bridge.
    Standalone,
}

/// Identifier of a bridge in OpenFlow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatapathId(pub(crate) u64);

/// `[bridge.tls]`: files in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TlsSettings {
    pub(crate) private_key: PathBuf,
    /// Certificate of the bridge, followed by intermediate ones.
    pub(crate) certificate: PathBuf,
    /// Certificates that controllers' certificates are signed with.
    pub(crate) ca_certificate: PathBuf,
}

impl Default for OpenflowSettings {
    fn default() -> Self {
        Self {
            controllers: Vec::new(),
            auxiliary: 0,
            fail_mode: FailMode::default(),
            local: None,
            datapath_id: None,
            tls: None,
            probe_interval: Span(Duration::from_secs(5)),
            max_backoff: Span(Duration::from_secs(8)),
            max_flows: flow::tables::limits::FLOWS,
            tunnel_options: Vec::new(),
            management: None,
            access: Access::default(),
        }
    }
}

impl OpenflowSettings {
    /// Keys that only bridges with flow tables have.
    pub(crate) const KEYS: [&str; 14] = [
        "controllers",
        "auxiliary",
        "fail_mode",
        "local",
        "datapath_id",
        "tls",
        "probe_interval",
        "max_backoff",
        "max_flows",
        "tunnel_options",
        "management",
        Access::MODE.name,
        Access::OWNER.name,
        Access::GROUP.name,
    ];

    /// Reads the keys of a bridge with flow tables.
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Self {
        let default = Self::default();
        let modes = [("secure", FailMode::Secure), ("standalone", FailMode::Standalone)];
        Self {
            controllers: fields.list("controllers", str::parse, "[\"tcp:192.0.2.1:6653\"]"),
            auxiliary: fields.number("auxiliary", AUXILIARY, "connections").unwrap_or(default.auxiliary),
            fail_mode: fields.choice("fail_mode", &modes).unwrap_or_default(),
            local: fields.text("local").map(str::to_owned),
            datapath_id: datapath_id(fields),
            tls: tls(fields),
            probe_interval: fields.span_within("probe_interval", &INTERVAL).unwrap_or(default.probe_interval),
            max_backoff: fields.span_within("max_backoff", &INTERVAL).unwrap_or(default.max_backoff),
            max_flows: fields
                .number("max_flows", 1..=default.max_flows as i128, "flows")
                .unwrap_or(default.max_flows),
            tunnel_options: option::read(fields),
            management: fields.text("management").map(PathBuf::from),
            access: Access::read(fields),
        }
    }
}

fn datapath_id(fields: &mut Fields<'_, '_>) -> Option<DatapathId> {
    let text = fields.text("datapath_id")?;
    text.parse().map_or_else(
        |()| {
            let remedy = "write such as \"0000020000000001\", and not only zeros".to_owned();
            fields.invalid("datapath_id", format_args!("\"{text}\""), "16 hexadecimal digits", remedy)
        },
        Some,
    )
}

fn tls(fields: &mut Fields<'_, '_>) -> Option<TlsSettings> {
    fields.accepts("tls", || super::reader::shape::Shape::Table);
    let place = fields.place("tls");
    let node = fields.node("tls")?;
    let mut inner = Fields::open_inner(node, place, fields.notes);
    let files =
        ["private_key", "certificate", "ca_certificate"].map(|key| inner.text(key).map(PathBuf::from));
    inner.report_unknown();
    if let [Some(private_key), Some(certificate), Some(ca_certificate)] = files {
        return Some(TlsSettings { private_key, certificate, ca_certificate });
    }
    let remedy = "write private_key, certificate and ca_certificate in [bridge.tls]".to_owned();
    fields.wrong("tls", "`tls` needs the paths of three files", remedy)
}

impl DatapathId {
    /// The identifier of the bridge called `name` on the machine `host` if none is configured: like an Ethernet address
    /// that is locally administered, and the same after each start.
    pub(crate) fn of(host: &str, name: &str) -> Self {
        // FNV-1a: the result must not change with a version of the standard library.
        let bytes = host.bytes().chain([0]).chain(name.bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        Self(hash & 0xff_ffff_ffff | 0x02 << 40)
    }
}

impl FromStr for DatapathId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let is_hexadecimal = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|number| is_hexadecimal && *number != 0);
        number.map(Self).ok_or(())
    }
}

impl fmt::Display for DatapathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for DatapathId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl TlsSettings {
    /// The files with their keys.
    pub(crate) fn files(&self) -> [(&'static str, &Path); 3] {
        [
            ("private_key", &self.private_key),
            ("certificate", &self.certificate),
            ("ca_certificate", &self.ca_certificate),
        ]
    }
}

impl fmt::Display for OpenflowSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(id) = self.datapath_id {
            write!(f, ", datapath {id}")?;
        }
        if let Some(port) = &self.local {
            write!(f, ", LOCAL is {port}")?;
        }
        for (i, target) in self.controllers.iter().enumerate() {
            let before = if i == 0 { ", controllers " } else { " " };
            write!(f, "{before}{target}")?;
        }
        f.write_str(if self.fail_mode == FailMode::Standalone {
            ", learns addresses without them"
        } else {
            ""
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_16_digits_and_stays_the_same() {
        assert_eq!("00000000000000ff".parse(), Ok(DatapathId(255)));
        for wrong in
            ["", "ff", "0000000000000000", "00000000000000f+", "0x000000000000ff", "000000000000000ff"]
        {
            assert_eq!(wrong.parse::<DatapathId>(), Err(()), "{wrong}");
        }
        let id = DatapathId::of("host", "br0");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.0 >> 40, 2, "{id}");
        assert_ne!(id, DatapathId::of("host", "br1"));
    }
}
