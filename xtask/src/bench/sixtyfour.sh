# One reading: frames of 64 bytes from one station to another, through one switch between two veth pairs.
#   SUBJECT    xdp or packet (linerate), afxdp or system (Open vSwitch, data path in user space)
#   SWITCH_CPU, LOAD_CPU, SECONDS_EACH, LINERATE, FLOOD, FOLDER
# Prints packets per second: received by the target station, and received by the switch's first interface.
set -eu
ID="lr64-$$"
HOST="$ID-h" LEFT="$ID-l" RIGHT="$ID-r"
TARGET=02:00:00:00:00:02

finish() {
    trap - EXIT
    jobs -p | xargs -r kill 2>/dev/null || true
    [ -f "$FOLDER/vswitchd.pid" ] && kill "$(cat "$FOLDER/vswitchd.pid")" 2>/dev/null || true
    [ -f "$FOLDER/ovsdb.pid" ] && kill "$(cat "$FOLDER/ovsdb.pid")" 2>/dev/null || true
    wait 2>/dev/null || true
    for name in "$HOST" "$LEFT" "$RIGHT"; do ip netns delete "$name" 2>/dev/null || true; done
}
trap finish EXIT
trap 'exit 130' INT TERM

in_host() { ip netns exec "$HOST" "$@"; }
count() { ip netns exec "$1" cat "/sys/class/net/$2/statistics/rx_packets"; }

for name in "$HOST" "$LEFT" "$RIGHT"; do
    ip netns add "$name"
    # Stations send no frames of their own.
    ip netns exec "$name" sysctl -qw net.ipv6.conf.default.disable_ipv6=1
done
number=0
for station in "$LEFT" "$RIGHT"; do
    number=$((number + 1))
    ip -n "$HOST" link add "lan$number" numtxqueues 1 numrxqueues 1 type veth \
        peer name eth0 netns "$station" numtxqueues 1 numrxqueues 1
    ip -n "$HOST" link set "lan$number" up
    ip -n "$station" link set eth0 up
done

start_linerate() {
    {
        printf '[[worker]]\ncpu = %s\n[[bridge]]\nname = "lan"\n' "$SWITCH_CPU"
        # The target's address is static, so nothing is flooded.
        printf '[[bridge.static]]\nmac = "%s"\nport = "p2"\n' "$TARGET"
        for n in 1 2; do
            printf '[[port]]\nname = "p%s"\nkind = "af_%s"\ninterface = "lan%s"\n' "$n" "$SUBJECT" "$n"
        done
    } > "$FOLDER/switch.toml"
    # Does not use in_host: with it the kill on exit would end only the subshell.
    ip netns exec "$HOST" nice -n -20 "$LINERATE" --control "$FOLDER/c.sock" run "$FOLDER/switch.toml" > "$FOLDER/linerate.log" 2>&1 &
}

start_ovs() {
    export OVS_RUNDIR="$FOLDER" OVS_LOGDIR="$FOLDER" OVS_DBDIR="$FOLDER"
    ovsdb-tool create "$FOLDER/conf.db" /usr/share/openvswitch/vswitch.ovsschema
    ovsdb-server --detach --no-chdir --pidfile="$FOLDER/ovsdb.pid" --log-file="$FOLDER/ovsdb.log" \
        --remote="punix:$FOLDER/db.sock" "$FOLDER/conf.db" 2> /dev/null
    DB="unix:$FOLDER/db.sock"
    ovs-vsctl --db="$DB" --no-wait init
    ovs-vsctl --db="$DB" --no-wait set Open_vSwitch . \
        other_config:pmd-cpu-mask="$(printf '0x%x' $((1 << SWITCH_CPU)))"
    in_host nice -n -20 taskset -c "$SWITCH_CPU" ovs-vswitchd --detach --no-chdir --pidfile="$FOLDER/vswitchd.pid" \
        --log-file="$FOLDER/vswitchd.log" "$DB" 2> /dev/null
    ovs-vsctl --db="$DB" add-br br0 -- set bridge br0 datapath_type=netdev
    for n in 1 2; do
        if [ "$SUBJECT" = afxdp ]; then
            ovs-vsctl --db="$DB" add-port br0 "lan$n" -- set interface "lan$n" ofport_request="$n" type=afxdp \
                options:n_rxq=1 options:xdp-mode=native
        else
            ovs-vsctl --db="$DB" add-port br0 "lan$n" -- set interface "lan$n" ofport_request="$n"
        fi
        error=$(ovs-vsctl --db="$DB" get interface "lan$n" error)
        [ "$error" = '[]' ] || { echo "Open vSwitch: $error" >&2; exit 1; }
    done
    # Static port-to-port flows, the cheapest configuration of Open vSwitch.
    ovs-ofctl del-flows "$FOLDER/br0.mgmt" 2> /dev/null
    ovs-ofctl add-flow "$FOLDER/br0.mgmt" in_port=1,actions=output:2
    ovs-ofctl add-flow "$FOLDER/br0.mgmt" in_port=2,actions=output:1
}

case "$SUBJECT" in
    xdp | packet) start_linerate ;;
    afxdp | system) start_ovs ;;
esac
sleep 1

case "$SUBJECT" in
    # The load arrives as XDP frames, which a veth interface without a program accepts only with GRO.
    packet | system) in_host ethtool -K lan1 gro on ;;
esac
ip netns exec "$LEFT" nice -n -20 taskset -c "$LOAD_CPU" timeout $((SECONDS_EACH + 5)) "$FLOOD" eth0 "$TARGET" &
sleep 2

arrived=$(count "$RIGHT" eth0) sent=$(count "$HOST" lan1) began=$(date +%s%N)
sleep "$SECONDS_EACH"
arrived=$(($(count "$RIGHT" eth0) - arrived)) sent=$(($(count "$HOST" lan1) - sent))
time=$(($(date +%s%N) - began))
echo "$((arrived * 1000000 / (time / 1000))) $((sent * 1000000 / (time / 1000)))"
