#!/usr/bin/env bash
# Open vSwitch with its user space data path, without DPDK, between two interfaces created elsewhere, such as the
# generator's TAP ports.
#   ovs-tap.sh CPU INTERFACE INTERFACE
# Waits for the interfaces, uses its own database, and cleans up on exit. Needs root.
set -euo pipefail
cpu=$1; shift
daemon=/usr/lib/openvswitch-switch/ovs-vswitchd
[ -x "$daemon" ] || daemon=$(command -v ovs-vswitchd || true)
[ -n "$daemon" ] || { echo "no ovs-vswitchd: apt-get install openvswitch-switch" >&2; exit 2; }
dir=$(mktemp -d); pids=()
export OVS_RUNDIR=$dir OVS_LOGDIR=$dir OVS_DBDIR=$dir OVS_SYSCONFDIR=$dir RUNTIME_DIRECTORY=$dir
bridge=lrov$$
stop() {
  trap - TERM INT EXIT
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait || true
  # The internal interface of a bridge stays behind after its daemon has ended.
  ip link delete "$bridge" 2>/dev/null || true
  rm -rf "$dir"
}
trap 'stop; exit 0' TERM INT
trap stop EXIT
db=unix:$dir/db.sock
vsctl() { ovs-vsctl --db="$db" --timeout=30 "$@"; }
ovsdb-tool create "$dir/conf.db" /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server "$dir/conf.db" --remote="p$db" --unixctl="$dir/database.ctl" & pids+=($!)
until [ -S "$dir/db.sock" ]; do sleep 0.05; done
vsctl --no-wait init
vsctl --no-wait set Open_vSwitch . other_config:pmd-cpu-mask="$(printf '0x%x' $((1 << cpu)))"
taskset -c "$cpu" "$daemon" "$db" --unixctl="$dir/daemon.ctl" & pids+=($!)
vsctl add-br "$bridge" -- set bridge "$bridge" datapath_type=netdev
for interface in "$@"; do
  until ip link show "$interface" >/dev/null 2>&1; do sleep 0.05; done
  # Keeps IPv6 traffic of the kernel off the interface.
  sysctl -qw "net.ipv6.conf.$interface.disable_ipv6=1" || true
  ip link set "$interface" up
  vsctl add-port "$bridge" "$interface"
done
echo "Open vSwitch is ready"
wait -n
exit 1
