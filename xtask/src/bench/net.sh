# One reading: a TCP stream of $SECONDS_LONG seconds from one network namespace to another through the switch named
# $SWITCH (ours, bridge or ovs). Prints the JSON report of the iperf3 client; logs go to the folder $LOGS.
set -eu
left=linerate-$$-1 right=linerate-$$-2 middle=linerate-$$-3
cd "$LOGS"

clean() {
    trap - EXIT
    # Fails for processes that have already ended.
    kill $(jobs -p) 2>/dev/null || true
    wait || true
    for netns in $left $right $middle; do ip netns delete $netns 2>/dev/null || true; done
}
trap clean EXIT
trap 'exit 1' INT TERM

for netns in $left $right $middle; do
    ip netns add $netns
    ip -netns $netns link set lo up
    # Overrides the machine's default: reno is permitted in every namespace, and without loss as fast as any other.
    ip netns exec $netns sysctl --quiet --write net.ipv4.tcp_congestion_control=reno
done

until_there() {
    for _ in $(seq 200); do
        if ip -netns $1 link show dev eth0 >/dev/null 2>&1; then return; fi
        sleep 0.05
    done
    echo "no interface in $1" >&2
    exit 1
}

# Our switch with two TAP ports.
ours() {
    cat >switch.toml <<END
[[worker]]
cpu = $CPU
[[bridge]]
name = "lan"
[[port]]
name = "left"
bridge = "lan"
kind = "tap"
interface = "eth0"
netns = "$left"
$PORT
[[port]]
name = "right"
bridge = "lan"
kind = "tap"
interface = "eth0"
netns = "$right"
$PORT
END
    "$LINERATE" --control "$LOGS/control.sock" run switch.toml >linerate.log 2>&1 &
}

# Linux bridge with two veth pairs.
bridge() {
    ip -netns $middle link add lan type bridge
    ip -netns $middle link set lan up
    for netns in $left $right; do
        port=port${netns##*-}
        ip -netns $middle link add $port type veth peer name eth0 netns $netns
        ip -netns $middle link set $port master lan up
    done
}

# Open vSwitch with its user space datapath and two TAP ports.
ovs() {
    export OVS_RUNDIR=$LOGS OVS_LOGDIR=$LOGS OVS_DBDIR=$LOGS OVS_SYSCONFDIR=$LOGS
    ovsdb-tool create conf.db /usr/share/openvswitch/vswitch.ovsschema
    ovsdb-server conf.db --remote=punix:"$LOGS/db.sock" --unixctl="$LOGS/db.ctl" >db.log 2>&1 &
    while [ ! -S db.sock ]; do sleep 0.05; done
    ovs-vsctl --no-wait init
    ip netns exec $middle /usr/lib/openvswitch-switch/ovs-vswitchd unix:"$LOGS/db.sock" --unixctl="$LOGS/ovs.ctl" >ovs.log 2>&1 &
    ovs-vsctl --timeout=20 add-br lan -- set bridge lan datapath_type=netdev
    for netns in $left $right; do
        port=port${netns##*-}
        ovs-vsctl --timeout=20 add-port lan $port -- set Interface $port type=tap
        ip -netns $middle link set $port netns $netns name eth0
    done
}

$SWITCH
for netns in $left $right; do until_there $netns; done
ip -netns $left address add 10.9.0.1/24 dev eth0
ip -netns $right address add 10.9.0.2/24 dev eth0
for netns in $left $right; do ip -netns $netns link set eth0 up; done
ip netns exec $left ping -q -c 1 -w 10 10.9.0.2 >ping.log
ip netns exec $right iperf3 --server --one-off >server.log 2>&1 &
while ! ip netns exec $right ss -Hltn sport = 5201 | grep -q 5201; do sleep 0.05; done
ip netns exec $left iperf3 --client 10.9.0.2 --time "$SECONDS_LONG" --omit 1 --json
