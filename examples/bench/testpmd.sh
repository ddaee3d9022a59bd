#!/usr/bin/env bash
# DPDK's testpmd as a switch: its vhost library, port to port with no look-up. One socket: what comes goes back.
#   testpmd.sh CPU SOCKET [SOCKET]
# It connects to the sockets. Huge pages are used where there are any.
set -euo pipefail
cpu=$1; shift
if [ "$(cat /proc/sys/vm/nr_hugepages)" -ge 256 ] && [ -w /dev/hugepages ]; then memory=(--single-file-segments -m 256); else memory=(--no-huge -m 256); fi
vdevs=(); n=0
for socket in "$@"; do vdevs+=(--vdev "net_vhost$n,iface=$socket,queues=1,client=1"); n=$((n + 1)); done
# It reads commands from its standard input for as long as there is one.
tail -f /dev/null |
  exec dpdk-testpmd --lcores "(0)@$cpu,(1)@$cpu" --file-prefix="lrb$$" --no-pci --no-telemetry "${memory[@]}" "${vdevs[@]}" \
    -- -i --auto-start --forward-mode=io --nb-cores=1 --rxd=1024 --txd=1024 --total-num-mbufs=32768
