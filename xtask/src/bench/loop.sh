# DPDK as both: its switch returns what its guest sends over one port, and its guest swaps the addresses and sends it
# again. Prints the frames that the switch forwarded, in Mpps. Needs PEERS, RING, PKT, RUN_DIR, HOST_CPU, GUEST_CPU.
. "$PEERS/lib.sh"
need dpdk-testpmd dpdk-dev; hugepages
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
awk '/Rx-pps/ {v[n++]=$2} END { if (n<2) {print "no reading"; exit 1}; printf "%.3f\n", v[n-1]/1e6 }' "$guest_log"
