#!/usr/bin/env bash
# DPDK's testpmd as a guest with two virtio-user devices; forwards between them.
#   testpmd-guest.sh CPU SOCKET SOCKET
# Creates the sockets for the switch to connect to; with CONNECT=1 it connects to the switch instead.
set -euo pipefail
cpu=$1; shift
command -v dpdk-testpmd >/dev/null || { echo "no dpdk-testpmd: apt-get install dpdk" >&2; exit 2; }
. "$(dirname "$0")/testpmd-memory.sh"
vdevs=(); n=0
for socket in "$@"; do
  vdevs+=(--vdev "net_virtio_user$n,path=$socket,queues=1,queue_size=1024$([ -n "${CONNECT:-}" ] || echo ,server=1)")
  n=$((n + 1))
done
tail -f /dev/null |
  exec dpdk-testpmd --lcores "(0)@$cpu,(1)@$cpu" --file-prefix="lrg$$" --no-pci --no-telemetry "${memory[@]}" "${vdevs[@]}" \
    -- -i --auto-start --forward-mode=io --nb-cores=1 --rxd=1024 --txd=1024 --total-num-mbufs=32768
