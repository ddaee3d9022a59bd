//! `linerate bridges`: each command sends one request and prints the response.

use super::config;
use super::show::bridges as tables;
use super::unsaved;
use super::verbs::{changes, with_settings};
use crate::api::client::{Client, quote};
use crate::args::switch::{BridgesCommand, BridgesShowArgs};
use crate::dataplane::report::BridgeReport;
use console::Diagnostic;
use serde_json::Map;

/// `linerate bridges ...`
pub(crate) fn run(client: &Client, command: &BridgesCommand) -> anyhow::Result<()> {
    match command {
        BridgesCommand::Show(args) => show(client, args),
        BridgesCommand::Add(args) => {
            let name = ("name".to_owned(), args.name.clone().into());
            let body = with_settings(Map::from_iter([name]), &args.set)?;
            config::print(&client.post("/v1/bridges", &body)?, args.show.output)?;
            unsaved::changed(client, args.save)
        }
        BridgesCommand::Set(args) => {
            let body = changes(&args.keys)?;
            config::print(&client.patch(&path(&args.name), &body)?, args.show.output)?;
            unsaved::changed(client, args.save)
        }
        BridgesCommand::Remove(args) => {
            config::print(&client.delete(&path(&args.name))?, args.show.output)?;
            unsaved::removed(client, args.save, "bridge")
        }
    }
}

fn path(name: &str) -> String {
    format!("/v1/bridges/{}", quote(name))
}

fn show(client: &Client, args: &BridgesShowArgs) -> anyhow::Result<()> {
    let mut bridges: Vec<BridgeReport> = client.get("/v1/bridges")?;
    let Some(name) = &args.name else {
        return console::print(&bridges, args.show.output, |bridges| tables::bridges(bridges));
    };
    bridges.retain(|bridge| bridge.name == *name);
    let Some(bridge) = bridges.first() else {
        let remedy = "see `linerate bridges show`";
        return Err(Diagnostic::bad(format!("bridge \"{name}\""), "there is no such bridge", remedy).into());
    };
    console::print(bridge, args.show.output, |bridge| tables::bridges(std::slice::from_ref(bridge)))
}
