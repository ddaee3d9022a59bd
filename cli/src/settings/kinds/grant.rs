//! `kind = "grant"`: a port of another switch, which is asked for it. The port ends with its grant.

use super::kind::{Kind, Loaded, OpenError, is_yes, yes};
use super::virtio_user::OFFLOADS;
use crate::grant::{self, GrantRequest};
use crate::settings::reader::fields::Fields;
use crate::settings::reader::key::{Key, key, optional, required};
use crate::settings::reader::validation::{PortCommon, Validation};
use ::port::PortControl;
use ::port::virtio_user::{Options, RingKind, VirtioUser};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Settings of a port that a switch grants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// The socket of the switch for grants.
    pub(crate) switch: PathBuf,
    /// Bridge of the switch; `None`: that of the first section that admits this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) switch_bridge: Option<String>,
    /// Whether packed virtqueues are used, otherwise split ones.
    pub(crate) packed: bool,
    /// Whether checksum and segmentation offloads are negotiated, in both directions.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(crate) offloads: bool,
}

impl Kind for Grant {
    const NAME: &'static str = "grant";
    const ABOUT: &'static str = "Port of another switch, granted on request";
    const KEYS: &'static [Key] = &[
        required("switch", "Absolute path of the socket `grants` of the switch."),
        optional(
            "switch_bridge",
            "that of the first `[[grant]]` section for this user",
            "Bridge of the switch.",
        ),
        key("packed", "false", "Whether virtqueues are packed instead of split."),
        OFFLOADS,
    ];
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str] = &[
        "switch = \"/tmp/lr-grants.sock\"",
        "switch = \"/tmp/lr-grants.sock\"\nswitch_bridge = \"lan\"\npacked = true\noffloads = false",
    ];

    fn read(fields: &mut Fields<'_, '_>) -> Self {
        Self {
            switch: PathBuf::from(fields.required("switch", "/run/linerate-grants.sock")),
            switch_bridge: fields.text("switch_bridge").map(str::to_owned),
            packed: fields.flag("packed").unwrap_or(false),
            offloads: fields.flag("offloads").unwrap_or(true),
        }
    }

    fn validate(&self, validation: &mut Validation<'_>) {
        validation.socket_path("switch", &self.switch);
    }

    fn place(&self) -> String {
        self.switch.display().to_string()
    }

    fn files(&self) -> Vec<(&'static str, &Path)> {
        vec![("switch", &self.switch)]
    }

    /// Waits for the answer of the switch, for a limited time.
    fn open(&self, port: PortCommon<'_>, _: Loaded) -> Result<Box<dyn PortControl>, OpenError> {
        let options = self.options(port);
        let request = GrantRequest {
            name: port.name.to_owned(),
            bridge: self.switch_bridge.clone(),
            queue_pairs: port.queue_pairs,
            memory: options.memory(),
        };
        let socket = grant::ask(&self.switch, &request).map_err(OpenError::Refused)?;
        let opened = VirtioUser::over(socket, self.place(), options, Instant::now());
        Ok(Box::new(opened.map_err(|error| OpenError::refused(port.name, &error))?))
    }
}

impl Grant {
    /// Converts the settings to options of the port crate.
    fn options(&self, port: PortCommon<'_>) -> Options {
        let ring = if self.packed { RingKind::Packed } else { RingKind::Split };
        let (queue_pairs, mtu, offloads) = (port.queue_pairs, port.mtu, self.offloads);
        Options { ring, queue_pairs, mtu, offloads, ..Options::default() }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of the switch at {}", self.switch.display())?;
        if let Some(bridge) = &self.switch_bridge {
            write!(f, ", bridge {bridge}")?;
        }
        f.write_str(if self.packed { ", packed rings" } else { "" })?;
        f.write_str(if self.offloads { "" } else { ", without offloads" })
    }
}
