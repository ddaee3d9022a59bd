//! Helpers shared by the snippets.

use crate::settings::kinds::socket::SocketSettings;
use crate::settings::topology::PortSettings;
use console::Diagnostic;
use wire::MacAddress;

/// Returns a locally administered MAC address: the FNV-1a hash of the host, the port's name and its `place`, such as
/// the path of its socket. It is stable for a host and a port, and differs between hosts and between switches of a
/// host.
pub(super) fn mac(host: &str, name: &str, place: &str) -> MacAddress {
    let parts = [host, name, place].into_iter().flat_map(|part| part.bytes().chain([0]));
    let hash = parts.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let [hash @ .., _, _, _] = hash.to_be_bytes();
    MacAddress::new([0x02, hash[0], hash[1], hash[2], hash[3], hash[4]])
}

/// Rejects a socket path with a comma, which separates arguments in DPDK's `--vdev`.
pub(super) fn no_comma(port: &PortSettings, socket: &SocketSettings) -> Result<(), Diagnostic> {
    if !socket.path.as_os_str().as_encoded_bytes().contains(&b',') {
        return Ok(());
    }
    let reason = format!("DPDK does not support paths with a comma, such as {}", socket.path.display());
    Err(Diagnostic::bad(format!("port {}", port.name), reason, "choose another `socket`"))
}

/// Section of another linerate: a port of kind `kind` with the opposite mode of `socket`.
pub(super) fn linerate(port: &PortSettings, kind: &str, socket: &SocketSettings) -> String {
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

/// Quotes `text` as a TOML string. JSON escapes are valid in TOML.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Quotes `word` for a shell.
pub(super) fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./,=:+@%".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Escapes `text` as the value of an XML attribute.
pub(super) fn xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&apos;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_names_get_different_addresses_that_stations_may_have() {
        let usual = mac("one", "a", "/run/a");
        assert_ne!(usual, mac("one", "b", "/run/a"));
        assert_ne!(usual, mac("other", "a", "/run/a"), "two hosts with a port of one name");
        assert_ne!(usual, mac("one", "a", "/tmp/a"), "two switches with a port of one name");
        assert_eq!(usual, mac("one", "a", "/run/a"));
        assert!(usual.is_local() && !usual.is_group());
    }
}
