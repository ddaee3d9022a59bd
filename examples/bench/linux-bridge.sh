#!/usr/bin/env bash
# Linux bridge between two interfaces that are created elsewhere, such as the generator's TAP ports.
#   linux-bridge.sh INTERFACE INTERFACE
# Waits for the interfaces, and deletes the bridge on exit. Needs root.
set -euo pipefail
bridge=lrbr$$
stop() { trap - TERM INT EXIT; ip link delete "$bridge" 2>/dev/null || true; }
trap 'stop; exit 0' TERM INT
trap stop EXIT
ip link add "$bridge" type bridge stp_state 0 mcast_snooping 0
ip link set "$bridge" up
for interface in "$@"; do
  until ip link show "$interface" >/dev/null 2>&1; do sleep 0.05; done
  # Keeps IPv6 traffic of the kernel off the interface.
  sysctl -qw "net.ipv6.conf.$interface.disable_ipv6=1" || true
  ip link set "$interface" master "$bridge" up
done
echo "the bridge is ready"
while :; do sleep 1 & wait $!; done
