//! Keys of the switch, its workers and their placement.

use crate::settings::access::Access;
use crate::settings::reader::key::{Key, key, optional};

/// `[switch]`
pub(crate) const SWITCH: &[Key] = &[
    key("name", "\"linerate\"", "Name of the switch in listings."),
    optional(
        "control",
        "`/run/linerate/control.sock` for root, else `$XDG_RUNTIME_DIR/linerate.sock`, else \
         `/tmp/linerate-UID/control.sock`",
        "Absolute path of the control socket; `--control` overrides it.",
    ),
    optional(
        "control_mode",
        "only the user of the switch may connect",
        "Permission of the control socket in octal, such as `\"0660\"`.",
    ),
    optional("control_group", "the group of the process", "Group of the control socket."),
    optional(
        "read_socket",
        "none",
        "Absolute path of a second socket of the control API, at which the switch can be read and not be changed.",
    ),
    optional(
        "read_mode",
        "`\"0660\"` with `read_group`, else `\"0666\"`",
        "Permission of `read_socket` in octal.",
    ),
    optional("read_group", "the group of the process", "Group of `read_socket`."),
    optional(
        "grants",
        "none",
        "Absolute path of a socket at which applications request ports. Every user may connect; `[[grant]]` sections \
         name the users that obtain a port.",
    ),
    optional(
        "metrics",
        "none",
        "IP address and TCP port at which every host may read the metrics (`GET /metrics`, `/healthz`, `/readyz`), \
         unencrypted.",
    ),
    optional(
        "web",
        "none",
        "Loopback address and TCP port of the web page, such as `127.0.0.1:9102`; `--web` overrides it.",
    ),
    optional(
        "web_token_file",
        "a random token for each start, which the log has",
        "Absolute path of a file with the token that opens the web page: 32 to 256 letters, digits, `-` and `_`. Users \
         other than its owner and group must have no access.",
    ),
    key(
        "web_capture",
        "false",
        "Whether the web page may capture packets of a port, which it reads otherwise only as counts.",
    ),
    optional(
        "api",
        "none",
        "The control API over TCP, with TLS: a table. Clients are recognised by `client_ca`, `token_file`, or either.",
    ),
    optional("api.address", "required in the table", "IP address and TCP port, such as `192.0.2.1:9443`."),
    optional(
        "api.private_key",
        "required in the table",
        "Absolute path of the private key of the switch, in PEM.",
    ),
    optional(
        "api.certificate",
        "required in the table",
        "Absolute path of the certificate of the switch, followed by intermediate ones.",
    ),
    optional(
        "api.client_ca",
        "required without `token_file`",
        "Absolute path of the certificates that those of clients must be signed with. Such clients may change the switch.",
    ),
    optional(
        "api.token_file",
        "required without `client_ca`",
        "Absolute path of a file with a line for each client: its name, `read` or `write`, and its token of 32 to 256 \
         letters, digits, `-` and `_`. Users other than its owner and group must have no access.",
    ),
    optional(
        "management_addresses",
        "none",
        "IP addresses at which the machine is managed, at most 8, for neighbours of ports with `lldp`.",
    ),
    key(
        "rss",
        "\"symmetric\"",
        "Distribution of flows to the queue pairs of a port: by a hash that is equal for both directions of a flow, by \
         the Toeplitz hash of network cards, or by the queue pair on which the packet arrived.",
    ),
    key(
        "confine",
        "true",
        "Whether the process gives up capabilities and system calls that its ports do not need.",
    ),
    optional(
        "runtime_kinds",
        "all kinds",
        "Kinds of ports that may be added while the switch runs, besides those in the file, and `netns` for ports in \
         other network namespaces. What other kinds need is given up.",
    ),
    optional(
        "paths",
        "clients of the user of the switch and of root: any; others: directories of files that the configuration names",
        "Directories below which files are that requests name: sockets, captures, traces. With it, the switch itself \
         writes to no others, where the kernel has Landlock.",
    ),
    optional(Access::MODE.name, "by the umask", "Default of `socket_mode` of all ports."),
    optional(Access::OWNER.name, "the user of the process", "Default of `socket_owner` of all ports."),
    optional(Access::GROUP.name, "the group of the process", "Default of `socket_group` of all ports."),
];

const POLLING: Key =
    key("polling", "\"adaptive\"", "Idle worker: sleeps until a notification, or polls always.");

const QUEUE_FULL: Key = key(
    "queue_full",
    "\"drop\"",
    "Full destination: the packet is dropped and counted, or the worker waits.",
);

/// `[[worker]]`
pub(crate) const WORKER: &[Key] = &[
    optional("cpu", "chosen by the kernel or by `[placement]`", "CPU to which the worker is pinned."),
    POLLING,
    QUEUE_FULL,
];

/// `[worker]`
pub(crate) const WORKERS: &[Key] = &[
    key("model", "\"run-to-completion\"", "Execution model of all workers."),
    POLLING,
    QUEUE_FULL,
    optional(
        "rx",
        "required in a pipeline without `stages` in `[placement]`",
        "CPUs that receive packets from ports, in a pipeline.",
    ),
    optional(
        "work",
        "one worker; required in a pipeline without `stages` in `[placement]`",
        "CPUs of the workers; in a pipeline, CPUs that classify packets.",
    ),
    optional(
        "tx",
        "required in a pipeline without `stages` in `[placement]`",
        "CPUs that send packets to ports, in a pipeline.",
    ),
    key(
        "rss_mode",
        "\"queues\"",
        "Run to completion: each queue has one worker, or flows of ports with one queue pair are distributed to all \
         workers in software.",
    ),
    key("ring", "1024", "Packets in a handoff queue between two workers, a power of two."),
    optional("write_unit", "those of one burst", "Packets that are made visible to the next stage at once."),
    key("read_unit", "64", "Packets that are taken from the previous stage at once."),
    key(
        "full",
        "\"wait\"",
        "Full handoff queue: the stage receives only as many packets as fit, or drops and counts them.",
    ),
    key(
        "order",
        "\"flow\"",
        "Packets that keep their order between stages: those of a flow, of a port, or none.",
    ),
];

/// `[placement]`
pub(crate) const PLACEMENT: &[Key] = &[
    key(
        "pattern",
        "\"separate\"",
        "Stages that share a thread or a core: none, Rx and Tx (`io`), all, Rx and work, Tx and work, Rx and Tx as two \
         threads of one core (`quasi-io`), or as the machine allows.",
    ),
    optional(
        "cpus",
        "all CPUs of the process's affinity mask",
        "CPUs to use, in this order: a list, or ranges such as `\"2-3,8\"`.",
    ),
    optional("node", "the node of the interfaces' devices", "NUMA node near which workers are placed."),
    optional(
        "queues",
        "the worker with the fewest queues",
        "Worker of all queues of a port, or of one queue pair as `\"port.pair\"`.",
    ),
    optional("isolated", "none", "Ports, and queue pairs as `\"port.pair\"`, whose worker serves no others."),
    key("rebalance", "\"off\"", "Unequal load of workers: ignored, reported, or corrected by moving queues."),
    key("interval", "\"5s\"", "Duration of a load measurement, from 100ms to 1h."),
    key(
        "threshold",
        "0.1",
        "Minimum gain of a move: reduction of the highest worker load, as a share of a core.",
    ),
    optional(
        "stages",
        "none; `[worker]` lists CPUs",
        "Number of stages of a pipeline, which replaces the lists of `[worker]`.",
    ),
    key("stages.rx", "1", "Stages that receive."),
    key("stages.work", "1", "Stages that classify."),
    key("stages.tx", "1", "Stages that send."),
];
