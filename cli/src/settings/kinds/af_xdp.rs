//! `kind = "af_xdp"`: a network card, or one end of a veth pair, over `AF_XDP`.

use super::claim::Claim;
use super::interface::{INTERFACE, InterfaceSettings, NETNS};
use super::kind::{Kind, Loaded, OpenError};
use crate::settings::reader::fields::Fields;
use crate::settings::reader::key::{Key, key, optional};
use crate::settings::reader::validation::PortCommon;
use crate::settings::reader::validation::Validation;
use ::port::PortControl;
use ::port::Remedy;
use ::port::af_xdp::{
    self as port_kind, Attachment, BadRule, BusyPoll, FastPathOptions, InterfaceError, MAX_RING, MIN_RING,
    Options, Rule,
};
use ::port::netns::Namespace;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

const FRAMES: RangeInclusive<i128> = MIN_RING as i128..=MAX_RING as i128;
/// Busy-poll budget of the driver: one burst.
const BUDGET: u16 = 64;

/// How packets are transferred between driver and socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    /// Zero-copy where the driver supports it.
    #[default]
    Auto,
    /// The kernel copies packets.
    Copy,
    /// Zero-copy.
    ZeroCopy,
}

/// Where the XDP program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Attach {
    /// In the driver if supported.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// In the kernel's generic XDP hook.
    Generic,
}

/// Settings of an `AF_XDP` port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AfXdp {
    #[serde(flatten)]
    pub(crate) interface: InterfaceSettings,
    pub(crate) mode: Mode,
    pub(crate) attach: Attach,
    /// Rules for frames passed to the kernel, as written in the file.
    pub(crate) to_kernel: Vec<String>,
    pub(crate) busy_poll: bool,
    /// Number of frames per queue and direction.
    pub(crate) frames: u16,
    /// Whether the kernel forwards frames between such ports.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) kernel_fast_path: bool,
    /// Namespace of the other end of the veth pair; `None`: that of the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peer_netns: Option<String>,
}

impl Kind for AfXdp {
    const NAME: &'static str = "af_xdp";
    const ABOUT: &'static str = "Network card, or one end of a veth pair, over AF_XDP";
    const KEYS: &'static [Key] = &[
        INTERFACE,
        NETNS,
        key(
            "mode",
            "\"auto\"",
            "Transfer of packets: copied by the kernel, zero-copy, or zero-copy where the driver supports it.",
        ),
        key(
            "attach",
            "\"auto\"",
            "Hook of the XDP program: in the driver, in the generic hook, or in the driver where supported.",
        ),
        optional(
            "to_kernel",
            "none",
            "Frames passed to the host's own stack: `arp`, `lldp`, `icmp`, `icmpv6`, `ethertype 0x88cc`, or a destination \
             port as `tcp 22` and `udp 67`.",
        ),
        key("busy_poll", "false", "Whether the worker polls the interface in place of its interrupts."),
        key("frames", "2048", "Frames per queue and direction, a power of two."),
        key(
            "kernel_fast_path",
            "false",
            "Whether the kernel forwards frames of known pairs of addresses, and known flows, between ports that have \
             this, without the switch; only on veth pairs.",
        ),
        optional(
            "peer_netns",
            "that of the interface",
            "With `kernel_fast_path`: network namespace of the other end of the veth pair, whose GRO is enabled.",
        ),
    ];
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str] = &[
        "interface = \"lr-eth0\"",
        "interface = \"lr-eth0\"\nnetns = \"/proc/self/ns/net\"\nmode = \"copy\"\nattach = \"generic\"\n\
         to_kernel = [\"arp\", \"ethertype 0x88cc\", \"tcp 22\"]\nbusy_poll = true\nframes = 512\nqueue_pairs = 2",
        "interface = \"lr-eth0\"\nkernel_fast_path = true\npeer_netns = \"blue\"",
    ];

    fn read(fields: &mut Fields<'_, '_>) -> Self {
        let modes = [("auto", Mode::Auto), ("copy", Mode::Copy), ("zero-copy", Mode::ZeroCopy)];
        let hooks = [("auto", Attach::Auto), ("native", Attach::Native), ("generic", Attach::Generic)];
        Self {
            interface: InterfaceSettings::read(fields),
            mode: fields.choice("mode", &modes).unwrap_or_default(),
            attach: fields.choice("attach", &hooks).unwrap_or_default(),
            to_kernel: fields.texts("to_kernel", "frames, such as [\"arp\", \"tcp 22\"]"),
            busy_poll: fields.flag("busy_poll").unwrap_or_default(),
            frames: read_frames(fields),
            kernel_fast_path: fields.flag("kernel_fast_path").unwrap_or_default(),
            peer_netns: fields.text("peer_netns").map(str::to_owned),
        }
    }

    fn validate(&self, validation: &mut Validation<'_>) {
        self.interface.validate(validation);
        validation.no_mtu();
        match self.rules() {
            Err(bad) => {
                validation.wrong("to_kernel", format!("`to_kernel`: `{}` is not a valid rule", bad.0), RULES);
            }
            Ok(_) if self.to_kernel.len() > port_kind::MAX_RULES => {
                let reason = format!("`to_kernel` has {} rules", self.to_kernel.len());
                validation.wrong("to_kernel", reason, format!("write at most {}", port_kind::MAX_RULES));
            }
            Ok(_) => {}
        }
        if self.kernel_fast_path && self.attach == Attach::Generic {
            let reason = "`kernel_fast_path` is not supported with `attach` = \"generic\"";
            validation.wrong("attach", reason, "write attach = \"native\", or remove `kernel_fast_path`");
        }
        if self.peer_netns.is_some() && !self.kernel_fast_path {
            let reason = "`peer_netns` has no effect without `kernel_fast_path`";
            validation.wrong("peer_netns", reason, "write kernel_fast_path = true, or remove `peer_netns`");
        }
        if (self.mode, self.attach) == (Mode::ZeroCopy, Attach::Generic) {
            let reason = "zero copy is not supported with `attach` = \"generic\"";
            validation.wrong("attach", reason, "write attach = \"native\", or mode = \"copy\"");
        }
    }

    fn claims(&self) -> Vec<Claim<'_>> {
        self.interface.claims()
    }

    fn place(&self) -> String {
        self.interface.place()
    }

    fn has_fast_path(&self) -> bool {
        self.kernel_fast_path
    }

    fn namespaces(&self) -> Vec<(&'static str, &str)> {
        let peer = self.peer_netns.iter().map(|name| ("peer_netns", name.as_str()));
        self.interface.namespaces().into_iter().chain(peer).collect()
    }

    fn open(&self, port: PortCommon<'_>, _: Loaded) -> Result<Box<dyn PortControl>, OpenError> {
        let refused = |error: &dyn Remedy| OpenError::refused(port.name, error);
        port_kind::open(self.options(port).map_err(|error| refused(&error))?).map_err(|error| match error {
            InterfaceError::Taken(..) => OpenError::busy(port.name, &error),
            error => refused(&error),
        })
    }
}

const RULES: &str =
    "write arp, lldp, icmp, icmpv6, \"ethertype 0x88cc\", \"tcp 22\" or \"udp 67\" (a destination port)";

fn read_frames(fields: &mut Fields<'_, '_>) -> u16 {
    let frames: u16 = fields.number("frames", FRAMES, "frames").unwrap_or(port_kind::RING);
    if !frames.is_power_of_two() {
        let above = frames.next_power_of_two();
        let reason = format!("`frames` is {frames}, which is not a power of two");
        fields.wrong::<()>("frames", reason, format!("write {} or {above}", above / 2));
    }
    frames
}

impl AfXdp {
    fn rules(&self) -> Result<Vec<Rule>, BadRule> {
        self.to_kernel.iter().map(|text| text.parse()).collect()
    }

    /// Converts the settings to options of the port crate.
    fn options(&self, port: PortCommon<'_>) -> Result<Options, BadRule> {
        Ok(Options {
            queue_pairs: port.queue_pairs,
            ring: self.frames,
            mode: match self.mode {
                Mode::Auto => port_kind::Mode::Auto,
                Mode::Copy => port_kind::Mode::Copy,
                Mode::ZeroCopy => port_kind::Mode::ZeroCopy,
            },
            attachment: match self.attach {
                Attach::Auto => Attachment::Auto,
                Attach::Native => Attachment::Native,
                Attach::Generic => Attachment::Generic,
            },
            to_kernel: self.rules()?,
            busy_poll: self.busy_poll.then_some(BusyPoll { budget: BUDGET }),
            fast_path: self.kernel_fast_path.then(|| FastPathOptions {
                name: port.name.to_owned(),
                peer: self.peer_netns.clone().map(Namespace::new),
            }),
            ..Options::new(self.interface.there())
        })
    }
}

impl fmt::Display for AfXdp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.interface)?;
        if !self.to_kernel.is_empty() {
            write!(f, ", {} to the kernel", self.to_kernel.join(" and "))?;
        }
        if self.kernel_fast_path {
            f.write_str(", with the kernel fast path")?;
        }
        Ok(())
    }
}
