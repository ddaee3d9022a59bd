//! The address of the web page.

use crate::web::guard::is_private;
use std::net::SocketAddr;

/// How a page is reached from other machines.
pub(crate) const REMEDY: &str =
    "write 127.0.0.1 or [::1] with a port; other machines reach it by `ssh -L` or a proxy with TLS";

/// The values of `web` and of `--web`.
pub(crate) const EXPECTED: &str = "a loopback address with a port, because the page has no TLS";

/// Whether the page may be served at an address.
pub(crate) fn is_allowed(address: SocketAddr) -> bool {
    is_private(address.ip()) && address.port() != 0
}

/// Parses an address of the command line.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse().ok().filter(|address| is_allowed(*address));
    address.ok_or_else(|| format!("expected {EXPECTED}; {REMEDY}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_are_accepted() {
        for good in ["127.0.0.1:9102", "127.1.2.3:80", "[::1]:9102"] {
            assert_eq!(address(good).map(|address| address.to_string()), Ok(good.to_owned()));
        }
        for bad in [
            "0.0.0.0:9102",
            "[::]:9102",
            "192.0.2.1:9102",
            "[::ffff:127.0.0.1]:9102",
            "127.0.0.1:0",
            "localhost:9102",
            "9102",
        ] {
            let said = address(bad).unwrap_err();
            assert!(
                said.contains("a loopback address with a port") && said.contains("ssh -L"),
                "{bad}: {said}"
            );
        }
    }
}
