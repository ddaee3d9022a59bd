# One round: `linerate demo` with our guest and our switch, then DPDK as both: its switch returns the frames of its
# guest over one port, and its guest swaps the addresses and sends them again. Prints the line of a round, in Mpps
# forwarded by the switch. Runs after `dpdk.sh`. Needs LINERATE, OUR_RING, RING, PKT, RUN_DIR, HOST_CPU and GUEST_CPU.
timeout 40 taskset --cpu-list "$HOST_CPU,$GUEST_CPU" "$LINERATE" demo -o json --duration "${SECONDS_EACH}s" \
  --ring "$OUR_RING" --size "$PKT" >"$RUN_DIR/demo.json" || true
ours=$(awk -F'[:,]' '/"mpps"/ {print $2 + 0; exit}' "$RUN_DIR/demo.json")

socket=$RUN_DIR/loop.sock guest_log=$RUN_DIR/loop.guest.log
ring_options=$(guest_options "$RING")
rm -f "$socket"
common="--no-pci --single-file-segments -m 256"
queues="--nb-cores=1 --rxd=1024 --txd=1024 --total-num-mbufs=32768 --port-topology=loop"
{ sleep 4; echo "set fwd macswap"; echo "set txpkts $PKT"; echo "start tx_first $(( 2 * INFLIGHT / 32 ))"
  sleep 2; echo "show port stats all"; sleep "$SECONDS_EACH"; echo "show port stats all"
  sleep 0.5; echo stop; echo quit; sleep 1; } |
timeout $(( SECONDS_EACH + 30 )) dpdk-testpmd --lcores "(0)@$GUEST_CPU,(1)@$GUEST_CPU" --file-prefix="lg$$" $common \
  --vdev "net_virtio_user0,path=$socket,queues=1,queue_size=1024,server=1,mac=02:00:00:00:00:01$ring_options" \
  -- -i $queues >"$guest_log" 2>&1 & guest=$!
for _ in $(seq 50); do [ -S "$socket" ] && break; sleep 0.1; done
{ sleep 1; echo "set fwd io"; echo start; sleep 60; } |
timeout 60 dpdk-testpmd --lcores "(0)@$HOST_CPU,(1)@$HOST_CPU" --file-prefix="lh$$" $common \
  --vdev "net_vhost0,iface=$socket,queues=1,client=1" -- -i $queues >"$RUN_DIR/loop.switch.log" 2>&1 & switch=$!
wait $guest || true
kill $switch 2>/dev/null || true
theirs=$(awk '/Rx-pps/ {v = $2; n++} END {if (n > 1) printf "%.3f", v / 1e6}' "$guest_log")
echo "round 1: A ${ours:-0} Mpps, B ${theirs:-0} Mpps"
