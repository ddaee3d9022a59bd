# One reading: from one network namespace to another through one switch.
#   SUBJECT  tap, af_xdp or af_packet (linerate); bridge (Linux); ovs-tap, ovs-afxdp or ovs-system (Open vSwitch, data path
#            in user space); af_xdp-pair, af_xdp-flow and af_xdp-ct with the kernel fast path: two stations of a bridge, a
#            flow of UDP, an open connection; ovs-afxdp-ct with the same flows as af_xdp-ct
#   LOAD     stream: iperf3; prints its JSON report
#            frames: 64 bytes each; prints packets per second received by the target and by the switch's first interface
#   PORT     TOML lines for linerate's ports
#   SWITCH_CPU, GUEST_CPU, SECONDS_EACH, LINERATE, FLOOD, FOLDER
set -euo pipefail
cd "$FOLDER"
left=linerate-$$-1 right=linerate-$$-2 middle=linerate-$$-3
target=02:00:00:00:00:02

finish() {
    trap - EXIT
    # Fails for processes that have already ended.
    jobs -p | xargs -r kill 2>/dev/null || true
    wait || true
    for netns in $left $right $middle; do ip netns delete $netns 2>/dev/null || true; done
}
trap finish EXIT
trap 'exit 130' INT TERM

for netns in $left $right $middle; do
    ip netns add $netns
    ip -netns $netns link set lo up
    # Reno is permitted in every namespace, and without loss as fast as any other.
    ip netns exec $netns sysctl -qw net.ipv4.tcp_congestion_control=reno
    # With frames, stations send none of their own.
    [ "$LOAD" = stream ] || ip netns exec $netns sysctl -qw net.ipv6.conf.default.disable_ipv6=1
done
# Of frames the switch's CPU is measured, so no other process of this machine may take it.
if [ "$LOAD" = frames ]; then first="nice -n -20" pinned="taskset -c $SWITCH_CPU"; else first= pinned=; fi

# Interfaces lan1 and lan2 of the switch, opposite to the stations' eth0.
veths() {
    local number=0 netns
    for netns in $left $right; do
        number=$((number + 1))
        ip -netns $middle link add lan$number numtxqueues 1 numrxqueues 1 type veth \
            peer name eth0 netns $netns numtxqueues 1 numrxqueues 1
        ip -netns $middle link set lan$number up
    done
}

# A firewall: connections begin at port $1, and both sides may use them.
firewall() {
    echo "priority=9,ip,actions=ct(table=1)"
    echo "table=1,priority=9,in_port=$1,ip,ct_state=+trk+new,actions=ct(commit),output:$2"
    echo "table=1,priority=8,in_port=$1,ip,ct_state=+trk+est,actions=output:$2"
    echo "table=1,priority=8,in_port=$2,ip,ct_state=+trk+est,actions=output:$1"
}

# The flows of our bridge, one in a line; none for a learning bridge.
flows() {
    case "$SUBJECT" in
        *-flow) echo "udp,nw_dst=198.18.0.2,tp_dst=9,actions=output:p2" ;;
        *-ct) firewall p1 p2 ;;
    esac
}

start_linerate() {
    {
        printf '[[worker]]\ncpu = %s\n[[bridge]]\nname = "lan"\n' "$SWITCH_CPU"
        [ -z "$(flows)" ] || printf 'pipeline = "openflow"\n'
        # The target's address is static, so no frame is flooded.
        [ "$LOAD" = stream ] || [ -n "$(flows)" ] || printf '[[bridge.static]]\nmac = "%s"\nport = "p2"\n' $target
        flows | while read -r flow; do printf '[[flow]]\nbridge = "lan"\nflow = "%s"\n' "$flow"; done
        number=0
        for netns in $left $right; do
            number=$((number + 1))
            printf '[[port]]\nname = "p%s"\nbridge = "lan"\nkind = "%s"\n%s\n' $number "${SUBJECT%%-*}" "$PORT"
            case "$SUBJECT" in af_xdp-*) printf 'kernel_fast_path = true\npeer_netns = "%s"\n' $netns ;; esac
            if [ "$SUBJECT" = tap ]; then
                printf 'interface = "eth0"\nnetns = "%s"\n' $netns
            else
                printf 'interface = "lan%s"\n' $number
            fi
        done
    } >switch.toml
    # Not by a function: the kill at the end would end its subshell only.
    ip netns exec $middle $first "$LINERATE" --control "$FOLDER/control.sock" run switch.toml >linerate.log 2>&1 &
}

start_bridge() {
    ip -netns $middle link add lan type bridge
    ip -netns $middle link set lan up
    for number in 1 2; do ip -netns $middle link set lan$number master lan; done
}

vsctl() { ovs-vsctl --db="unix:$FOLDER/db.sock" --timeout=20 "$@"; }

start_ovs() {
    export OVS_RUNDIR="$FOLDER" OVS_LOGDIR="$FOLDER" OVS_DBDIR="$FOLDER" OVS_SYSCONFDIR="$FOLDER"
    ovsdb-tool create conf.db /usr/share/openvswitch/vswitch.ovsschema
    ovsdb-server conf.db --remote="punix:$FOLDER/db.sock" --unixctl="$FOLDER/db.ctl" >db.log 2>&1 &
    while [ ! -S db.sock ]; do sleep 0.05; done
    vsctl --no-wait init
    vsctl --no-wait set Open_vSwitch . other_config:pmd-cpu-mask="$(printf '0x%x' $((1 << SWITCH_CPU)))"
    ip netns exec $middle $first $pinned /usr/lib/openvswitch-switch/ovs-vswitchd "unix:$FOLDER/db.sock" \
        --unixctl="$FOLDER/ovs.ctl" >ovs.log 2>&1 &
    vsctl add-br br0 -- set bridge br0 datapath_type=netdev
    number=0
    for netns in $left $right; do
        number=$((number + 1))
        case "$SUBJECT" in
            ovs-tap) options="type=tap" ;;
            ovs-afxdp*) options="type=afxdp options:n_rxq=1 options:xdp-mode=native" ;;
            ovs-system) options= ;;
        esac
        vsctl add-port br0 lan$number -- set Interface lan$number ofport_request=$number $options
        error=$(vsctl get Interface lan$number error)
        [ "$error" = '[]' ] || { echo "Open vSwitch: $error" >&2; exit 1; }
        [ "$SUBJECT" != ovs-tap ] || ip -netns $middle link set lan$number netns $netns name eth0
    done
    [ "$LOAD" = stream ] || {
        # Static flows from port to port, the cheapest configuration of Open vSwitch.
        ovs-ofctl del-flows "$FOLDER/br0.mgmt" 2>/dev/null
        case "$SUBJECT" in
            *-ct) firewall 1 2 ;;
            *) printf 'in_port=1,actions=output:2\nin_port=2,actions=output:1\n' ;;
        esac | ovs-ofctl add-flows "$FOLDER/br0.mgmt" -
    }
}

wait_for_interface() {
    for _ in $(seq 200); do
        if ip -netns $1 link show dev eth0 >/dev/null 2>&1; then return; fi
        sleep 0.05
    done
    echo "no interface in $1" >&2
    exit 1
}

stream() {
    ip -netns $left address add 10.9.0.1/24 dev eth0
    ip -netns $right address add 10.9.0.2/24 dev eth0
    ip netns exec $left ping -q -c 1 -w 10 10.9.0.2 >ping.log
    ip netns exec $right iperf3 --server --one-off >server.log 2>&1 &
    while ! ip netns exec $right ss -Hltn sport = 5201 | grep -q 5201; do sleep 0.05; done
    ip netns exec $left iperf3 --client 10.9.0.2 --time "$SECONDS_EACH" --omit 1 --json
}

count() { ip netns exec $1 cat /sys/class/net/$2/statistics/rx_packets; }

# Answers a datagram of the load, so that its connection is open.
reply() {
    sleep 1
    ip -netns $right address add 198.18.0.2/24 dev eth0
    ip -netns $right neighbour add 198.18.0.1 lladdr 02:00:00:00:00:01 dev eth0
    # The load and the switch leave others little time.
    ip netns exec $right nice -n -20 python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("198.18.0.2", 9)); s.sendto(b"", ("198.18.0.1", 9))'
}

frames() {
    sleep 1
    # They arrive as XDP frames, which a veth interface without a program accepts only with GRO.
    case "$SUBJECT" in af_packet | ovs-system) ip netns exec $middle ethtool -K lan1 gro on ;; esac
    ip netns exec $left nice -n -20 taskset -c "$GUEST_CPU" timeout $((SECONDS_EACH + 30)) "$FLOOD" eth0 $target >flood.log 2>&1 &
    case "$SUBJECT" in *-ct) reply ;; esac
    sleep 2
    arrived=$(count $right eth0) sent=$(count $middle lan1) began=$(date +%s%N)
    sleep "$SECONDS_EACH"
    arrived=$(($(count $right eth0) - arrived)) sent=$(($(count $middle lan1) - sent))
    time=$(($(date +%s%N) - began))
    [ $sent -gt 0 ] || { echo "no frame was sent" >&2; exit 1; }
    echo "$((arrived * 1000000 / (time / 1000))) $((sent * 1000000 / (time / 1000)))"
}

case "$SUBJECT" in
    tap) start_linerate ;;
    ovs-tap) start_ovs ;;
    bridge) veths; start_bridge ;;
    af_*) veths; start_linerate ;;
    ovs-*) veths; start_ovs ;;
esac
for netns in $left $right; do
    wait_for_interface $netns
    ip -netns $netns link set eth0 up
done
$LOAD
