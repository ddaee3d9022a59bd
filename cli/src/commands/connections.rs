//! `linerate ct`: connections of OpenFlow bridges, and their limits.

use super::show::flows;
use super::verbs::add_setting;
use crate::api::client::Client;
use crate::api::model::Flushed;
use crate::args::switch::{CtCommand, CtLimitsCommand};
use crate::dataplane::connections::{ConnectionLimits, ConnectionReport};
use serde_json::{Map, Value};

/// `linerate ct ...`
pub(crate) fn run(client: &Client, command: &CtCommand) -> anyhow::Result<()> {
    let in_zone = |zone: Option<u16>| zone.map_or_else(String::new, |zone| format!("zone={zone}"));
    match command {
        CtCommand::Show(args) => {
            let path = format!("/v1/connections?limit={}&{}", args.limit, in_zone(args.zone));
            console::print(&client.get::<ConnectionReport>(&path)?, args.show.output, flows::connections)
        }
        CtCommand::Flush(args) => {
            let flushed: Flushed = client.delete(&format!("/v1/connections?{}", in_zone(args.zone)))?;
            console::print(&flushed, args.show.output, |Flushed { flushed }| {
                format!("removed {flushed} connections")
            })
        }
        CtCommand::Limits(command) => ct_limits(client, command),
    }
}

fn ct_limits(client: &Client, command: &CtLimitsCommand) -> anyhow::Result<()> {
    const PATH: &str = "/v1/connections/limits";
    let (limits, show): (ConnectionLimits, _) = match command {
        CtLimitsCommand::Show(show) => (client.get(PATH)?, show),
        CtLimitsCommand::Set(args) => (client.patch(PATH, &limits_of(&args.set)?)?, &args.show),
    };
    console::print(&limits, show.output, flows::connection_limits)
}

/// The body of a change; `table.key` is the key of a table.
fn limits_of(set: &[(String, String)]) -> anyhow::Result<Value> {
    let mut body = Map::new();
    for (key, value) in set {
        match key.split_once('.') {
            Some((table, inner)) => {
                let table = body.entry(table).or_insert_with(|| Map::new().into());
                if let Some(table) = table.as_object_mut() {
                    add_setting(table, inner, value)?;
                }
            }
            None => add_setting(&mut body, key, value)?,
        }
    }
    Ok(body.into())
}
