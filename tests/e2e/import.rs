//! `linerate import ovs` with the real tools of Open vSwitch: a database with many kinds of settings becomes a file
//! that `linerate check` accepts, and a switch runs with such a file.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use linerate_tests::guest::Guest;
use linerate_tests::ovs::OvsDatabase;
use linerate_tests::switch::Switch;
use linerate_tests::{binary, folder, need};

const REACTION: Duration = Duration::from_secs(30);
/// Bridge of the guests.
const BRIDGE: &str = "lr-import0";

/// Commands of `ovs-vsctl`, divided by empty lines; `DIR` is the folder of the test.
const MANY: &str = r#"
set Open_vSwitch . other_config:dpdk-init=true other_config:pmd-cpu-mask=0x1
    other_config:vhost-sock-dir=vhu external_ids:rundir=DIR external_ids:hostname=host1

set-ssl /etc/k.pem /etc/c.pem /etc/ca.pem

add-br lan -- set bridge lan datapath_type=netdev rstp_enable=true mcast_snooping_enable=true
    other_config:rstp-priority=8192 other_config:mac-aging-time=120 other_config:mac-table-size=4096
    other_config:forward-bpdu=true flood_vlans=7

add-port lan vm1 tag=10 -- set interface vm1 type=dpdkvhostuser mtu_request=9000
    external_ids:iface-id=abc

add-port lan vm2 -- set port vm2 vlan_mode=native-untagged tag=10 trunks=20,30 -- set interface vm2
    type=dpdkvhostuserclient options:vhost-server-path=DIR/vm2.sock ingress_policing_rate=10000
    ingress_policing_burst=1000

add-bond lan up eth0 eth1 bond_mode=balance-tcp lacp=active other_config:lacp-time=fast
    bond_updelay=200 other_config:bond-rebalance-interval=5000 -- set port up trunks=10,20 -- set
    interface eth0 other_config:lacp-port-priority=1

add-port lan eth2 trunks=10 -- set interface eth2 lldp:enable=true options:n_rxq=2 -- set port eth2
    other_config:rstp-path-cost=100

add-port lan probe -- set interface probe type=internal

add-port lan qinq tag=99 vlan_mode=dot1q-tunnel -- set interface qinq type=internal

add-port lan to-wan -- set interface to-wan type=patch options:peer=to-lan

-- --id=@p get port probe -- --id=@m create mirror name=span select_all=true output_port=@p
    select_vlan=10 -- set bridge lan mirrors=@m

-- --id=@q create qos type=linux-htb other_config:max-rate=1000000000 queues:0=@q0 queues:1=@q1 --
    --id=@q0 create queue other_config:min-rate=100000000 -- --id=@q1 create queue
    other_config:min-rate=200000000 other_config:max-rate=500000000 other_config:priority=1 dscp=46
    -- set port eth2 qos=@q

-- --id=@s create sflow targets="10.0.0.9:6343" sampling=64 agent=eth0 -- set bridge lan sflow=@s

-- --id=@n create netflow targets="10.0.0.9:2055" -- set bridge lan netflow=@n

add-br wan -- set bridge wan datapath_type=netdev protocols=OpenFlow13
    other_config:datapath-id=0000020000000001

set-controller wan tcp:192.0.2.1:6653 -- set-fail-mode wan standalone

add-port wan to-lan -- set interface to-lan type=patch options:peer=to-wan

add-port wan vx1 -- set interface vx1 type=vxlan options:remote_ip=192.0.2.7 options:key=77
    options:csum=true options:tos=inherit

add-port wan gn1 -- set interface gn1 type=geneve options:remote_ip=flow options:key=flow
    options:dst_port=6082

add-port wan gre1 -- set interface gre1 type=gre options:remote_ip=192.0.2.8 options:psk=secret

add-port wan stt1 -- set interface stt1 type=stt options:remote_ip=192.0.2.9

-- --id=@i create ipfix targets="10.0.0.9:4739" obs_domain_id=5 cache_active_timeout=30
    cache_max_flows=100 -- set bridge wan ipfix=@i

set interface gre1 bfd:enable=true
"#;

fn linerate(arguments: &[&str]) -> Output {
    let output = Command::new(binary::linerate()).args(arguments).output();
    output.unwrap_or_else(|error| panic!("cannot run linerate: {error}"))
}

/// Standard output of a command that succeeds.
fn printed(arguments: &[&str]) -> String {
    let output = linerate(arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[test]
#[ignore = "needs Open vSwitch: run by `cargo xtask test`"]
fn a_database_with_many_kinds_becomes_a_file_that_is_valid() {
    let folder = folder();
    fs::create_dir(folder.path().join("vhu")).unwrap();
    let database = OvsDatabase::start(folder.path());
    for words in MANY.split("\n\n") {
        database.configure(&words.replace("DIR", &shown(folder.path())));
    }
    let server = format!("unix:{}", shown(&database.socket()));
    let file = folder.path().join("imported.toml");
    let import = ["import", "ovs", "--db", &server, "--out", &shown(&file)];
    let output = linerate(&import);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    for said in
        ["flood_vlans: learning cannot", "Bridge lan, netflow: NetFlow", "gre1, options:psk: THE TUNNEL"]
    {
        assert!(errors.contains(said), "{said}: {errors}");
    }
    let topology = printed(&["check", &shown(&file)]);
    for part in
        ["bond up: balance-tcp of eth0, eth1, LACP active and fast", "vxlan to 192.0.2.7", "mirror span"]
    {
        assert!(topology.contains(part), "{part}: {topology}");
    }
    // A file is not overwritten.
    assert_eq!(linerate(&import).status.code(), Some(2));
    // The file of the database and a listing have the same content as the server.
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(printed(&["import", "ovs", &shown(&database.file())]), text);
    let dump = folder.path().join("dump.json");
    fs::write(&dump, database.dump()).unwrap();
    assert_eq!(printed(&["import", "ovs", &shown(&dump)]), text);
}

#[test]
#[ignore = "needs Open vSwitch: run by `cargo xtask test`"]
fn guests_of_open_vswitch_find_their_sockets() {
    let folder = folder();
    let database = OvsDatabase::start(folder.path());
    database.configure(&format!("set Open_vSwitch . external_ids:rundir={}", shown(folder.path())));
    // The interface of the bridge itself is created as a TAP interface.
    need::root("a TAP interface");
    database.configure(&format!("add-br {BRIDGE}"));
    for port in ["vm1", "vm2"] {
        let own = format!("add-port {BRIDGE} {port} tag=7 -- set interface {port} type=dpdkvhostuser");
        database.configure(&own);
    }
    let text = printed(&["import", "ovs", "--db", &format!("unix:{}", shown(&database.socket()))]);
    let control = folder.path().join("control.sock");
    let own = format!("[switch]\ncontrol = \"{}\"", shown(&control));
    let switch = Switch::start_from(folder.path(), &text.replacen("[switch]", &own, 1));
    let sockets = ["vm1", "vm2"].map(|name| folder.path().join(name));
    let guest = Guest::endless(folder.path(), "guest", "--connect", &[&sockets[0], &sockets[1]], &[]);
    for port in ["vm1", "vm2"] {
        switch.wait_running(port, 1, REACTION);
        let report = switch.ask(&["ports", "show", port]);
        assert_eq!(report.map(|report| report["settings"]["vlan"].clone()), Ok(7.into()));
    }
    drop(guest);
    switch.stop();
}
