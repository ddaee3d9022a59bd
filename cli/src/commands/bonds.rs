//! `linerate bonds`: each command sends one request and prints the response.

use super::show::bonds as tables;
use super::unsaved;
use super::verbs::{changes, with_settings};
use crate::api::client::{Client, quote};
use crate::api::model::BondReport;
use crate::args::switch::{BondsAddArgs, BondsCommand, BondsSetArgs, BondsShowArgs};
use crate::settings::bonds::BondSettings;
use crate::settings::section;
use serde_json::{Map, Value, json};

/// `linerate bonds ...`
pub(crate) fn run(client: &Client, command: &BondsCommand) -> anyhow::Result<()> {
    match command {
        BondsCommand::Show(args) => show(client, args),
        BondsCommand::Add(args) => add(client, args),
        BondsCommand::Set(args) => set(client, args),
        BondsCommand::Remove(args) => {
            let bond: BondSettings = client.delete(&path(&args.name))?;
            console::print(&bond, args.show.output, |bond| format!("removed {bond}"))?;
            unsaved::removed(client, args.save, "bond")
        }
    }
}

fn show(client: &Client, args: &BondsShowArgs) -> anyhow::Result<()> {
    if let Some(name) = &args.name {
        let bond: BondReport = client.get(&path(name))?;
        return console::print(&bond, args.show.output, tables::bond);
    }
    let bonds: Vec<BondReport> = client.get("/v1/bonds")?;
    console::print(&bonds, args.show.output, |bonds| tables::bonds(bonds))
}

fn path(name: &str) -> String {
    format!("/v1/bonds/{}", quote(name))
}

fn add(client: &Client, args: &BondsAddArgs) -> anyhow::Result<()> {
    let fields = [
        ("name", json!(args.name)),
        ("ports", json!(args.ports)),
        ("bridge", json!(args.bridge)),
        ("mode", json!(args.mode)),
        ("lacp", json!(args.lacp)),
    ];
    let given = fields.into_iter().filter(|(_, value)| !value.is_null());
    let body: Map<String, Value> = given.map(|(key, value)| (key.to_owned(), value)).collect();
    let bond: BondReport = client.post("/v1/bonds", &with_settings(body, &args.set)?)?;
    let section = section::of("bond", &bond.settings)?;
    console::print(&bond, args.show.output, |bond| {
        format!("added {}{}", bond.settings, unsaved::section(args.save, "bond", "", &section))
    })?;
    unsaved::added(client, args.save)
}

fn set(client: &Client, args: &BondsSetArgs) -> anyhow::Result<()> {
    let bond: BondReport = client.patch(&path(&args.name), &changes(&args.keys)?)?;
    console::print(&bond, args.show.output, |bond| format!("changed {}", bond.settings))?;
    unsaved::changed(client, args.save)
}
