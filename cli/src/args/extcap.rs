//! Arguments of `linerate extcap`, as Wireshark passes them to a program in its folder for extcap: one of the first four
//! flags, or only a filter, which is to be validated.

use super::capture::{CaptureDirection, snaplen};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `extcap`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExtcapArgs {
    #[command(flatten)]
    pub(crate) task: ExtcapTask,
    /// Interface of the list
    #[arg(long = "extcap-interface", value_name = "NAME", required_unless_present = "extcap-interfaces")]
    pub(crate) interface: Option<String>,
    /// Filter of the capture
    #[arg(long = "extcap-capture-filter", value_name = "EXPRESSION")]
    pub(crate) filter: Option<String>,
    /// Pipe for the packets
    #[arg(long, value_name = "PATH")]
    pub(crate) fifo: Option<PathBuf>,
    /// Version of Wireshark
    #[arg(id = "extcap-version", long = "extcap-version", value_name = "VERSION")]
    pub(crate) version: Option<String>,
    #[command(flatten)]
    pub(crate) settings: ExtcapSettings,
}

/// What Wireshark asks for.
#[derive(Args, Clone, Debug)]
#[group(multiple = false)]
#[allow(clippy::struct_excessive_bools, reason = "flags of Wireshark")]
pub(crate) struct ExtcapTask {
    /// List the interfaces
    #[arg(id = "extcap-interfaces", long = "extcap-interfaces")]
    pub(crate) interfaces: bool,
    /// List the link types of an interface
    #[arg(long = "extcap-dlts")]
    pub(crate) dlts: bool,
    /// List the settings of an interface
    #[arg(long = "extcap-config")]
    pub(crate) config: bool,
    /// Capture packets
    #[arg(long, requires = "fifo")]
    pub(crate) capture: bool,
}

/// Settings that `--extcap-config` lists, and Wireshark shows in a dialog. `--control` is one too.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExtcapSettings {
    /// What is captured
    #[arg(long, value_enum, value_delimiter = ',', value_name = "DIRECTIONS")]
    pub(crate) direction: Vec<CaptureDirection>,
    /// Maximum bytes of a packet
    #[arg(long, value_name = "BYTES", value_parser = snaplen())]
    pub(crate) snaplen: Option<u32>,
    /// Further filter
    #[arg(long = "filter", value_name = "EXPRESSION")]
    pub(crate) further: Option<String>,
}
