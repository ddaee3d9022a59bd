//! Faucet, a controller of many tables: VLANs, access lists and routing. It is no package of Debian, so
//! `cargo xtask test --all` installs it.

use super::*;
use std::ffi::OsString;

/// The search path with its programs first. The variable `LINERATE_FAUCET` has their folder.
fn path() -> OsString {
    let folder = PathBuf::from(std::env::var_os("LINERATE_FAUCET").unwrap_or_default());
    if !folder.join("faucet").is_file() {
        need::skip("Faucet is not installed");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).expect("a search path")
}

/// The ports are in different VLANs, between which Faucet routes. Its access list drops UDP.
const CONFIGURATION: &str = r#"
vlans:
  first: {vid: 100, faucet_mac: "0e:00:00:00:01:00", faucet_vips: ["10.9.0.254/24"]}
  second: {vid: 200, faucet_mac: "0e:00:00:00:02:00", faucet_vips: ["10.9.1.254/24"]}
routers:
  between: {vlans: [first, second]}
acls:
  no-udp:
    - rule: {dl_type: 0x800, ip_proto: 17, actions: {allow: 0}}
    - rule: {actions: {allow: 1}}
dps:
  bridge:
    dp_id: 0xab
    hardware: "Open vSwitch"
    interfaces:
      1: {native_vlan: first, acl_in: no-udp}
      2: {native_vlan: second}
"#;

mod every {
    use super::*;

    #[test]
    #[ignore = "needs root and Faucet: run by `cargo xtask test --all`"]
    fn faucet_routes_between_vlans() {
        let path = path();
        let folder = folder();
        let (address, statistics) = (free_address(), free_address());
        let port = |address: &str| address.split_once(':').expect("an address with a port").1.to_owned();
        let file = folder.path().join("faucet.yaml");
        fs::write(&file, CONFIGURATION).unwrap();
        let set = |name: &str, value: &str| format!("{name}={value}");
        let words = [
            set("PATH", path.to_str().expect("UTF-8")),
            set("FAUCET_CONFIG", &file.display().to_string()),
            set("FAUCET_LOG", &folder.path().join("faucet.log").display().to_string()),
            set("FAUCET_EXCEPTION_LOG", &folder.path().join("exceptions.log").display().to_string()),
            set("FAUCET_PROMETHEUS_PORT", &port(&statistics)),
            set("FAUCET_PROMETHEUS_ADDR", "127.0.0.1"),
            "faucet".to_owned(),
            "--ryu-ofp-tcp-listen-port".to_owned(),
            port(&address),
            "--ryu-ofp-listen-host=127.0.0.1".to_owned(),
        ];
        let controller = Process::spawn(folder.path(), "faucet", "env", &words);
        let keys = format!(
            "datapath_id = \"00000000000000ab\"\ncontrollers = [\"tcp:{address}\"]\nmax_backoff = \"1s\""
        );
        let lab = Lab::start(folder.path(), &keys);
        lab.wait_controller("connected", false);
        lab.separate();
        for (netns, gateway) in [(&lab.left, "10.9.0.254"), (&lab.right, "10.9.1.254")] {
            netns.ip(&format!("route replace default via {gateway}"));
        }
        let routed = lab.is_routed();
        let flows = || lab.ofctl("OpenFlow13", &["dump-flows", BRIDGE]);
        let log = fs::read_to_string(folder.path().join("faucet.log")).unwrap_or_default();
        assert!(routed, "{}\n{}\n{log}\n{}", lab.openflow(), flows(), controller.output());
        // The controller answers for its own address.
        lab.left.ping("10.9.0.254", 1, &[]);
        assert!(flows().contains("udp,in_port=1 actions=drop"), "{}", flows());
        let exceptions = fs::read_to_string(folder.path().join("exceptions.log")).unwrap_or_default();
        assert_eq!(exceptions, "");
        lab.switch.stop();
    }
}
