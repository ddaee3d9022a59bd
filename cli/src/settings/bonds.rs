//! `[[bond]]`: several ports as one port of a bridge.
//!
//! Nothing here validates a bond against ports and bridges (`config`) or changes one (`dataplane`).

use super::links::LinkSettings;
use super::policy::Policy;
use super::reader::fields::Fields;
use super::reader::node::{Node, Value};
use super::reader::shape::Shape;
use console::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;
use utoipa::ToSchema;
use wire::MacAddress;

/// Numbers of LACP: a priority, or a key; 0 is reserved for keys.
const PRIORITY: RangeInclusive<i128> = 0..=65_535;
const KEY: RangeInclusive<i128> = 1..=65_535;
const DELAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(1);
/// Defaults of Open vSwitch.
const SYSTEM_PRIORITY: u16 = 65_534;
const PORT_PRIORITY: u16 = 65_535;
const REBALANCE: Span = Span(Duration::from_secs(10));

/// How a bond distributes packets to its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BondMode {
    /// One member carries all packets.
    #[default]
    ActiveBackup,
    /// By source address and VLAN.
    BalanceSlb,
    /// By flow; requires LACP.
    BalanceTcp,
}

impl BondMode {
    const NAMES: [(&'static str, Self); 3] = [
        ("active-backup", Self::ActiveBackup),
        ("balance-slb", Self::BalanceSlb),
        ("balance-tcp", Self::BalanceTcp),
    ];

    /// Name in files, tables and JSON.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }
}

/// Whether a bond uses LACP, and whether it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LacpMode {
    #[default]
    Off,
    /// Sends LACPDUs.
    Active,
    /// Answers a partner that sends LACPDUs.
    Passive,
}

/// How often the partner is asked to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LacpRate {
    /// Every second.
    Fast,
    /// Every 30 seconds.
    #[default]
    Slow,
}

/// Keys of LACP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LacpSettings {
    #[serde(rename = "lacp")]
    pub(crate) mode: LacpMode,
    #[serde(rename = "lacp_rate")]
    pub(crate) rate: LacpRate,
    pub(crate) system_priority: u16,
    /// Address of this system; `None`: derived from the machine and the name of the bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) system_id: Option<MacAddress>,
    /// Key of the bond; `None`: its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<u16>,
    /// Priorities of ports.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) port_priorities: BTreeMap<String, u16>,
    /// Whether the bond is used while there is no partner.
    pub(crate) fallback: bool,
}

/// Times and preferences without a partner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Switching {
    pub(crate) up_delay: Span,
    pub(crate) down_delay: Span,
    /// Interval of rebalancing; zero: off.
    pub(crate) rebalance: Span,
    /// Port that is active whenever it can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) primary: Option<String>,
}

/// One `[[bond]]` section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BondSettings {
    pub(crate) name: String,
    pub(crate) bridge: String,
    /// Names of its members.
    pub(crate) ports: Vec<String>,
    pub(crate) mode: BondMode,
    #[serde(flatten)]
    pub(crate) lacp: LacpSettings,
    #[serde(flatten)]
    pub(crate) switching: Switching,
    #[serde(flatten)]
    pub(crate) policy: Policy,
    /// Without LLDP.
    #[serde(flatten)]
    pub(crate) links: LinkSettings,
}

impl BondSettings {
    /// Reads the keys of a bond.
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Self {
        let name = fields.required("name", "uplink").to_owned();
        let bridge = fields.text("bridge").unwrap_or_default().to_owned();
        Self {
            name,
            bridge,
            ports: fields.list("ports", |name| Ok(name.to_owned()), "[\"eth0\", \"eth1\"]"),
            mode: fields.choice("mode", &BondMode::NAMES).unwrap_or_default(),
            lacp: LacpSettings::read(fields),
            switching: Switching::read(fields),
            policy: Policy::read(fields),
            links: LinkSettings::read_tree(fields),
        }
    }

    /// Priority of a member in LACP.
    pub(crate) fn priority(&self, port: &str) -> u16 {
        self.lacp.port_priorities.get(port).copied().unwrap_or(PORT_PRIORITY)
    }
}

impl LacpSettings {
    fn read(fields: &mut Fields<'_, '_>) -> Self {
        let modes = [("off", LacpMode::Off), ("active", LacpMode::Active), ("passive", LacpMode::Passive)];
        let rates = [("fast", LacpRate::Fast), ("slow", LacpRate::Slow)];
        Self {
            mode: fields.choice("lacp", &modes).unwrap_or_default(),
            rate: fields.choice("lacp_rate", &rates).unwrap_or_default(),
            system_priority: fields
                .number("system_priority", PRIORITY, "as a priority")
                .unwrap_or(SYSTEM_PRIORITY),
            system_id: system_id(fields),
            key: fields.number("key", KEY, "as a key"),
            port_priorities: port_priorities(fields).unwrap_or_default(),
            fallback: fields.flag("fallback").unwrap_or(false),
        }
    }
}

fn system_id(fields: &mut Fields<'_, '_>) -> Option<MacAddress> {
    let text = fields.text("system_id")?;
    let mac: Option<MacAddress> =
        text.parse().ok().filter(|mac: &MacAddress| !mac.is_group() && !mac.is_zero());
    let remedy = "write a unicast address such as 02:00:00:00:00:01".to_owned();
    mac.or_else(|| fields.invalid("system_id", format!("\"{text}\""), "a unicast address", remedy))
}

/// `port_priorities = { eth0 = 1 }`.
fn port_priorities(fields: &mut Fields<'_, '_>) -> Option<BTreeMap<String, u16>> {
    const WANTED: &str = "the priority of ports from 0 to 65535, such as { eth0 = 1 }";
    fields.accepts("port_priorities", || Shape::Map(Box::new(Shape::Integer(PRIORITY))));
    let node = fields.node("port_priorities")?;
    let Value::Table(entries) = &node.value else { return fields.not("port_priorities", node, WANTED) };
    let priority = |node: &Node| match node.value {
        Value::Integer(number) => u16::try_from(number).ok(),
        _ => None,
    };
    let read: Option<_> =
        entries.iter().map(|entry| Some((entry.key.clone(), priority(&entry.node)?))).collect();
    read.or_else(|| fields.not("port_priorities", node, WANTED))
}

impl Switching {
    fn read(fields: &mut Fields<'_, '_>) -> Self {
        let mut delay = |key| fields.span_within(key, &DELAY).unwrap_or(Span(Duration::ZERO));
        Self {
            up_delay: delay("up_delay"),
            down_delay: delay("down_delay"),
            rebalance: fields.span_within("rebalance", &DELAY).unwrap_or(REBALANCE),
            primary: fields.text("primary").map(str::to_owned),
        }
    }
}

impl fmt::Display for BondSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, ports, mode, lacp, .. } = self;
        write!(f, "bond {name}: {} of {}", mode.name(), ports.join(", "))?;
        f.write_str(match (lacp.mode, lacp.rate) {
            (LacpMode::Off, _) => "",
            (LacpMode::Active, LacpRate::Fast) => ", LACP active and fast",
            (LacpMode::Active, LacpRate::Slow) => ", LACP active",
            (LacpMode::Passive, LacpRate::Fast) => ", LACP passive and fast",
            (LacpMode::Passive, LacpRate::Slow) => ", LACP passive",
        })?;
        if let Some(primary) = &self.switching.primary {
            write!(f, ", primary {primary}")?;
        }
        self.policy.fmt(f)?;
        self.links.fmt(f)
    }
}
