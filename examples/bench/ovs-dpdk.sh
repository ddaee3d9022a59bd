#!/usr/bin/env bash
# Open vSwitch with its DPDK data path, as a learning switch with its own database.
#   ovs-dpdk.sh CPU A B        one bridge
#   ovs-dpdk.sh CPU A B C D    two bridges, A with C and D with B, so that frames pass a guest at C and D
# Connects to the sockets. Needs root and 512 MiB of huge pages.
set -euo pipefail
cpu=$1; shift
daemon=/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk
[ -x "$daemon" ] || { echo "no $daemon: apt-get install openvswitch-switch-dpdk" >&2; exit 2; }
dir=$(mktemp -d); pids=()
export OVS_RUNDIR=$dir OVS_LOGDIR=$dir OVS_DBDIR=$dir OVS_SYSCONFDIR=$dir RUNTIME_DIRECTORY=$dir
stop() {
  trap - TERM INT EXIT
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait || true
  # The internal interface of a bridge stays behind after its daemon has ended.
  for bridge in lrbin lrbout; do ip link delete "$bridge" 2>/dev/null || true; done
  rm -rf "$dir"
}
trap 'stop; exit 0' TERM INT
trap stop EXIT
db=unix:$dir/db.sock
vsctl() { ovs-vsctl --db="$db" --timeout=30 "$@"; }
ovsdb-tool create "$dir/conf.db" /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server "$dir/conf.db" --remote="p$db" --unixctl="$dir/database.ctl" & pids+=($!)
until [ -S "$dir/db.sock" ]; do sleep 0.05; done
mask=$(printf '0x%x' $((1 << cpu)))
vsctl --no-wait init
vsctl --no-wait set Open_vSwitch . other_config:dpdk-init=true other_config:dpdk-socket-mem=512 \
  other_config:pmd-cpu-mask="$mask" other_config:dpdk-lcore-mask="$mask" \
  other_config:dpdk-extra="--no-pci --no-telemetry --file-prefix=lrb$$ --single-file-segments"
"$daemon" "$db" --unixctl="$dir/daemon.ctl" & pids+=($!)
bridge() { vsctl add-br "$1" -- set bridge "$1" datapath_type=netdev; }
port() {
  vsctl add-port "$1" "$2" -- set Interface "$2" type=dpdkvhostuserclient options:vhost-server-path="$3"
}
bridge lrbin; port lrbin vua "$1"
if [ $# -eq 4 ]; then
  bridge lrbout; port lrbin vuc "$3"; port lrbout vud "$4"; port lrbout vub "$2"
else
  port lrbin vub "$2"
fi
echo "Open vSwitch is ready"
# Exits if either daemon exits.
wait -n
exit 1
