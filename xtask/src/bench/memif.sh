# One round over memif: DPDK's guest with two client interfaces, connected to our switch with two memif servers, then to
# testpmd with two memif servers that forwards port to port. Frames circulate as in `switches.sh`. Prints the line of a
# round. Runs after `dpdk.sh`. Needs LINERATE, RING (memif or memif-zero-copy), PKT, RUN_DIR, HOST_CPU, GUEST_CPU.
case $RING in memif) copies=no ;; *) copies=yes ;; esac
s0=$RUN_DIR/0.sock s1=$RUN_DIR/1.sock guest_log=$RUN_DIR/memif.guest.log
common="--no-pci --single-file-segments -m 256"
queues="-i --nb-cores=1 --rxd=1024 --txd=1024 --total-num-mbufs=32768"
guest() {
  { sleep 4
    # Two zero-copy clients of one process share a descriptor, which the first one to connect closes, possibly before
    # the second has sent it (drivers/net/memif/rte_eth_memif.c, memif_connect). In that case the guest is restarted.
    if grep -q "sendmsg fail" "$guest_log"; then echo quit; sleep 1; exit; fi
    echo "set fwd mac"; echo "set txpkts $PKT"; echo "start tx_first $(( INFLIGHT / 32 ))"
    sleep 2; echo "show port stats all"; sleep "$SECONDS_EACH"; echo "show port stats all"
    sleep 0.5; echo stop; echo quit; sleep 1; } |
  timeout $(( SECONDS_EACH + 30 )) dpdk-testpmd --lcores "(0)@$GUEST_CPU,(1)@$GUEST_CPU" --file-prefix="mg$$" $common \
    --vdev "net_memif0,role=client,socket=$s0,socket-abstract=no,mac=02:00:00:00:00:01,zero-copy=$copies" \
    --vdev "net_memif1,role=client,socket=$s1,socket-abstract=no,mac=02:00:00:00:00:02,zero-copy=$copies" \
    -- $queues --eth-peer=0,02:00:00:00:00:02 --eth-peer=1,02:00:00:00:00:01 >"$guest_log" 2>&1
}
reading() { awk '/Rx-pps/ {v[n++] = $2} END {if (n < 4) print 0; else printf "%.3f", (v[n-1] + v[n-2]) / 1e6}' "$guest_log"; }
guests() {
  local value=0
  for _ in 1 2 3 4 5 6; do
    : >"$guest_log"
    guest || true
    value=$(reading)
    [ "${value%.*}" = 0 ] || break
  done
  echo "$value"
}
ours() {
  rm -f "$s0" "$s1"
  { printf '[[worker]]\ncpu = %s\n' "$HOST_CPU"
    printf '\n[[port]]\nname = "p%s"\nkind = "memif"\nsocket = "%s"\n' 0 "$s0" 1 "$s1"; } >"$RUN_DIR/switch.toml"
  "$LINERATE" --control "$RUN_DIR/control.sock" run "$RUN_DIR/switch.toml" >"$RUN_DIR/ours.log" 2>&1 & local switch=$!
  guests
  kill $switch; wait $switch 2>/dev/null || true
}
theirs() {
  rm -f "$s0" "$s1"
  # Runs in the background of this shell; what remains of the pipe is killed at the end of the round.
  { sleep 1; echo "set fwd io"; echo start; sleep 100; } |
  timeout 100 dpdk-testpmd --lcores "(0)@$HOST_CPU,(1)@$HOST_CPU" --file-prefix="mh$$" $common \
    --vdev "net_memif0,role=server,socket=$s0,socket-abstract=no" \
    --vdev "net_memif1,role=server,socket=$s1,socket-abstract=no" -- $queues >"$RUN_DIR/memif.switch.log" 2>&1 & local switch=$!
  for _ in $(seq 80); do [ -S "$s1" ] && break; sleep 0.1; done
  sleep 1.5
  guests
  kill $switch 2>/dev/null || true
}
ours=$(ours)
theirs=$(theirs)
echo "round 1: A ${ours:-0} Mpps, B ${theirs:-0} Mpps"
