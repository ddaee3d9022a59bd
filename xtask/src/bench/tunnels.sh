# One reading: frames of a generator into a VXLAN tunnel of one switch, or out of it. Runs after `hosts.sh` and
# `cycles.sh`.
#   WORK       encap or decap
#   SIZE       bytes of the inner frame, without checksum
#   SUBJECT    linerate, or ovs (Open vSwitch with DPDK)
#   SECONDS_EACH, SWITCH_CPU, GUEST_CPU, LINERATE, FOLDER
# Prints `cycles N`, the busy cycles of the switch per packet, and then the generator's report as JSON.

# Open vSwitch takes addresses and routes of the underlay from the kernel, so each reading has a network namespace.
if [ -z "${ISOLATED:-}" ]; then
    trap - EXIT INT TERM
    ISOLATED=1 exec unshare --net bash "$0"
fi
ip link set lo up

OWN=192.0.2.1 OWN_MAC=02:00:00:00:01:01 REMOTE=192.0.2.2 REMOTE_MAC=02:00:00:00:02:02
MTU=9000 # the packets of an inner frame of 1514 bytes are not to be fragmented

start_linerate() {
    cat >switch.toml <<END
[[worker]]
cpu = $SWITCH_CPU
[[bridge]]
name = "br0"
pipeline = "openflow"
[[bridge]]
name = "phy"
pipeline = "openflow"
[[underlay]]
bridge = "phy"
mac = "$OWN_MAC"
addresses = ["$OWN/24"]
mtu = $MTU
[[port]]
name = "a"
bridge = "br0"
socket = "$FOLDER/a"
mode = "client"
[[port]]
name = "vx"
bridge = "br0"
kind = "tunnel"
protocol = "vxlan"
remote = "$REMOTE"
key = 7
[[port]]
name = "b"
bridge = "phy"
socket = "$FOLDER/b"
mode = "client"
END
    "$LINERATE" --control "$FOLDER/c" run switch.toml >switch.log 2>&1 &
}

# The bridge br0 with port a exists.
add_tunnel_to_ovs() {
    vsctl() { ovs-vsctl --db="$db" --timeout=20 "$@"; }
    vsctl add-br phy -- set bridge phy datapath_type=netdev other-config:hwaddr="$OWN_MAC" -- set Interface phy mtu_request=$MTU
    vsctl add-port phy b -- set Interface b type=dpdkvhostuserclient options:vhost-server-path="$FOLDER/b" mtu_request=$MTU
    vsctl add-port br0 vx -- set Interface vx type=vxlan options:remote_ip="$REMOTE" options:key=7
    ip addr add "$OWN/24" dev phy
    ip link set phy up
    ovs-appctl -t "$FOLDER"/ovs-vswitchd*.ctl tnl/neigh/set phy "$REMOTE" "$REMOTE_MAC"
}

# The remote end's answer to ARP requests of the switch; Open vSwitch has an entry instead.
responder="priority=9,arp,arp_op=1,arp_tpa=$REMOTE,actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],mod_dl_src:$REMOTE_MAC"
responder="$responder,load:2->NXM_OF_ARP_OP[],move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],set_field:$REMOTE_MAC->arp_sha"
responder="$responder,move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],set_field:$REMOTE->arp_spa,in_port"

# Replaces all flows of a bridge, each of which is an argument.
flows() {
    bridge=$1
    shift
    wait_for_bridge "$bridge"
    printf '%s\n' "$@" >"$bridge.flows"
    ovs-ofctl -OOpenFlow13 del-flows "unix:$FOLDER/$bridge.mgmt" 2>>ofctl.log
    ovs-ofctl -OOpenFlow13 add-flows "unix:$FOLDER/$bridge.mgmt" "$bridge.flows" 2>>ofctl.log
}

case "$SUBJECT" in
    ovs)
        PORTS=a
        start_ovs >&2
        add_tunnel_to_ovs >&2
        ;;
    *) start_linerate >&2 ;;
esac
flows br0 in_port=1,actions=output:2 in_port=2,actions=output:1 >&2
flows phy priority=1,in_port=LOCAL,actions=output:1 priority=1,in_port=1,actions=LOCAL "$responder" >&2

case "$WORK" in
    encap) set -- --port "$(generator_port a)" --port "$(generator_port b)" ;;
    decap)
        SIZE=$((SIZE + 50)) # Ethernet, IPv4, UDP and VXLAN
        outer="vni = 7, source_mac = \"$REMOTE_MAC\", destination_mac = \"$OWN_MAC\", source = \"$REMOTE\", destination = \"$OWN\""
        set -- --port "$(generator_port b)" --port "$(generator_port a)" --set "vxlan={ $outer }"
        ;;
esac
"$LINERATE" gen "$@" --size "$SIZE" --rate max --cpu "$GUEST_CPU" --no-announce --no-baseline --warm-up 2s \
    --duration "${SECONDS_EACH}s" -o json >report.json 2>gen.log &
generator=$!
sleep 4 # the ports connect within 2 s
begin_cycles >&2
sleep "$(awk "BEGIN { print $SECONDS_EACH - 1 }")"
echo "cycles $(end_cycles)"
wait "$generator" || { cat gen.log >&2; exit 1; }
cat report.json
