# One reading: a guest with two devices, whose frames circulate through one switch. Runs after `hosts.sh`.
#   SUBJECT    linerate, ovs (Open vSwitch with DPDK) or testpmd (DPDK's vhost library, port to port)
#   GUEST      own (`linerate guest`) or dpdk (testpmd over virtio-user)
#   RING, SIZE, SECONDS_EACH, SWITCH_CPU, GUEST_CPU, LINERATE, FOLDER
# Prints `cycles N`, the busy cycles of the switch per packet, and then the guest's report as JSON.

PORTS="a b"
IN_FLIGHT=256 # frames in circulation per port of the guest
TESTPMD_SET="set record-core-cycles on
"

# Device options of the guest's driver for a ring.
guest_options() {
    case $1 in
        split) echo "" ;;
        split-inorder) echo ",mrg_rxbuf=0,in_order=1" ;;
        packed) echo ",packed_vq=1" ;;
        packed-inorder) echo ",packed_vq=1,mrg_rxbuf=0,in_order=1,vectorized=1" ;;
        *) echo "unknown ring $1: expected split, split-inorder, packed or packed-inorder" >&2; return 2 ;;
    esac
}

# Frames circulate about three seconds after the start.
own_guest() {
    "$LINERATE" guest --listen "$FOLDER/a" --listen "$FOLDER/b" --ring "$RING" --size "$SIZE" --in-flight "$IN_FLIGHT" --cpu "$GUEST_CPU" \
        --duration "$(awk -v s="$SECONDS_EACH" 'BEGIN { print s + 2 "s" }')" -o json
}

# Port 0 sends to the address of port 1 and vice versa.
dpdk_guest() {
    dpdk-testpmd --lcores "(0)@$GUEST_CPU,(1)@$GUEST_CPU" --file-prefix="g$$" --no-pci --single-file-segments -m 256 \
        --vdev "net_virtio_user0,path=$FOLDER/a,queues=1,queue_size=1024,server=1,mac=02:00:00:00:00:01$options" \
        --vdev "net_virtio_user1,path=$FOLDER/b,queues=1,queue_size=1024,server=1,mac=02:00:00:00:00:02$options" \
        -- -i --nb-cores=1 --rxd=1024 --txd=1024 --total-num-mbufs=32768 \
        --eth-peer=0,02:00:00:00:00:02 --eth-peer=1,02:00:00:00:00:01 <guest.commands
}

# The rates since the last `show`, in the format of our guest's report.
dpdk_report() {
    awk '/Rx-pps/ { v[n++] = $2 }
        END {
            if (n < 4) exit 1
            printf "{\"devices\": [{\"rx_mpps\": %.4f}, {\"rx_mpps\": %.4f}]}\n", v[n - 2] / 1e6, v[n - 1] / 1e6
        }' guest.log
}

case "$GUEST" in
    own)
        own_guest >guest.json 2>guest.log &
        guest=$!
        ;;
    dpdk)
        options=$(guest_options "$RING")
        mkfifo guest.commands
        dpdk_guest >guest.log 2>&1 &
        guest=$!
        exec 4>guest.commands
        ;;
esac
for name in $PORTS; do
    for _ in $(seq 50); do [ -S "$FOLDER/$name" ] && break; sleep 0.1; done
done
case "$SUBJECT" in
    linerate) run_linerate "" "" >&2 ;;
    testpmd) start_testpmd >&2 ;;
    ovs) start_ovs >&2 ;;
esac
if [ "$GUEST" = dpdk ]; then
    sleep 3
    printf 'set fwd mac\nset txpkts %s\nstart tx_first %s\n' "$SIZE" "$((IN_FLIGHT / 32))" >&4
fi
sleep 1
begin_cycles >&2
[ "$GUEST" = own ] || printf 'show port stats all\n' >&4
sleep "$SECONDS_EACH"
[ "$GUEST" = own ] || printf 'show port stats all\n' >&4
echo "cycles $(end_cycles)"
if [ "$GUEST" = dpdk ]; then
    printf 'stop\nquit\n' >&4
    wait "$guest" || true
    dpdk_report || { cat guest.log >&2; exit 1; }
else
    wait "$guest" || { cat guest.log >&2; exit 1; }
    cat guest.json
fi
