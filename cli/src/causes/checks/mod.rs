//! The table of known causes. Each check is a function from the evidence to findings; `losses` has one for each reason
//! of drops.

mod bridges;
mod features;
mod host;
mod interfaces;
mod losses;
mod sockets;
#[cfg(test)]
mod tests;
mod workers;

use super::evidence::Evidence;
use super::findings::{Effect, Finding, Found};
use std::collections::BTreeMap;

/// A known cause.
pub(super) struct Check {
    /// Name, which is stable.
    pub(super) name: &'static str,
    pub(super) effect: Effect,
    pub(super) cause: &'static str,
    /// Remedy, unless a finding has a better one.
    pub(super) remedy: &'static str,
    find: fn(&Evidence) -> Vec<Found>,
}

/// All checks but those of drops.
pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "socket-no-peer",
        effect: Effect::Down,
        cause: "nothing has connected to the socket of the port",
        remedy: "start the guest with this socket: `linerate snippet PORT --for qemu` prints its options",
        find: sockets::no_peer,
    },
    Check {
        name: "socket-both-listen",
        effect: Effect::Down,
        cause: "both sides listen at the socket, so that neither connects",
        remedy: "write mode = \"client\" in the section of the port, or remove `server=on` from the guest",
        find: sockets::both_listen,
    },
    Check {
        name: "socket-missing",
        effect: Effect::Down,
        cause: "the port connects, and no process has created the socket: the peer is not started, or connects too",
        remedy: "start the peer, or write mode = \"server\" in the section of the port if the peer connects",
        find: sockets::missing,
    },
    Check {
        name: "socket-stale",
        effect: Effect::Down,
        cause: "the file of the socket remains from a process that has ended: no process listens",
        remedy: "start the peer again, or write mode = \"server\" in the section of the port if the peer connects",
        find: sockets::stale,
    },
    Check {
        name: "socket-removed",
        effect: Effect::Down,
        cause: "the switch listens, and the file of its socket was removed or replaced: no peer can find it",
        remedy: "remove and add the port (`linerate ports remove`, `linerate ports add`), or restart the switch",
        find: sockets::removed,
    },
    Check {
        name: "socket-access",
        effect: Effect::Down,
        cause: "only the owner of the socket may connect to it",
        remedy: "write socket_group and socket_mode = \"0660\" in the section of the port, with the group of the peer",
        find: sockets::access,
    },
    Check {
        name: "socket-permission",
        effect: Effect::Down,
        cause: "the switch may not connect to the socket of the peer",
        remedy: "give the user of the switch write permission on the socket and search permission on its directory",
        find: sockets::permission,
    },
    Check {
        name: "socket-path",
        effect: Effect::Down,
        cause: "the switch cannot create the socket at this path",
        remedy: "create its directory (`mkdir -p`), or remove the file that is no socket; the port finds it by itself",
        find: interfaces::path,
    },
    Check {
        name: "memory-not-shared",
        effect: Effect::Down,
        cause: "the front end is connected and shares no memory",
        remedy: "QEMU: -object memory-backend-memfd,id=mem,size=SIZE,share=on -numa node,memdev=mem; libvirt: \
            <memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>",
        find: features::memory,
    },
    Check {
        name: "driver-not-running",
        effect: Effect::Down,
        cause: "the front end is connected, and the driver of its guest runs no queue",
        remedy: "boot the guest, load its driver and set the interface up (`ip link set dev eth0 up`)",
        find: features::driver,
    },
    Check {
        name: "interface-missing",
        effect: Effect::Down,
        cause: "the interface of the port does not exist, or was removed",
        remedy: "create the interface or correct `interface`; the port finds it by itself",
        find: interfaces::missing,
    },
    Check {
        name: "namespace-missing",
        effect: Effect::Down,
        cause: "the network namespace of the port does not exist or cannot be entered",
        remedy: "create it (`ip netns add NAME`) or correct `netns`; the port finds it by itself",
        find: interfaces::namespace,
    },
    Check {
        name: "interface-down",
        effect: Effect::Down,
        cause: "the interface of the port is down or has no carrier",
        remedy: "ip link set dev INTERFACE up, and connect the cable or the other end",
        find: interfaces::down,
    },
    Check {
        name: "interface-in-use",
        effect: Effect::Down,
        cause: "another process uses the interface or its queues",
        remedy: "end the other process, or name another interface",
        find: interfaces::in_use,
    },
    Check {
        name: "privileges",
        effect: Effect::Down,
        cause: "the switch lacks a privilege that the port needs",
        remedy: "run the switch as root, or with CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF; `netns` needs CAP_SYS_ADMIN",
        find: interfaces::privileges,
    },
    Check {
        name: "kernel-support",
        effect: Effect::Down,
        cause: "the kernel or the driver does not support a setting of the port",
        remedy: "write mode = \"auto\" and attach = \"auto\" (af_xdp) or leave out io (tap), or use another kind of port",
        find: interfaces::support,
    },
    Check {
        name: "features-refused",
        effect: Effect::Down,
        cause: "the two ends do not agree on features of the device",
        remedy: "change `ring`, `mergeable`, `queue_pairs` or `mtu` of the port to values that the other end supports",
        find: features::refused,
    },
    Check {
        name: "fault",
        effect: Effect::Down,
        cause: "the port was stopped because of a fault",
        remedy: "see docs/guide/troubleshooting.md for the reason, and the log of the switch",
        find: interfaces::fault,
    },
    Check {
        name: "bond-down",
        effect: Effect::Down,
        cause: "no member of the bond can be used",
        remedy: "set the links of the members up; `linerate bonds show BOND` has their state and that of LACP",
        find: bridges::bond_down,
    },
    Check {
        name: "bond-member",
        effect: Effect::Slow,
        cause: "a member of the bond is not used",
        remedy: "set the link of the member up, or correct LACP at the other end; see `linerate bonds show BOND`",
        find: bridges::bond_member,
    },
    Check {
        name: "controller-away",
        effect: Effect::Slow,
        cause: "the bridge is not connected to a controller",
        remedy: "start the controller, or correct `controllers` in `[[bridge]]`",
        find: bridges::controller_away,
    },
    Check {
        name: "queue-pairs",
        effect: Effect::Slow,
        cause: "the guest runs fewer queue pairs than the port has",
        remedy: "guest: `ethtool -L eth0 combined N`; QEMU: queues=N, mq=on and vectors=2N+2",
        find: features::queue_pairs,
    },
    Check {
        name: "mergeable",
        effect: Effect::Loss,
        cause: "packets are longer than the buffers of the guest, which has not negotiated mergeable buffers",
        remedy: "QEMU: mrg_rxbuf=on; or lower the MTU of the senders",
        find: features::mergeable,
    },
    Check {
        name: "software-offload",
        effect: Effect::Slow,
        cause: "the switch segments large packets, or completes checksums, because the receiver supports neither",
        remedy: "negotiate offloads at the receiver: QEMU guest_csum=on,guest_tso4=on,guest_tso6=on, and offloads = true",
        find: features::offloads,
    },
    Check {
        name: "af-xdp-copy",
        effect: Effect::Slow,
        cause: "the kernel copies the packets of the AF_XDP port",
        remedy: "use a driver with zero-copy AF_XDP, and write attach = \"native\"",
        find: features::copies,
    },
    Check {
        name: "tap-calls",
        effect: Effect::Slow,
        cause: "the TAP port makes a system call for each packet: io_uring is not available",
        remedy: "use Linux 6.7 or later, and permit io_uring (`sysctl kernel.io_uring_disabled=0`)",
        find: features::tap_calls,
    },
    Check {
        name: "not-draining",
        effect: Effect::Loss,
        cause: "the peer does not take packets from its queue",
        remedy: "look at the guest: it hangs, is paused, its interface is down, or its virtual CPU gets no time",
        find: losses::not_draining,
    },
    Check {
        name: "worker-hung",
        effect: Effect::Down,
        cause: "a worker neither sleeps nor ends a round",
        remedy: "look at the machine: no CPU time, or a page fault that a disk does not serve; restart the switch",
        find: workers::hung,
    },
    Check {
        name: "worker-saturated",
        effect: Effect::Loss,
        cause: "a worker has no time left",
        remedy: "add workers with CPUs of their own and raise `queue_pairs`, or `linerate rebalance`",
        find: workers::saturated,
    },
    Check {
        name: "buffers-empty",
        effect: Effect::Loss,
        cause: "the pool of packet buffers was empty",
        remedy: "lower the number of stages and of packets that wait (`limit` of `queues`), or add memory",
        find: workers::buffers,
    },
    Check {
        name: "cpu-guest",
        effect: Effect::Slow,
        cause: "a virtual CPU of a guest runs on the CPU of a worker",
        remedy: "pin the guest to other CPUs (libvirt: <cputune>), or write another `cpu` in `[[worker]]`",
        find: workers::guest,
    },
    Check {
        name: "cpu-shared",
        effect: Effect::Slow,
        cause: "other threads use the CPU of a worker, which has to wait for it",
        remedy: "move them (`taskset -p`), isolate the CPU (`isolcpus`), or write another `cpu` in `[[worker]]`",
        find: workers::shared,
    },
    Check {
        name: "cpu-sibling",
        effect: Effect::Slow,
        cause: "the other thread of the core of a worker is busy",
        remedy: "leave the sibling idle, or see `linerate placement machine` for another core",
        find: workers::sibling,
    },
    Check {
        name: "cpu-unpinned",
        effect: Effect::Slow,
        cause: "a busy worker has no CPU of its own: the kernel moves it",
        remedy: "write `cpu` in `[[worker]]`, or `[placement]`",
        find: workers::unpinned,
    },
    Check {
        name: "cpu-governor",
        effect: Effect::Slow,
        cause: "the frequency of the CPU of a worker follows its load",
        remedy: "cpupower frequency-set -g performance",
        find: host::governor,
    },
    Check {
        name: "cpu-steal",
        effect: Effect::Slow,
        cause: "the host of this virtual machine takes time from the CPU of a worker",
        remedy: "give the virtual machine CPUs of its own",
        find: host::steal,
    },
    Check {
        name: "huge-pages",
        effect: Effect::Slow,
        cause: "a worker is saturated, and no huge pages are reserved for the pool of packet buffers",
        remedy: "sysctl vm.nr_hugepages=64, then restart the switch",
        find: host::huge_pages,
    },
];

/// All findings, the most severe first: one of each check about a subject.
pub(crate) fn all(evidence: &Evidence) -> Vec<Finding> {
    let named = CHECKS.iter().flat_map(|check| {
        (check.find)(evidence).into_iter().map(|found| Finding {
            check: check.name,
            effect: check.effect,
            subject: found.subject,
            cause: check.cause.to_owned(),
            evidence: found.evidence,
            remedy: found.remedy.unwrap_or_else(|| check.remedy.to_owned()),
        })
    });
    let mut findings = joined(named.chain(losses::findings(evidence)));
    findings.sort_by_key(|finding| finding.effect);
    findings
}

/// Findings of the same check about the same subject are one, with the evidence of all.
fn joined(findings: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let (mut all, mut places) = (Vec::<Finding>::new(), BTreeMap::new());
    for finding in findings {
        let place = *places.entry((finding.check, finding.subject.clone())).or_insert(all.len());
        match all.get_mut(place) {
            Some(first) => first.evidence.extend(finding.evidence),
            None => all.push(finding),
        }
    }
    all
}
