# One reading: a guest with two devices, whose frames circulate through the flow tables of one switch. Runs after
# `hosts.sh` and `cycles.sh`.
#   SUBJECT    linerate, ovs (Open vSwitch with DPDK), or bridge (linerate's learning bridge, without flows)
#   FLOWS      flows of each device
#   MASKS      different masks of these flows
#   SHARES     uniform, or the exponent of Zipf's law
#   SECONDS_EACH, SWITCH_CPU, GUEST_CPU, LINERATE, FOLDER
# Prints `cycles N`, the busy cycles of the switch per packet, and then the guest's report as JSON.

PORTS="a b"
IN_FLIGHT=256 # frames in circulation per port of the guest

start_linerate() {
    {
        printf '[[worker]]\ncpu = %s\n' "$SWITCH_CPU"
        [ "$SUBJECT" = bridge ] || printf '[[bridge]]\nname = "br0"\npipeline = "openflow"\n'
        for name in $PORTS; do
            printf '[[port]]\nname = "%s"\nsocket = "%s/%s"\nmode = "client"\n' "$name" "$FOLDER" "$name"
            [ "$SUBJECT" = bridge ] || printf 'bridge = "br0"\n'
        done
    } >switch.toml
    "$LINERATE" --control "$FOLDER/c" run switch.toml >switch.log 2>&1 &
}

# Flow N has source port N % 65536 and destination port N / 65536 + 1 (`linerate guest --flows`). With several masks,
# all of them cover the lowest bit of the destination port, so that a packet matches one flow only.
rules() {
    awk -v flows="$FLOWS" -v masks="$MASKS" 'BEGIN {
        for (port = 1; port <= 2; port++)
            for (n = 0; n < flows; n++) {
                destination = int(n / 65536) + 1
                if (masks > 1) destination = sprintf("1/0x%x", n % masks * 2 + 1)
                printf "priority=1,in_port=%d,udp,tp_src=%d,tp_dst=%s,actions=output:%d\n",
                    port, n % 65536, destination, 3 - port
            }
    }'
}

case "$SUBJECT" in
    ovs) start_ovs >&2 ;;
    *) start_linerate >&2 ;;
esac
if [ "$SUBJECT" != bridge ]; then
    for _ in $(seq 100); do [ -S "$FOLDER/br0.mgmt" ] && break; sleep 0.1; done
    # In bundles, because ovs-ofctl waits for a reply after each flow that is not in one.
    rules | split --lines=20000 - flows.
    ovs-ofctl del-flows "unix:$FOLDER/br0.mgmt" 2>ofctl.log
    for part in flows.*; do ovs-ofctl --bundle add-flows "unix:$FOLDER/br0.mgmt" "$part" 2>>ofctl.log; done
fi
shares=
[ "$SHARES" = uniform ] || shares="--zipf $SHARES"
# Switches try to connect again each second.
"$LINERATE" guest --listen "$FOLDER/a" --listen "$FOLDER/b" --size 64 --in-flight "$IN_FLIGHT" --cpu "$GUEST_CPU" --flows "$FLOWS" $shares \
    --warm-up 3s --duration "${SECONDS_EACH}s" -o json >guest.json 2>guest.log &
guest=$!
sleep 3
begin_cycles >&2
sleep "$SECONDS_EACH"
echo "cycles $(end_cycles)"
wait "$guest" || { cat guest.log >&2; exit 1; }
cat guest.json
