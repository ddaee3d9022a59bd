# One reading: latency of frames of SIZE bytes that a generator sends at a fixed rate through a flow table of one switch.
# Runs after `hosts.sh`.
#   WORK       ndr: searches the highest rate without loss, and prints it in packets per second
#              calm: prints the generator's report as JSON
#              changes: the same while 100,000 flows are added, whose number per second it prints in a line before
#              load: the same with 1,000,000 flows, and a generator that sends until they are added
#              punts: the same while a controller gets a copy of each packet
#   ADD_FLOWS  program that adds flows
#   RATE       packets per second
#   SUBJECT    linerate, or ovs (Open vSwitch with DPDK)
#   SECONDS_EACH, SWITCH_CPU, GUEST_CPU, LINERATE, FOLDER

PORTS="a b"
CHANGES=100000
[ "$WORK" != load ] || CHANGES=1000000 SECONDS_EACH=${LOAD_SECONDS:-25}

# Sends RATE for a time, and writes report.json.
generate() {
    "$LINERATE" gen --port "$(generator_port a)" --port "$(generator_port b)" --size "$SIZE" --flows 100 --rate "$1pps" --cpu "$GUEST_CPU" \
        --no-announce --no-baseline --warm-up 1s --duration "$2" -o json >report.json 2>gen.log
}

# Whether the last run had no loss and kept its rate.
is_whole() {
    tr -d ' ' <report.json | tr ',{}' '\n\n\n' | awk -F: '
        $1 == "\"lost\"" && lost == "" { lost = $2 }
        $1 == "\"sent_pps\"" && sent == "" { sent = $2 }
        END { exit !(lost == 0 && sent >= 0.99 * '"$1"') }'
}

search() {
    low=50000 high=20000000
    while [ $((high - low)) -gt $((low / 20)) ]; do
        middle=$(((low + high) / 2))
        if generate $middle 1s && is_whole $middle; then low=$middle; else high=$middle; fi
    done
    [ $low -gt 50000 ] || { echo "no rate above $low packets per second is without loss" >&2; exit 1; }
    echo $low
}

# Adds flows with higher priority than that of the frames, which none of them matches.
change() {
    sleep 2
    nice -n 19 "$ADD_FLOWS" "$FOLDER/br0.mgmt" $CHANGES >changed
}

case "$SUBJECT" in
    ovs) start_ovs >&2 ;;
    *) run_linerate '[[bridge]]
name = "br0"
pipeline = "openflow"' 'bridge = "br0"' >&2 ;;
esac
wait_for_bridge br0
ovs-ofctl del-flows "unix:$FOLDER/br0.mgmt" 2>>ofctl.log
ovs-ofctl add-flow "unix:$FOLDER/br0.mgmt" priority=1,in_port=1,actions=output:2 2>>ofctl.log
case "$WORK" in
    punts)
        ovs-ofctl add-flow "unix:$FOLDER/br0.mgmt" priority=1,in_port=1,actions=output:2,controller:64 2>>ofctl.log
        OVS_RUNDIR="$FOLDER" nice -n 19 ovs-ofctl monitor "unix:$FOLDER/br0.mgmt" 65534 >monitor.log 2>&1 &
        generate "$RATE" "${SECONDS_EACH}s"
        # And those of the warm-up.
        echo $(($(grep -c PACKET_IN monitor.log) / (SECONDS_EACH + 1)))
        cat report.json
        ;;
    ndr) search ;;
    calm)
        generate "$RATE" "${SECONDS_EACH}s"
        echo 0
        cat report.json
        ;;
    changes | load)
        change &
        changing=$!
        generate "$RATE" "${SECONDS_EACH}s"
        wait $changing
        cat changed report.json
        ;;
esac
