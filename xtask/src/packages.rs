//! Debian packages required by tests and benchmarks. Missing packages are installed if run as root; otherwise the error
//! has the command to run.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::command;
use crate::steps::Outcome;

const LIMIT: Duration = Duration::from_mins(15);

/// A tool, and the packages that may contain it, depending on the release; tried in this order.
#[derive(Debug)]
pub(crate) struct Need {
    probe: Probe,
    packages: &'static [&'static str],
    recommended: bool,
}

impl Need {
    const fn new(probe: Probe, packages: &'static [&'static str]) -> Need {
        Need { probe, packages, recommended: false }
    }
}

#[derive(Debug)]
enum Probe {
    Program(&'static str),
    File(&'static str),
    Package(&'static str),
}

/// Tools of the end-to-end tests.
pub(crate) const TESTS: &[Need] = &[
    IP,
    TESTPMD,
    OVS,
    OVS_IN_USER_SPACE,
    QEMU,
    BUSYBOX,
    Need::new(Probe::Program("ovs-testcontroller"), &["openvswitch-testcontroller"]),
    Need::new(Probe::Program("passt"), &["passt"]),
    XZ,
    Need::new(Probe::Program("openssl"), &["openssl"]),
    Need::new(Probe::Program("virt-xml-validate"), &["libvirt-clients"]),
    Need::new(Probe::Program("xmllint"), &["libxml2-utils"]),
    Need::new(Probe::Program("apparmor_parser"), &["apparmor"]),
    PYTHON3,
    Need::new(Probe::Package("python3-prometheus-client"), &["python3-prometheus-client"]),
    Need::new(Probe::Program("valgrind"), &["valgrind"]),
    ETHTOOL,
    SYSCTL,
    PING,
    IPERF,
    Need::new(Probe::Program("tcpdump"), &["tcpdump"]),
    Need::new(Probe::Program("curl"), &["curl"]),
    Need::new(Probe::Program("nc"), &["netcat-openbsd"]),
    Need::new(Probe::Program("redis-server"), &["redis-server"]),
    Need::new(Probe::Program("tshark"), &["tshark"]),
    Need::new(Probe::Program("nfcapd"), &["nfdump"]),
    Need::new(Probe::Program("sfcapd"), &["nfdump-sflow"]),
    Need::new(Probe::Program("lldpd"), &["lldpd"]),
    Need::new(Probe::Program("traceroute"), &["traceroute"]),
    Need::new(Probe::Program("dnsmasq"), &["dnsmasq-base"]),
    Need::new(Probe::Program("nft"), &["nftables"]),
    Need::new(Probe::Program("systemd-nspawn"), &["systemd-container"]),
    Need::new(Probe::Program("rpm"), &["rpm"]),
    Need::new(Probe::Program("chromium"), &["chromium"]),
    WRK,
    NGINX,
    MEMCACHED,
    Need::new(Probe::Program("memccapable"), &["libmemcached-tools"]),
    Need::new(Probe::Package("python3-pymemcache"), &["python3-pymemcache"]),
    Need::new(Probe::Package("python3-scapy"), &["python3-scapy"]),
    Need::new(Probe::Program("osken-manager"), &["python3-os-ken"]),
    Need::new(Probe::Package("python3-pyftpdlib"), &["python3-pyftpdlib"]),
];

/// Environments of Python programs that are no packages.
pub(crate) const PYTHON: &[Need] = &[Need::new(Probe::Package("python3-venv"), &["python3-venv"])];

/// The C compiler for another architecture, which the check of the tree needs for dependencies with C code.
pub(crate) const CROSS: &[Need] = &[
    Need::new(Probe::Program("aarch64-linux-gnu-gcc"), &["gcc-aarch64-linux-gnu"]),
    Need::new(Probe::Package("libc6-dev-arm64-cross"), &["libc6-dev-arm64-cross"]),
];

/// The C compiler of static programs.
pub(crate) const MUSL: &[Need] = &[Need::new(Probe::Program("musl-gcc"), &["musl-tools"])];

/// Switches compared by the benchmarks.
pub(crate) const PEERS: &[Need] = &[TESTPMD, OVS];

/// Captures of these switches.
pub(crate) const CAPTURE: &[Need] = &[
    Need::new(Probe::Program("dpdk-dumpcap"), &["dpdk", "dpdk-dev"]),
    Need::new(Probe::Program("ovs-tcpdump"), &["openvswitch-switch", "openvswitch-common"]),
    Need::new(Probe::Package("python3-openvswitch"), &["python3-openvswitch"]),
    Need::new(Probe::Package("python3-netifaces"), &["python3-netifaces"]),
    Need::new(Probe::Program("tcpdump"), &["tcpdump"]),
    PYTHON3,
];

/// Build requirements of the DPDK ring and pool benchmark.
pub(crate) const RINGS: &[Need] = &[
    Need::new(Probe::Package("libdpdk-dev"), &["libdpdk-dev"]),
    Need::new(Probe::Program("cc"), &["gcc"]),
    Need::new(Probe::Program("pkg-config"), &["pkg-config"]),
];

/// Tools of every row of the benchmark of the TCP/IP stack.
pub(crate) const STACK: &[Need] = &[IP];

/// Tools of its rows bulk, http and kv.
pub(crate) const BULK: &[Need] = &[ETHTOOL];
pub(crate) const HTTP: &[Need] = &[NGINX, WRK];
pub(crate) const KV: &[Need] = &[MEMCACHED, Need::new(Probe::Program("memcaslap"), &["libmemcached-tools"])];

/// Tools and libraries for building and running iip.
pub(crate) const IIP: &[Need] = &[
    TESTPMD,
    Need::new(Probe::Package("libdpdk-dev"), &["libdpdk-dev"]),
    Need::new(Probe::Package("libnuma-dev"), &["libnuma-dev"]),
    Need::new(Probe::Program("cc"), &["gcc"]),
    Need::new(Probe::Program("make"), &["make"]),
    Need::new(Probe::Program("pkg-config"), &["pkg-config"]),
    Need::new(Probe::Program("git"), &["git"]),
];

/// Tools of the interface and TCP benchmarks between network namespaces.
pub(crate) const NET: &[Need] = &[IP, SYSCTL, PING, IPERF, ETHTOOL, PYTHON3, OVS_IN_USER_SPACE];

/// Tools of the benchmark with QEMU guests.
pub(crate) const GUESTS: &[Need] = &[OVS, IP, QEMU, BUSYBOX, XZ, IPERF];

const QEMU: Need = Need::new(Probe::Program("qemu-system-x86_64"), &["qemu-system-x86"]);
const BUSYBOX: Need = Need::new(Probe::Package("busybox-static"), &["busybox-static"]);
const XZ: Need = Need::new(Probe::Program("xz"), &["xz-utils"]);
const NGINX: Need = Need::new(Probe::Program("nginx"), &["nginx-light", "nginx"]);
const WRK: Need = Need::new(Probe::Program("wrk"), &["wrk"]);
const MEMCACHED: Need = Need::new(Probe::Program("memcached"), &["memcached"]);
const IP: Need = Need::new(Probe::Program("ip"), &["iproute2"]);
const ETHTOOL: Need = Need::new(Probe::Program("ethtool"), &["ethtool"]);
const SYSCTL: Need = Need::new(Probe::Program("sysctl"), &["procps"]);
const PING: Need = Need::new(Probe::Program("ping"), &["iputils-ping"]);
const PYTHON3: Need = Need::new(Probe::Program("python3"), &["python3"]);
const IPERF: Need = Need::new(Probe::Program("iperf3"), &["iperf3"]);

// The drivers of DPDK are only recommended packages of the program.
const TESTPMD: Need =
    Need { recommended: true, ..Need::new(Probe::Program("dpdk-testpmd"), &["dpdk", "dpdk-dev"]) };

const OVS_IN_USER_SPACE: Need =
    Need::new(Probe::File("/usr/lib/openvswitch-switch/ovs-vswitchd"), &["openvswitch-switch"]);

const OVS: Need = Need::new(
    Probe::File("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"),
    &["openvswitch-switch-dpdk"],
);

impl Need {
    fn is_met(&self) -> bool {
        match self.probe {
            Probe::Program(name) => command::exists(name),
            Probe::File(path) => Path::new(path).exists(),
            Probe::Package(name) => is_installed(name),
        }
    }

    /// Installs the packages in order until the tool is available.
    fn install(&self) -> Result<()> {
        for package in self.packages {
            install(self.recommended, &[package])?;
            if self.is_met() {
                return Ok(());
            }
        }
        bail!("{:?} is still missing after installing {}", self.probe, self.packages.join(" and "))
    }
}

/// Installs packages, with those that they recommend if `recommended`.
fn install(recommended: bool, packages: &[&str]) -> Result<()> {
    let recommended = format!("APT::Install-Recommends={recommended}");
    let mut command = apt_get(&["install", "--yes", "--option", &recommended]);
    command::run(command.args(packages), LIMIT)
}

/// Installs the first package of each need: together, because apt-get reads its lists and dpkg runs its triggers for
/// each call.
fn install_first(needs: &[&Need]) -> Result<()> {
    for recommended in [true, false] {
        let needs = needs.iter().filter(|need| need.recommended == recommended);
        let packages: Vec<&str> = needs.filter_map(|need| need.packages.first()).copied().collect();
        if !packages.is_empty() {
            install(recommended, &packages)?;
        }
    }
    Ok(())
}

/// Installs all missing `needs`, even if one fails. Without root privileges, the error has the command to run.
pub(crate) fn ensure(needs: &[Need]) -> Result<Outcome> {
    let missing: Vec<&Need> = needs.iter().filter(|need| !need.is_met()).collect();
    if missing.is_empty() {
        eprintln!("all requirements are installed");
        return Ok(Outcome::Passed);
    }
    if !command::exists("apt-get") {
        let tools: Vec<_> = missing.iter().map(|need| &need.probe).collect();
        bail!("this is not a Debian system; install these tools: {tools:?}");
    }
    if !command::is_root() {
        let packages: Vec<_> = missing.iter().flat_map(|need| need.packages).copied().collect();
        let packages = packages.join(" ");
        bail!("packages are missing; run as root: apt-get update && apt-get install --yes {packages}");
    }
    command::run(&apt_get(&["update", "--quiet"]), LIMIT)?;
    // If one package does not exist, none of them is installed, and each need is met by itself.
    let _ = install_first(&missing);
    let missing = missing.iter().filter(|need| !need.is_met());
    let failed: Vec<String> =
        missing.filter_map(|need| Some(format!("{:#}", need.install().err()?))).collect();
    if failed.is_empty() { Ok(Outcome::Passed) } else { bail!("{}", failed.join("; ")) }
}

/// Non-interactive `apt-get`.
pub(crate) fn apt_get(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn is_installed(package: &str) -> bool {
    let query = ["--show", "--showformat=${db:Status-Status}", package];
    command::output(Command::new("dpkg-query").args(query)).is_ok_and(|status| status == "installed")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: Need = Need::new(Probe::File("/nonexistent/tool"), &["no-such-package"]);

    #[test]
    fn met_requirement_installs_nothing() {
        let shell = Need::new(Probe::Program("sh"), &["no-such-package"]);
        assert_eq!(ensure(&[shell]).unwrap(), Outcome::Passed);
    }

    #[test]
    fn missing_tool_is_a_requirement() {
        assert!(!ABSENT.is_met());
        assert!(!is_installed("no-such-package"));
    }
}
