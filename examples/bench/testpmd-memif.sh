#!/usr/bin/env bash
# DPDK's testpmd as a switch over memif: port-to-port forwarding without look-up.
#   testpmd-memif.sh CPU SOCKET SOCKET
# Connects to the sockets. Uses huge pages if available.
set -euo pipefail
cpu=$1; shift
command -v dpdk-testpmd >/dev/null || { echo "no dpdk-testpmd: apt-get install dpdk" >&2; exit 2; }
. "$(dirname "$0")/testpmd-memory.sh"
vdevs=(); n=0
for socket in "$@"; do
  vdevs+=(--vdev "net_memif$n,role=client,socket=$socket,socket-abstract=no,rsize=10")
  n=$((n + 1))
done
# Keeps standard input open; testpmd reads commands from it and exits at its end.
tail -f /dev/null |
  exec dpdk-testpmd --lcores "(0)@$cpu,(1)@$cpu" --file-prefix="lrm$$" --no-pci --no-telemetry "${memory[@]}" "${vdevs[@]}" \
    -- -i --auto-start --forward-mode=io --nb-cores=1 --rxd=1024 --txd=1024 --total-num-mbufs=32768
