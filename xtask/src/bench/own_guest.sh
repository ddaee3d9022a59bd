# One reading: our guest with two devices, whose frames circulate through one switch. Behind `hosts.sh`.
#   SUBJECT    linerate, ovs (Open vSwitch with DPDK) or testpmd (DPDK's vhost library, port to port)
#   RING, SIZE, SECONDS_EACH, SWITCH_CPU, GUEST_CPU, LINERATE, FOLDER
# Prints `cycles N`, the busy cycles of the switch per packet, and then the guest's report as JSON.

PORTS="a b"

start_linerate() {
    {
        printf '[[worker]]\ncpu = %s\n' "$SWITCH_CPU"
        for name in $PORTS; do
            printf '[[port]]\nname = "%s"\nsocket = "%s/%s"\nmode = "client"\n' "$name" "$FOLDER" "$name"
        done
    } >switch.toml
    "$LINERATE" --control "$FOLDER/c" run switch.toml >switch.log 2>&1 &
}

# Cycles are counted from here on.
begin_cycles() {
    case "$SUBJECT" in
        linerate) "$LINERATE" --control "$FOLDER/c" workers show -o json >before.json ;;
        testpmd) printf 'clear fwd stats all\n' >&3 ;;
        ovs) ovs-appctl -t "$FOLDER"/ovs-vswitchd*.ctl dpif-netdev/pmd-stats-clear ;;
    esac
}

# Prints the cycles per packet since then, or 0 where the switch does not say.
end_cycles() {
    case "$SUBJECT" in
        linerate)
            "$LINERATE" --control "$FOLDER/c" workers show -o json >after.json
            cat before.json after.json | tr ',{}' '\n\n\n' | awk -F: '
                /"busy_cycles"/ { busy[n++] = $2 }
                /"packets"/ { packets[m++] = $2 }
                END { if (packets[1] > packets[0]) print (busy[1] - busy[0]) / (packets[1] - packets[0]); else print 0 }'
            ;;
        testpmd)
            printf 'show fwd stats all\n' >&3
            sleep 0.5
            sed -n 's/.*CPU cycles\/packet=\([0-9.]*\).*/\1/p' switch.log | tail -n 1 | grep . || echo 0
            ;;
        ovs)
            ovs-appctl -t "$FOLDER"/ovs-vswitchd*.ctl dpif-netdev/pmd-stats-show |
                sed -n 's/.*avg processing cycles per packet: \([0-9.]*\).*/\1/p' | head -n 1 | grep . || echo 0
            ;;
    esac
}

"$LINERATE" guest --listen "$FOLDER/a" --listen "$FOLDER/b" --ring "$RING" --size "$SIZE" --packets 256 --cpu "$GUEST_CPU" \
    --seconds "$(awk -v s="$SECONDS_EACH" 'BEGIN { print s + 2 }')" -o json >guest.json 2>guest.log &
guest=$!
for name in $PORTS; do
    for _ in $(seq 50); do [ -S "$FOLDER/$name" ] && break; sleep 0.1; done
done
case "$SUBJECT" in
    linerate) start_linerate >&2 ;;
    testpmd) start_testpmd >&2 ;;
    ovs) start_ovs >&2 ;;
esac
sleep 1
begin_cycles >&2
sleep "$SECONDS_EACH"
echo "cycles $(end_cycles)"
wait "$guest" || { cat guest.log >&2; exit 1; }
cat guest.json
