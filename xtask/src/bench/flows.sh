# One reading: a guest with two devices, whose frames circulate through the flow tables of one switch. Runs after
# `hosts.sh` and `cycles.sh`.
#   ROW        tracked or new for tracked connections; rules for a rule set, whose packets a generator sends from one port
#              to the other; others have a flow for each flow of the guest
#   SUBJECT    linerate, ovs (Open vSwitch with DPDK), or bridge (linerate's learning bridge, without flows)
#   FLOWS      flows of each device
#   MASKS      different masks of these flows
#   SHARES     uniform, or the exponent of Zipf's law; of row rules the kind of rule set
#   SIZE       bytes of a frame
#   CLASSBENCH program that writes rule sets
#   SECONDS_EACH, SWITCH_CPU, GUEST_CPU, LINERATE, FOLDER
# Prints `cycles N`, the busy cycles of the switch per packet, and then the report of the guest, or of the generator, as JSON.

PORTS="a b"
IN_FLIGHT=256 # frames in circulation per port of the guest
WARM_UP=3
CONNECTIONS=20000000 # at most; more than a reading of row new opens
case $ROW in
    new) WARM_UP=1 ;;
    rules) WARM_UP=30 ;; # Open vSwitch translates the first packet of each header, 10^5 of them
esac

OPENFLOW="[conntrack]
max = $CONNECTIONS
[[bridge]]
name = \"br0\"
pipeline = \"openflow\""

# Flow N has source port N % 65536 and destination port N / 65536 + 1 (`linerate guest --flows`). With several masks,
# all of them cover the lowest bit of the destination port, so that a packet matches one flow only.
rules() {
    case $ROW in
        tracked | new) tracking; return ;;
        rules) cat rules.txt; return ;;
    esac
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

# Both ports track in one zone. Packets are of one direction only: a connection has no replies.
tracking() {
    for port in 1 2; do
        echo "table=0,priority=1,in_port=$port,udp,ct_state=-trk,actions=ct(table=1)"
        echo "table=1,priority=1,in_port=$port,udp,ct_state=+trk+est,actions=output:$((3 - port))"
        echo "table=1,priority=1,in_port=$port,udp,ct_state=+trk+new,actions=ct(commit),output:$((3 - port))"
    done
}

# Once all connections of row tracked are committed: forwards their packets alike in all states.
tracked() {
    for port in 1 2; do
        echo "table=1,priority=2,in_port=$port,udp,ct_state=+trk,actions=output:$((3 - port))"
    done
}

[ "$ROW" != rules ] || "$CLASSBENCH" "$SHARES" "$FLOWS" "$FLOWS" . >&2
case "$SUBJECT" in
    ovs) start_ovs >&2 ;;
    bridge) run_linerate "" "" >&2 ;;
    *) run_linerate "$OPENFLOW" 'bridge = "br0"' >&2 ;;
esac
if [ "$SUBJECT" != bridge ]; then
    wait_for_bridge br0
    # In bundles, because ovs-ofctl waits for a reply after each flow that is not in one.
    rules | split --lines=20000 - flows.
    ovs-ofctl del-flows "unix:$FOLDER/br0.mgmt" 2>ofctl.log
    [ "$SUBJECT" != ovs ] ||
        ovs-appctl -t "$FOLDER"/ovs-vswitchd*.ctl dpctl/ct-set-maxconns $CONNECTIONS >&2
    for part in flows.*; do ovs-ofctl --bundle add-flows "unix:$FOLDER/br0.mgmt" "$part" 2>>ofctl.log; done
fi
shares=
[ "$SHARES" = uniform ] || [ "$ROW" = rules ] || shares="--zipf $SHARES"
# Switches try to connect again each second.
if [ "$ROW" = rules ]; then
    "$LINERATE" gen --port "$(generator_port a)" --port "$(generator_port b)" --pcap frames.pcap --rate max --cpu "$GUEST_CPU" \
        --no-announce --no-baseline --warm-up "${WARM_UP}s" --duration "${SECONDS_EACH}s" -o json >guest.json 2>guest.log &
else
    "$LINERATE" guest --listen "$FOLDER/a" --listen "$FOLDER/b" --size "$SIZE" --in-flight "$IN_FLIGHT" --cpu "$GUEST_CPU" --flows "$FLOWS" $shares \
        --warm-up "${WARM_UP}s" --duration "${SECONDS_EACH}s" -o json >guest.json 2>guest.log &
fi
guest=$!
sleep $((WARM_UP - 1))
[ "$ROW" != tracked ] || tracked | ovs-ofctl --bundle add-flows "unix:$FOLDER/br0.mgmt" - 2>>ofctl.log
sleep 1
begin_cycles >&2
sleep "$SECONDS_EACH"
echo "cycles $(end_cycles)"
wait "$guest" || { cat guest.log >&2; exit 1; }
cat guest.json
