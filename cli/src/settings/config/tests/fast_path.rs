//! The kernel fast path of AF_XDP ports.

use super::*;

/// A file whose port has these lines, from line 5 on, and its bridge these.
fn file(port: &str, bridge: &str) -> String {
    format!(
        "[[port]]\nname = \"a\"\nkind = \"af_xdp\"\ninterface = \"lr-eth0\"\n{port}\n[[bridge]]\nname = \"br0\"\n{bridge}\n"
    )
}

#[test]
fn port_with_the_fast_path_is_read_and_shown() {
    let text = file("kernel_fast_path = true\npeer_netns = \"red\"", "");
    let port = &parse(&text, &host(), None).unwrap().ports[0];
    assert!(port.kind.has_fast_path());
    assert!(port.to_string().contains("with the kernel fast path"), "{port}");
    assert!(parse(&file("kernel_fast_path = true", "pipeline = \"openflow\""), &host(), None).is_ok());
    assert!(!parse(&file("", ""), &host(), None).unwrap().ports[0].kind.has_fast_path());
}

#[test]
fn what_the_kernel_would_bypass_is_refused() {
    let fast = "kernel_fast_path = true";
    only(
        &file(&format!("{fast}\ntx_coalesce = {{ frames = 8 }}"), ""),
        "5: port \"a\": `kernel_fast_path` is not supported with `tx_coalesce` \
         (remove `kernel_fast_path` or `tx_coalesce`)",
    );
    only(
        &file(fast, "sflow = { collectors = [\"192.0.2.9\"] }"),
        "5: port \"a\": `kernel_fast_path` is not supported: bridge \"br0\" exports samples \
         (remove it, or `sflow` and `ipfix` of the bridge)",
    );
    only(
        &file(&format!("{fast}\nqueues = {{ rate = \"1Mbit/s\", classes = [\"0 rate=1Mbit/s\"] }}"), ""),
        "5: port \"a\": `kernel_fast_path` is not supported with `queues` \
         (remove `kernel_fast_path` or `queues`)",
    );
    only(
        &file(&format!("{fast}\nattach = \"generic\""), ""),
        "6: port \"a\": `kernel_fast_path` is not supported with `attach` = \"generic\" \
         (write attach = \"native\", or remove `kernel_fast_path`)",
    );
    only(
        &file("peer_netns = \"red\"", ""),
        "5: port \"a\": `peer_netns` has no effect without `kernel_fast_path` \
         (write kernel_fast_path = true, or remove `peer_netns`)",
    );
}
