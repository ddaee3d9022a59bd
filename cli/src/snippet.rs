//! The lines that make the other end of a port. Pure text: a port goes in, what to paste comes out.
//!
//! What belongs to one kind of port stands with that kind; here is what they share. The other end takes the other side
//! of the socket: it connects where the switch listens and listens where the switch connects. The connecting side tries
//! again, so that either side may be restarted.

use crate::args::SnippetArgs;
use crate::config;
use crate::kinds::SocketSettings;
use crate::topology::PortSettings;
use crate::{api, host};
use console::Diagnostic;
use std::path::Path;
use wire::MacAddress;

/// The port that is asked for, from a file or from the running switch, as a snippet.
pub(crate) fn run(args: &SnippetArgs, control: Option<&Path>) -> anyhow::Result<String> {
    let port = if let Some(file) = &args.config {
        from_file(file, &args.port, control)?
    } else {
        let path = format!("/v1/ports/{}", api::client::quote(&args.port));
        api::client::Client::new(control).get::<api::model::PortReport>(&path)?.settings
    };
    Ok(port.kind.snippet(&port, args.kind)?)
}

fn from_file(file: &Path, name: &str, control: Option<&Path>) -> anyhow::Result<PortSettings> {
    let topology = config::read(file, &host::Host::here(), control)?;
    let names: Vec<String> = topology.ports.iter().map(|port| port.name.clone()).collect();
    let found = topology.ports.into_iter().find(|port| port.name == name);
    Ok(found.ok_or_else(|| {
        let remedy = match names.as_slice() {
            [] => "add a [[port]] section first".to_owned(),
            names => format!("name one of {}", names.join(", ")),
        };
        Diagnostic::bad(file.display(), format!("there is no port \"{name}\""), remedy)
    })?)
}

/// A locally administered address that is always the same for a name (FNV-1a of the name).
pub(crate) fn mac(name: &str) -> MacAddress {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let [hash @ .., _, _, _] = hash.to_be_bytes();
    MacAddress::new([0x02, hash[0], hash[1], hash[2], hash[3], hash[4]])
}

/// DPDK takes its devices as words between commas.
pub(crate) fn no_comma(port: &PortSettings, socket: &SocketSettings) -> Result<(), Diagnostic> {
    if !socket.path.as_os_str().as_encoded_bytes().contains(&b',') {
        return Ok(());
    }
    let reason = format!("DPDK takes no path with a comma, such as {}", socket.path.display());
    Err(Diagnostic::bad(format!("port {}", port.name), reason, "choose another `socket`"))
}

/// The section of another linerate's configuration: a port of kind `kind` at the other side of `socket`.
pub(crate) fn linerate(port: &PortSettings, kind: &str, socket: &SocketSettings) -> String {
    let mode = socket.mode.other();
    let section = format!(
        "[[port]]\nname = {}\nkind = \"{kind}\"\nsocket = {}\nmode = \"{mode}\"\n",
        quoted(&port.name),
        quoted(&socket.path.display().to_string()),
    );
    let pairs = match port.queue_pairs {
        1 => String::new(),
        pairs => format!("queue_pairs = {pairs}\n"),
    };
    section + &pairs + &port.mtu.map(|mtu| format!("mtu = {mtu}\n")).unwrap_or_default()
}

/// `text` as a string of a configuration: what JSON escapes, TOML reads.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// `word` as one word of a shell command.
pub(crate) fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./,=:+@%".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// `text` as the value of an XML attribute.
pub(crate) fn xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&apos;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_names_get_different_addresses_that_stations_may_have() {
        assert_ne!(mac("a"), mac("b"));
        assert!(mac("a").is_local() && !mac("a").is_group());
    }
}
