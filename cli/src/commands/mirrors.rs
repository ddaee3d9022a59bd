//! `linerate mirrors ...`

use super::unsaved;
use crate::api::client::{Client, quote};
use crate::api::model::MirrorReport;
use crate::args::mirrors::{MirrorsAddArgs, MirrorsCommand};
use crate::settings::mirror::MirrorSettings;
use crate::settings::section;
use console::{Diagnostic, table};

/// Runs the command.
pub(crate) fn run(client: &Client, command: &MirrorsCommand) -> anyhow::Result<()> {
    match command {
        MirrorsCommand::Show(args) => {
            let mut mirrors: Vec<MirrorReport> = client.get("/v1/mirrors")?;
            let Some(name) = &args.name else {
                return console::print(&mirrors, args.show.output, |mirrors| list(mirrors));
            };
            mirrors.retain(|mirror| mirror.settings.name == *name);
            let Some(mirror) = mirrors.first() else {
                let remedy = "see `linerate mirrors show`";
                let place = format!("mirror \"{name}\"");
                return Err(Diagnostic::bad(place, "there is no such mirror", remedy).into());
            };
            console::print(mirror, args.show.output, |mirror| list(std::slice::from_ref(mirror)))
        }
        MirrorsCommand::Add(args) => {
            let added: MirrorReport = client.post("/v1/mirrors", &serde_json::to_value(settings(args))?)?;
            let section = unsaved::section(args.save, "mirror", "", &section::of("mirror", &added.settings)?);
            console::print(&added, args.show.output, |added| {
                format!("added {}, bridge {}{section}", added.settings, added.settings.bridge)
            })?;
            unsaved::added(client, args.save)
        }
        MirrorsCommand::Remove(args) => {
            let removed: MirrorReport = client.delete(&format!("/v1/mirrors/{}", quote(&args.name)))?;
            console::print(&removed, args.show.output, |removed| {
                format!("removed {}: {} packets", removed.settings, removed.packets)
            })?;
            unsaved::removed(client, args.save, "mirror")
        }
    }
}

fn settings(args: &MirrorsAddArgs) -> MirrorSettings {
    MirrorSettings {
        name: args.name.clone(),
        bridge: args.bridge.clone().unwrap_or_default(),
        source_ports: args.source_ports.clone(),
        destination_ports: args.destination_ports.clone(),
        all: args.all,
        vlans: args.vlans.clone(),
        output_port: args.output_port.clone(),
        output_vlan: args.output_vlan,
        snap_length: args.snap_length,
    }
}

fn list(mirrors: &[MirrorReport]) -> String {
    let rows = mirrors.iter().map(|MirrorReport { settings, active, packets, bytes }| {
        let ports = |ports: &[String]| match ports {
            _ if settings.all => "all".to_owned(),
            [] => "-".to_owned(),
            ports => ports.join(" "),
        };
        let vlans: Vec<_> = settings.vlans.iter().map(ToString::to_string).collect();
        let output = match (&settings.output_port, settings.output_vlan) {
            (Some(port), _) => format!("port {port}"),
            (None, vlan) => format!("VLAN {}", vlan.unwrap_or_default()),
        };
        vec![
            settings.name.clone(),
            settings.bridge.clone(),
            ports(&settings.source_ports),
            ports(&settings.destination_ports),
            if vlans.is_empty() { "all".to_owned() } else { vlans.join(" ") },
            if *active { output } else { format!("{output} (missing)") },
            settings.snap_length.map_or_else(|| "-".to_owned(), |length| length.to_string()),
            packets.to_string(),
            bytes.to_string(),
        ]
    });
    let titles =
        ["NAME", "BRIDGE", "RECEIVED BY", "SENT BY", "VLANS", "OUTPUT", ">SNAP", ">PACKETS", ">BYTES"];
    table(&titles, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_without_its_output_is_marked() {
        let settings = MirrorSettings {
            name: "m".to_owned(),
            bridge: "br0".to_owned(),
            source_ports: vec!["red".to_owned(), "blue".to_owned()],
            output_port: Some("probe".to_owned()),
            ..MirrorSettings::default()
        };
        let text = list(&[MirrorReport { settings, active: false, packets: 3, bytes: 180 }]);
        let last: Vec<_> = text.lines().last().unwrap().split_whitespace().collect();
        let expected = ["m", "br0", "red", "blue", "-", "all", "port", "probe", "(missing)", "-", "3", "180"];
        assert_eq!(last, expected);
    }
}
