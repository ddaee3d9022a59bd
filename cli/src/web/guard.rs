//! Which requests the page answers, and the headers of all its answers: protection against DNS rebinding, requests that
//! other sites cause, frames and injected scripts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Headers of all answers. Nothing is loaded from another origin or from markup, and scripts cannot write markup.
pub(crate) const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'",
    ),
    ("x-frame-options", "DENY"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Whether the `Host` of a request is a name of this machine's loopback interface. A site whose name was made to
/// resolve to the loopback address sends its own name. Any port is accepted: a forwarded one differs from that of the
/// switch.
pub(crate) fn is_local_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !name.ends_with(':') && !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_local = match literal {
        Some(address) => address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback()),
        None => {
            name.eq_ignore_ascii_case("localhost")
                || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        }
    };
    is_local && port.is_none_or(is_port)
}

/// Whether a browser says that the page itself, or the user, caused a request. Clients other than browsers send no
/// `Sec-Fetch-Site`.
pub(crate) fn is_own_site(site: Option<&str>) -> bool {
    matches!(site, None | Some("same-origin" | "none"))
}

/// Whether the page may be served at an address: without TLS, only where no packet leaves the machine.
pub(crate) fn is_private(address: IpAddr) -> bool {
    address.is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_of_the_loopback_interface() {
        for good in
            ["localhost", "LOCALHOST:9102", "127.0.0.1", "127.0.0.1:1", "127.8.9.1:80", "[::1]", "[::1]:9102"]
        {
            assert!(is_local_host(good), "{good}");
        }
        let bad = [
            "",
            ":80",
            "evil.example",
            "evil.example:9102",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "192.0.2.1:9102",
            "0.0.0.0",
            "[::]:80",
            "[::1",
            "::1",
            "[::1]x:80",
            "localhost:",
            "localhost:x",
            "localhost:80:80",
            "localhost:99999",
            "user@localhost",
            "localhost/",
        ];
        for bad in bad {
            assert!(!is_local_host(bad), "{bad}");
        }
    }

    #[test]
    fn requests_of_other_sites_are_recognised() {
        for own in [None, Some("same-origin"), Some("none")] {
            assert!(is_own_site(own), "{own:?}");
        }
        for other in ["cross-site", "same-site", "", "x"] {
            assert!(!is_own_site(Some(other)), "{other}");
        }
    }

    #[test]
    fn the_policy_permits_nothing_inline() {
        let (_, policy) = HEADERS[0];
        assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("data:"), "{policy}");
    }
}
