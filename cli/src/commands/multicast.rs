//! `linerate multicast ...`

use crate::api::client::Client;
use crate::api::model::Flushed;
use crate::args::multicast::MulticastCommand;
use crate::commands::verbs::filter;
use crate::dataplane::multicast_report::{
    GroupReport, MulticastPortReport, MulticastReport, QuerierReport, RouterReport,
};
use console::table;

/// Runs the command.
pub(crate) fn run(client: &Client, command: &MulticastCommand) -> anyhow::Result<()> {
    match command {
        MulticastCommand::Show(args) => {
            let path = format!("/v1/multicast?limit={}&{}", args.limit, filter(&args.selection));
            let bridges: Vec<MulticastReport> = client.get(&path)?;
            console::print(&bridges, args.show.output, |bridges| {
                bridges.iter().map(bridge).collect::<Vec<_>>().join("\n\n")
            })
        }
        MulticastCommand::Flush(args) => {
            let flushed: Flushed = client.delete(&format!("/v1/multicast?{}", filter(&args.selection)))?;
            console::print(&flushed, args.show.output, |Flushed { flushed }| {
                format!("removed {flushed} memberships")
            })
        }
    }
}

fn bridge(report: &MulticastReport) -> String {
    let MulticastReport { bridge, total, max_groups, groups, routers, queriers, ports } = report;
    let mut text = format!("bridge {bridge}: {total} of at most {max_groups} groups\n");
    let titles = ["VLAN", "GROUP", "PORT", "VERSION", "MODE", "SOURCES", ">AGE", ">EXPIRES"];
    text += &table(&titles, groups.iter().map(group));
    text += "\n\n";
    text += &table(&["VLAN", "ROUTER PORT", "ADDRESS", ">EXPIRES"], routers.iter().map(router));
    text += "\n\n";
    text += &table(&["VLAN", "QUERIER", "PORT"], queriers.iter().map(querier));
    text += "\n\n";
    let titles = ["PORT", ">REPORTS", ">QUERIES", ">PORT FULL", ">BRIDGE FULL", ">RESERVED", "INVALID"];
    text + &table(&titles, ports.iter().map(counters))
}

fn group(entry: &GroupReport) -> Vec<String> {
    let GroupReport { vlan, group, port, version, mode, sources, age, expires } = entry;
    let sources = if sources.is_empty() { "-".to_owned() } else { sources.join(" ") };
    let times = [age, expires].map(|time| format!("{time} s"));
    let texts = [vlan.to_string(), group.clone(), port.clone(), version.clone(), mode.clone(), sources];
    texts.into_iter().chain(times).collect()
}

fn router(router: &RouterReport) -> Vec<String> {
    vec![
        router.vlan.map_or_else(|| "all".to_owned(), |vlan| vlan.to_string()),
        router.port.clone(),
        router.address.clone().unwrap_or_else(|| "configured".to_owned()),
        router.expires.map_or_else(|| "-".to_owned(), |time| format!("{time} s")),
    ]
}

fn querier(querier: &QuerierReport) -> Vec<String> {
    let port = querier.port.clone().unwrap_or_else(|| "this bridge".to_owned());
    vec![querier.vlan.to_string(), querier.address.clone(), port]
}

fn counters(port: &MulticastPortReport) -> Vec<String> {
    let MulticastPortReport { port, queries, reports, port_full, bridge_full, reserved, invalid } = port;
    let numbers = [reports, queries, port_full, bridge_full, reserved].map(ToString::to_string);
    let invalid = invalid.iter().filter(|(_, count)| **count > 0);
    let invalid: Vec<_> = invalid.map(|(reason, count)| format!("{reason} {count}")).collect();
    let invalid = if invalid.is_empty() { "-".to_owned() } else { invalid.join(", ") };
    [port.clone()].into_iter().chain(numbers).chain([invalid]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_routers_and_counters_are_shown() {
        let report = serde_json::json!({
            "bridge": "lan", "total": 1, "max_groups": 8,
            "groups": [{ "vlan": 10, "group": "239.1.2.3", "port": "red", "version": "IGMPv3", "mode": "exclude",
                "sources": [], "age": 4, "expires": 256 }],
            "routers": [{ "port": "up" }],
            "queriers": [{ "vlan": 10, "address": "0.0.0.0" }],
            "ports": [{ "port": "red", "queries": 0, "reports": 3, "port_full": 0, "bridge_full": 0,
                "reserved": 1, "invalid": { "checksum": 2, "type": 0 } }],
        });
        let text = bridge(&serde_json::from_value(report).unwrap());
        let words =
            |line: usize| text.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(2), "10 239.1.2.3 red IGMPv3 exclude - 4 s 256 s");
        assert_eq!(words(5), "all up configured -");
        assert_eq!(words(8), "10 0.0.0.0 this bridge");
        assert_eq!(words(11), "red 3 0 0 0 1 checksum 2");
    }
}
