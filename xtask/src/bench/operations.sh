# One reading: an operation of one switch under the load of `linerate gen`.
#   SUBJECT    linerate or ovs (Open vSwitch with DPDK)
#   OPERATION  restart, upgrade (of linerate), capture, apply or memory
#   SECONDS_EACH, SWITCH_CPU, GUEST_CPU, LINERATE, FOLDER
# Prints sent and lost packets, longest gap in ms, share of the rate that is lost, median of apply in ms, own MB
# and MB of guests; `-` for what the operation does not have. Runs after `hosts.sh`.
PORTS="a b"
# Far below what any switch forwards, so that only the operation loses packets.
RATE=50kpps
LATER=2

start() {
    case "$SUBJECT" in
        linerate) run_linerate '' '' ;;
        ovs) start_ovs ;;
    esac >&2
}

# Sends from port a to port b: $1 the rate, empty for as fast as it can; $2 the duration in seconds. Prints JSON.
generate() {
    "$LINERATE" gen --port "$(generator_port a)" --port "$(generator_port b)" --cpu "$GUEST_CPU" --no-baseline \
        ${1:+--rate "$1"} --duration "$2s" --warm-up 1s --timeout 30s -o json 2>>gen.log
}

# A value of a JSON file: $1 the file, $2 the expression in Python over `r`.
value() { python3 -c 'import json,sys; r = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"; }

# Frames that the generator could not send because its port had no switch are lost as well.
sent_lost_gap() { value "$1" '"%d %d %.3f" % (r["sent"], r["lost"] + r["missed"]["port"], max(s["longest_silence_ns"] for s in r["streams"]) / 1e6)'; }

restart() {
    case "$SUBJECT" in
        linerate)
            if [ "$OPERATION" = upgrade ]; then
                "$LINERATE" --control "$FOLDER/c" upgrade
            else
                "$LINERATE" --control "$FOLDER/c" stop
                "$LINERATE" --control "$FOLDER/c" run switch.toml >>switch.log 2>&1 &
            fi
            ;;
        ovs)
            old=$(cat vswitchd.pid)
            kill "$old"
            while kill -0 "$old" 2>/dev/null; do sleep 0.01; done
            /usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk "$db" --pidfile="$FOLDER/vswitchd.pid" --detach \
                --log-file="$FOLDER/switch.log" 2>/dev/null
            ;;
    esac >&2
}

measure_restart() {
    start
    # The old process, then the new one, and time for guests to connect again.
    seconds=$(awk "BEGIN { print $SECONDS_EACH + 12 }")
    generate $RATE "$seconds" >gen.json &
    generator=$!
    sleep "$(awk "BEGIN { print $LATER + 1 + $SECONDS_EACH / 2 }")"
    restart
    # The generator reports an error, because its port had no switch, after its result.
    wait $generator || [ -s gen.json ]
    echo "$(sent_lost_gap gen.json) - - - -"
}

start_capture() {
    case "$SUBJECT" in
        linerate) "$LINERATE" --control "$FOLDER/c" capture a -w /dev/null 2>>capture.log ;;
        ovs) ovs-tcpdump --db-sock "$db" -i a -w /dev/null 2>>capture.log ;;
    esac >&2 &
    capture=$!
    sleep 1
    kill -0 $capture
}

measure_capture() {
    start
    generate '' "$SECONDS_EACH" >without.json
    start_capture
    generate '' "$SECONDS_EACH" >with.json
    # ovs-tcpdump does not end by SIGTERM, and starts tcpdump.
    # shellcheck disable=SC2046
    kill -KILL $capture $(ps -o pid= --ppid $capture) || true
    before=$(value without.json 'r["received_pps"]')
    after=$(value with.json 'r["received_pps"]')
    echo "- - - $(awk "BEGIN { print 1 - $after / $before }") - - -"
}

# Sections of ports p2 to p63, the last one with VLAN $1, behind the ports a and b.
others() {
    cat base.toml
    for i in $(seq 2 63); do
        printf '[[port]]\nname = "p%d"\nsocket = "%s/p%d"\n' "$i" "$FOLDER" "$i"
        [ "$i" -lt 63 ] || printf 'vlan = %d\n' "$1"
    done
}

# A running switch with 64 ports.
start_many() {
    {
        printf '[[worker]]\ncpu = %s\n' "$SWITCH_CPU"
        for name in $PORTS; do
            printf '[[port]]\nname = "%s"\nsocket = "%s/%s"\nmode = "%s"\n' "$name" "$FOLDER" "$name" "$1"
        done
    } >base.toml
    others 1 >one.toml
    others 2 >two.toml
    "$LINERATE" --control "$FOLDER/c" run one.toml >switch.log 2>&1 &
    switch=$!
    for _ in $(seq 100); do [ -S "$FOLDER/c" ] && break; sleep 0.1; done
}

measure_apply() {
    start_many client >&2
    generate $RATE "$(awk "BEGIN { print $SECONDS_EACH + 5 }")" >gen.json &
    generator=$!
    sleep $((LATER + 1))
    for k in $(seq 20); do
        file=one.toml
        [ $((k % 2)) = 0 ] || file=two.toml
        began=$(date +%s%N)
        "$LINERATE" --control "$FOLDER/c" apply $file >/dev/null
        echo $((($(date +%s%N) - began) / 1000)) >>times
    done
    wait $generator
    median=$(sort -n times | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2000 }')
    echo "$(sent_lost_gap gen.json) - $median - -"
}

measure_memory() {
    start_many server >&2
    sockets=$(for name in $PORTS $(seq -f 'p%g' 2 63); do printf -- '--connect %s/%s ' "$FOLDER" "$name"; done)
    # The guests send, so that all rings and tables are in use.
    # shellcheck disable=SC2086
    "$LINERATE" guest --wait $sockets --in-flight 2 --cpu "$GUEST_CPU" >guests.log 2>&1 &
    for _ in $(seq 100); do
        "$LINERATE" --control "$FOLDER/c" ports show -o json >ports.json
        connected=$(value ports.json 'sum(p["live"]["state"] == "connected" for p in r)')
        [ "$connected" -lt 64 ] || break
        sleep 0.1
    done
    [ "$connected" = 64 ]
    sleep "$SECONDS_EACH"
    # Memory of the guests is mapped by the switch, and not its own.
    awk '/^VmRSS/ { r = $2 } /^RssShmem/ { s = $2 } END { printf "- - - - - %.1f %.1f\n", (r - s) / 1024, s / 1024 }' /proc/$switch/status
}

case "$OPERATION" in
    restart | upgrade) measure_restart ;;
    *) "measure_$OPERATION" ;;
esac
