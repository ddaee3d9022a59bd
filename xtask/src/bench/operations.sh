# One reading: an operation of one switch under the load of `linerate gen`.
#   SUBJECT    linerate, ovs (Open vSwitch with DPDK) or testpmd (DPDK's vhost library, port to port)
#   OPERATION  restart, upgrade, restart-64 or upgrade-64 (with 64 ports, of linerate), capture, capture-1mpps, apply or
#              memory
#   SECONDS_EACH, SWITCH_CPU, GUEST_CPU, LINERATE, FOLDER
# Prints sent and lost packets, longest gap in ms, how long the queues of an upgrade have stopped in ms; ns of a packet
# without capture, more ns with it, cycles of the switch per packet, more cycles with the capture, share of packets that
# the capture has, more ns for each of these; median of apply in ms, own MB and MB of guests; `-` for what the operation
# does not have. Runs after `hosts.sh` and `cycles.sh`.
PORTS="a b"
TESTPMD_SET="set record-core-cycles on
"
# Far below what any switch forwards, so that only the operation loses packets.
RATE=50kpps
LATER=2

# Open vSwitch and ovs-tcpdump make TAP and dummy interfaces, which end with this namespace.
if [ "$SUBJECT" = ovs ] && [ -z "${OWN_NETWORK:-}" ]; then
    OWN_NETWORK=1 exec unshare --net -- bash "$0"
fi

# Ends the session $capture, a stopped guest, and the successor of an upgrade, which is no job of this shell.
finish_operation() {
    [ -z "$capture" ] || kill -KILL -- "-$capture" 2>/dev/null || true
    [ -z "$guests" ] || kill -KILL "$guests" 2>/dev/null || true
    [ "$SUBJECT" != linerate ] || control stop >>control.log 2>&1 || true
    finish
}
capture= guests=
trap finish_operation EXIT

# A command to the running linerate.
control() { timeout -k 1 20 "$LINERATE" --control "$FOLDER/c" "$@"; }

# The drivers of memory pools that testpmd is linked with. A pool has the number of its driver, in the order in which a
# process loads them, so dpdk-dumpcap has to load these first as well; otherwise testpmd calls another driver for the
# pool of the capture, and each packet is lost slowly.
pool_drivers() { ldd "$(command -v dpdk-testpmd)" | awk '/librte_mempool_/ { printf "%s%s", sep, $3; sep = ":" }'; }

start() {
    case "$SUBJECT" in
        linerate)
            run_linerate '' ''
            switch=$!
            wait_for_control
            ;;
        ovs) start_ovs ;;
        testpmd) start_testpmd ;;
    esac >&2
}

wait_for_control() {
    for _ in $(seq 100); do [ -S "$FOLDER/c" ] && return; sleep 0.1; done
    return 1
}

# Sends from port a to port b: $1 the rate, or `max`; $2 the duration in seconds. Prints JSON.
generate() {
    timeout -k 1 "$(awk "BEGIN { print $2 + 60 }")" "$LINERATE" gen --port "$(generator_port a)" --port "$(generator_port b)" \
        --cpu "$GUEST_CPU" --no-baseline --rate "$1" --duration "$2s" --warm-up 2s --timeout 30s -o json 2>>gen.log
}

# A value of a JSON file: $1 the file, $2 the expression in Python over `r`.
value() { python3 -c 'import json,sys; r = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"; }

# Frames that the generator could not send because its port had no switch are lost as well.
sent_lost_gap() { value "$1" '"%d %d %.3f" % (r["sent"], r["lost"] + r["missed"]["port"], max(s["longest_silence_ns"] for s in r["streams"]) / 1e6)'; }

replace() {
    case "$SUBJECT $OPERATION" in
        'linerate upgrade'*) control upgrade ;;
        linerate*)
            control stop
            "$LINERATE" --control "$FOLDER/c" run "$file" >>switch.log 2>&1 &
            ;;
        ovs*)
            end_processes "$(cat vswitchd.pid)"
            start_vswitchd
            ;;
    esac >>replace.log 2>&1
}

measure_replace() {
    file=switch.toml
    case "$OPERATION" in
        *-64)
            file=one.toml
            start_many client
            connect_others
            ;;
        *) start ;;
    esac >&2
    # The old process, then the new one, and time for guests to connect again.
    seconds=$(awk "BEGIN { print $SECONDS_EACH + 12 }")
    generate $RATE "$seconds" >gen.json &
    generator=$!
    sleep "$(awk "BEGIN { print $LATER + 2 + $SECONDS_EACH / 2 }")"
    replace
    # The generator reports an error, because its port had no switch, after its result.
    wait $generator || [ -s gen.json ]
    stopped=$(sed -n 's/.* handed over in \([0-9.]*\) ms.*/\1/p' replace.log)
    echo "$(sent_lost_gap gen.json) ${stopped:--} - - - - - - - - -"
}

# Guests of the ports p2 to p63. They stop as soon as they are connected, because the generator needs their CPU.
connect_others() {
    sockets=$(seq -f "--connect $FOLDER/p%g" 2 63)
    # shellcheck disable=SC2086
    "$LINERATE" guest --wait $sockets --cpu "$GUEST_CPU" >guests.log 2>&1 &
    guests=$!
    wait_for_connected 62
    kill -STOP $guests
}

# Waits until $1 ports of linerate have a guest.
wait_for_connected() {
    for _ in $(seq 100); do
        control ports show -o json >ports.json
        [ "$(value ports.json 'sum(p["live"]["state"] == "connected" for p in r)')" -lt "$1" ] || return 0
        sleep 0.1
    done
    return 1
}

# Captures port a in a session of its own, which ends as a whole. It has the CPU of the guests: the switch keeps its own.
start_capture() {
    file=capture.log
    ln -s /dev/null null
    touch capture.log
    case "$SUBJECT" in
        linerate) file=switch.log begun='a capture begins'; set -- "$LINERATE" --control "$FOLDER/c" capture a -w null ;;
        ovs) begun='listening on'; set -- ovs-tcpdump --db-sock "$db" -i a -w null ;;
        testpmd) begun='File:'; set -- env LD_PRELOAD="$(pool_drivers)" dpdk-dumpcap -q --file-prefix="n$$" -i 0 -w null ;;
    esac
    setsid taskset -c "$GUEST_CPU" timeout --foreground -k 1 120 "$@" >capture.log 2>&1 &
    capture=$!
    for _ in $(seq 200); do ! grep -q "$begun" "$file" || break; sleep 0.1; done
    grep -q "$begun" "$file"
    [ "$SUBJECT" != linerate ] || confine_to_guests
    sleep 1
}

# Moves the threads of linerate that are no workers to the CPU of the guests: one of them writes the capture.
confine_to_guests() {
    for thread in /proc/"$switch"/task/*; do
        # A thread may have ended.
        grep -q '^worker-' "$thread/comm" || taskset -pc "$GUEST_CPU" "${thread##*/}" >/dev/null || true
    done >&2
}

# ovs-tcpdump does not end by SIGTERM, but the tcpdump that it has started does, and prints its counts.
end_capture() {
    kill -TERM -- "-$capture" 2>/dev/null || true
    for _ in $(seq 30); do kill -0 -- "-$capture" 2>/dev/null || break; sleep 0.1; done
    kill -KILL -- "-$capture" 2>/dev/null || true
    capture=
}

# Packets that the capture has and that it has lost.
captured_lost() {
    case "$SUBJECT" in
        linerate) sed -n 's/.*a capture has ended","packets":\([0-9]*\),"missed":\([0-9]*\).*/\1 \2/p' switch.log ;;
        ovs) awk '/packets captured/ { c = $1 } /dropped by kernel/ { d = $1 } END { print c, d }' capture.log ;;
        testpmd) sed -n "s|.*received/dropped on interface.*: \([0-9]*\)/\([0-9]*\).*|\1 \2|p" capture.log ;;
    esac
}

# Frames circulate between the ports a and b, as many as the switch forwards: a guest that does less for each frame than
# the generator, which would be the limit. Prints nanoseconds per frame, or 0.
circulate() {
    timeout -k 1 "$(awk "BEGIN { print $SECONDS_EACH + 60 }")" "$LINERATE" guest --listen "$FOLDER/a" --listen "$FOLDER/b" \
        --in-flight 256 --cpu "$GUEST_CPU" --warm-up 3s --duration "${SECONDS_EACH}s" -o json >guest.json 2>>guest.log
    value guest.json '1000 / (sum(device["rx_mpps"] for device in r["devices"]) or float("inf"))'
}

# Frames go from port a to port b at a steady rate. Prints 1, or 0 if none has arrived.
send_steadily() {
    generate 1000kpps "$SECONDS_EACH" >gen.json || [ -s gen.json ]
    value gen.json 'int(r["sent"] > r["lost"])'
}

# Adds nanoseconds, and cycles of the switch, per frame to `readings`. Open vSwitch may forward nothing for some seconds
# after its ports were added or connected.
measure_load() {
    for _ in 1 2 3; do
        begin_cycles >&2
        ns=$("$load")
        case "$ns" in 0 | 0.0) ;; *) break ;; esac
    done
    cycles=$(end_cycles)
    echo "$ns $cycles" >>readings
}

# The capture runs between two readings without it. At a steady rate, only cycles depend on the switch.
measure_capture() {
    start
    case "$OPERATION" in
        capture) load=circulate steady=0 ;;
        *) load=send_steadily steady=1 ;;
    esac
    measure_load
    start_capture
    measure_load
    end_capture
    measure_load
    captured_lost >>readings
    echo "- - - - $(awk -v steady=$steady '{ a[NR] = $1; b[NR] = $2 }
        END {
            ns = (a[1] + a[3]) / 2; cycles = (b[1] + b[3]) / 2
            captured = a[4] / (a[4] + b[4])
            each = captured > 0 ? sprintf("%.1f", (a[2] - ns) / captured) : "-"
            time = steady ? "- -" : sprintf("%.2f %.2f", ns, a[2] - ns)
            printf "%s %.1f %.1f %.4f %s", time, cycles, b[2] - cycles, captured, steady ? "-" : each
        }' readings) - - -"
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
    wait_for_control
}

measure_apply() {
    start_many client >&2
    generate $RATE "$(awk "BEGIN { print $SECONDS_EACH + 5 }")" >gen.json &
    generator=$!
    sleep $((LATER + 2))
    for k in $(seq 20); do
        file=one.toml
        [ $((k % 2)) = 0 ] || file=two.toml
        began=$(date +%s%N)
        control apply $file >/dev/null
        echo $((($(date +%s%N) - began) / 1000)) >>times
    done
    wait $generator
    median=$(sort -n times | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2000 }')
    echo "$(sent_lost_gap gen.json) - - - - - - - $median - -"
}

measure_memory() {
    start_many server >&2
    sockets=$(printf -- "--connect $FOLDER/%s " $PORTS $(seq -f 'p%g' 2 63))
    # The guests send, so that all rings and tables are in use.
    # shellcheck disable=SC2086
    "$LINERATE" guest --wait $sockets --in-flight 2 --cpu "$GUEST_CPU" >guests.log 2>&1 &
    guests=$!
    wait_for_connected 64
    sleep "$SECONDS_EACH"
    # Memory of the guests is mapped by the switch, and not its own.
    awk '/^VmRSS/ { r = $2 } /^RssShmem/ { s = $2 } END { printf "- - - - - - - - - - - %.1f %.1f\n", (r - s) / 1024, s / 1024 }' /proc/$switch/status
}

case "$OPERATION" in
    restart* | upgrade*) measure_replace ;;
    capture*) measure_capture ;;
    *) "measure_$OPERATION" ;;
esac
