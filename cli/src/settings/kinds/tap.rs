//! `kind = "tap"`: an interface of the kernel, in any network namespace.

use super::claim::Claim;
use super::interface::NETNS;
use super::kind::{Kind, Loaded, OpenError, succeeding};
use crate::settings::reader::fields::Fields;
use crate::settings::reader::key::{Key, key, optional, required};
use crate::settings::reader::validation::PortCommon;
use crate::settings::reader::validation::Validation;
use ::port::PortControl;
use ::port::tap::{self as port_kind, Io, MAX_MTU, MAX_NAME, Options, TapError};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::time::Instant;

/// Settings of a TAP port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tap {
    pub(crate) interface: String,
    /// A name under `/run/netns` or an absolute path; `None`: the namespace of the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) netns: Option<String>,
    /// Whether an interface created by the port remains after the port is removed.
    pub(crate) persist: bool,
    /// Method of system calls; `None`: the best one available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "write_io", deserialize_with = "read_io")]
    pub(crate) io: Option<Io>,
}

/// Serializes the method of system calls as its name.
#[expect(clippy::trivially_copy_pass_by_ref, clippy::ref_option, reason = "the shape that serde calls")]
fn write_io<S: Serializer>(io: &Option<Io>, to: S) -> Result<S::Ok, S::Error> {
    io.map(Io::name).serialize(to)
}

fn read_io<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Io>, D::Error> {
    let Some(name) = Option::<String>::deserialize(from)? else { return Ok(None) };
    let found = Io::ALL.into_iter().find(|io| io.name() == name);
    found.map(Some).ok_or_else(|| D::Error::custom(format!("unknown io `{name}`")))
}

impl Kind for Tap {
    const NAME: &'static str = "tap";
    const ABOUT: &'static str = "TAP interface of the kernel, in any network namespace";
    const KEYS: &'static [Key] = &[
        required("interface", "Name of the interface; it is created if it does not exist."),
        NETNS,
        key(
            "persist",
            "false",
            "Whether an interface that the port created remains after the port is removed.",
        ),
        optional("io", "the best one available", "Method of system calls."),
    ];
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str] = &[
        "interface = \"lr-vm0\"",
        "interface = \"lr-vm0\"\nnetns = \"/proc/self/ns/net\"\npersist = true\nio = \"uring\"\nmtu = 9000",
    ];

    fn read(fields: &mut Fields<'_, '_>) -> Self {
        let ways = Io::ALL.map(|io| (io.name(), io));
        Self {
            interface: fields.required("interface", "vm0").to_owned(),
            netns: fields.text("netns").map(str::to_owned),
            persist: fields.flag("persist").unwrap_or_default(),
            io: fields.choice("io", &ways),
        }
    }

    fn validate(&self, validation: &mut Validation<'_>) {
        if let Err(error) = self.options(validation.port()).check() {
            let remedy = match error {
                TapError::Name(_) => {
                    ("interface", format!("1 to {MAX_NAME} bytes without spaces, `/`, `:` and `%`"))
                }
                TapError::NamespaceName(_) => {
                    ("netns", "write a name under /run/netns or an absolute path".to_owned())
                }
                TapError::Mtu(_) => ("mtu", format!("give at most {MAX_MTU} bytes")),
                _ => ("", "correct this section".to_owned()),
            };
            validation.wrong(remedy.0, error, remedy.1);
        }
    }

    fn claims(&self) -> Vec<Claim<'_>> {
        vec![Claim::named("interface", "interface", self.place())]
    }

    fn place(&self) -> String {
        let (name, names) = (&self.interface, "/run/netns/");
        let short = |netns: &'_ String| netns.strip_prefix(names).unwrap_or(netns).to_owned();
        self.netns.as_ref().map_or_else(|| name.clone(), |netns| format!("{}/{name}", short(netns)))
    }

    fn successor(&self, port: PortCommon<'_>) -> Option<Result<Box<dyn PortControl>, OpenError>> {
        Some(succeeding(port.name, port_kind::Tap::successor(self.options(port))))
    }

    fn namespaces(&self) -> Vec<(&'static str, &str)> {
        self.netns.iter().map(|name| ("netns", name.as_str())).collect()
    }

    fn open(&self, port: PortCommon<'_>, _: Loaded) -> Result<Box<dyn PortControl>, OpenError> {
        let made = port_kind::Tap::open(self.options(port), Instant::now());
        Ok(Box::new(made.map_err(|error| OpenError::refused(port.name, &error))?))
    }
}

impl Tap {
    /// Converts the settings to options of the port crate.
    fn options(&self, port: PortCommon<'_>) -> Options {
        Options {
            interface: self.interface.clone(),
            netns: self.netns.clone(),
            persist: self.persist,
            io: self.io,
            queue_pairs: port.queue_pairs,
            mtu: port.mtu,
        }
    }
}

impl fmt::Display for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.interface)?;
        match &self.netns {
            Some(netns) => write!(f, " in network namespace {netns}"),
            None => Ok(()),
        }
    }
}
