//! `linerate tunnels`: tunnels, and the options of Geneve that flows use.

use super::show::flows;
use crate::api::client::{Client, query};
use crate::api::model::OptionsChanged;
use crate::args::switch::{TunnelOptionsCommand, TunnelsCommand};
use crate::dataplane::tunnels::{OptionEntry, OptionRequest, TunnelEntry};

/// `linerate tunnels ...`
pub(crate) fn run(client: &Client, command: &TunnelsCommand) -> anyhow::Result<()> {
    match command {
        TunnelsCommand::Show(args) => {
            let found: Vec<TunnelEntry> = client.get("/v1/tunnels")?;
            console::print(&found, args.show.output, |found| flows::tunnels(found))
        }
        TunnelsCommand::Options(command) => tunnel_options(client, command),
    }
}

fn tunnel_options(client: &Client, command: &TunnelOptionsCommand) -> anyhow::Result<()> {
    const PATH: &str = "/v1/tunnels/options";
    let of = |bridge: &Option<String>, field: Option<&String>| {
        format!("{PATH}?{}", query([("bridge", bridge.as_ref()), ("field", field)]))
    };
    let changed =
        |OptionsChanged { changed }: &OptionsChanged, what: &str| format!("{what} {changed} options");
    match command {
        TunnelOptionsCommand::Show(args) => {
            let found: Vec<OptionEntry> = client.get(&of(&args.bridge, None))?;
            console::print(&found, args.show.output, |found| flows::tunnel_options(found))
        }
        TunnelOptionsCommand::Add(args) => {
            let request = OptionRequest { bridge: args.bridge.clone(), options: args.options.clone() };
            let done: OptionsChanged = client.post(PATH, &serde_json::to_value(&request)?)?;
            console::print(&done, args.show.output, |done| changed(done, "bound"))
        }
        TunnelOptionsCommand::Remove(args) => {
            let done: OptionsChanged = client.delete(&of(&args.bridge, Some(&args.field)))?;
            console::print(&done, args.show.output, |done| changed(done, "freed"))
        }
    }
}
