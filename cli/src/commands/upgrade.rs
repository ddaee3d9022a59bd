//! `linerate upgrade`

use crate::api::client::Client;
use crate::api::upgrade::{UpgradeRequest, Upgraded};
use crate::args::UpgradeArgs;

/// Replaces the process of a running switch.
pub(crate) fn run(args: &UpgradeArgs, client: &Client) -> anyhow::Result<()> {
    let request = serde_json::to_value(UpgradeRequest { accept_loss: args.accept_loss })?;
    let upgraded: Upgraded = client.patient().post("/v1/upgrade", &request)?;
    console::print(&upgraded, args.show.output, text)
}

fn text(upgraded: &Upgraded) -> String {
    let Upgraded { from, to, pid, ports, lost, gap_us } = upgraded;
    let ms = *gap_us as f64 / 1000.0;
    let text = format!("{from} -> {to}, process {pid}: {ports} ports handed over in {ms:.1} ms");
    std::iter::once(&text).chain(lost).map(String::as_str).collect::<Vec<_>>().join("\n")
}
