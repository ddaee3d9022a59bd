# Starts a switch with vhost-user ports that connect to the sockets $FOLDER/NAME for each NAME of $PORTS, and ends it
# when the shell exits. Prepended as text to a script that takes one reading.
#   PORTS, SWITCH_CPU, LINERATE, FOLDER
#   TESTPMD_SET  testpmd commands to run before forwarding starts, each with a newline
set -euo pipefail
cd "$FOLDER"

finish() {
    trap - EXIT
    daemons=$(cat vswitchd.pid ovsdb.pid 2>/dev/null || true)
    # shellcheck disable=SC2086
    end_processes $daemons $(jobs -p)
}

# Ends the processes $@ by SIGTERM, and 5 seconds later by SIGKILL.
end_processes() {
    [ $# -gt 0 ] || return 0
    kill "$@" 2>/dev/null || true
    # Signal 0 fails only if none of them is left.
    for _ in $(seq 50); do kill -0 "$@" 2>/dev/null || return 0; sleep 0.1; done
    kill -KILL "$@" 2>/dev/null || true
}
trap finish EXIT
trap 'exit 130' INT TERM

# Starts linerate with the sections $1 before those of the ports, and the lines $2 in each of these.
run_linerate() {
    {
        printf '[[worker]]\ncpu = %s\n%s\n' "$SWITCH_CPU" "$1"
        for name in $PORTS; do
            printf '[[port]]\nname = "%s"\nsocket = "%s/%s"\nmode = "client"\n%s\n' "$name" "$FOLDER" "$name" "$2"
        done
    } >switch.toml
    "$LINERATE" --control "$FOLDER/c" run switch.toml >switch.log 2>&1 &
}

# Waits for the OpenFlow socket of a bridge.
wait_for_bridge() {
    for _ in $(seq 100); do [ -S "$FOLDER/$1.mgmt" ] && break; sleep 0.1; done
}

# The port of the generator that the switch's port $1 connects to.
generator_port() { echo "kind=virtio-user,socket=$FOLDER/$1,mode=server"; }

start_testpmd() {
    devices=
    number=0
    for name in $PORTS; do
        devices="$devices --vdev net_vhost$number,iface=$FOLDER/$name,queues=1,client=1"
        number=$((number + 1))
    done
    # dpdk-dumpcap has the number of its CPU as lcore, and processes with the same lcore would share caches of pools.
    # testpmd exits at the end of its standard input, so it is held open. Ports 0 and 1 are a pair, and ports 2 and 3.
    mkfifo commands
    stdbuf -oL dpdk-testpmd --lcores "(120)@$SWITCH_CPU,(121)@$SWITCH_CPU" --file-prefix="n$$" --no-pci --single-file-segments -m 512 \
        $devices -- -i --nb-cores=1 --rxd=1024 --txd=1024 --total-num-mbufs=65536 <commands >switch.log 2>&1 &
    exec 3>commands
    printf 'set fwd io\n%sstart\n' "${TESTPMD_SET:-}" >&3
}

start_ovs() {
    export OVS_RUNDIR="$FOLDER" OVS_LOGDIR="$FOLDER" OVS_DBDIR="$FOLDER"
    db="unix:$FOLDER/db"
    mask=$(printf '0x%x' $((1 << SWITCH_CPU)))
    timeout 20 ovsdb-tool create conf.db /usr/share/openvswitch/vswitch.ovsschema
    timeout 20 ovsdb-server conf.db --remote="p$db" --pidfile="$FOLDER/ovsdb.pid" --detach --log-file="$FOLDER/ovsdb.log" 2>/dev/null
    ovs-vsctl --db="$db" --no-wait --timeout=20 init
    ovs-vsctl --db="$db" --no-wait --timeout=20 set Open_vSwitch . other_config:dpdk-init=true other_config:dpdk-socket-mem=512 \
        other_config:pmd-cpu-mask="$mask" other_config:dpdk-lcore-mask="$mask" \
        other_config:dpdk-extra="--no-pci --file-prefix=o$$ --single-file-segments"
    start_vswitchd
    ovs-vsctl --db="$db" --timeout=20 add-br br0 -- set bridge br0 datapath_type=netdev
    for name in $PORTS; do
        ovs-vsctl --db="$db" --timeout=20 add-port br0 "$name" -- set Interface "$name" type=dpdkvhostuserclient \
            options:vhost-server-path="$FOLDER/$name"
    done
}

# Starts the daemon with the database $db, and waits until it has read its configuration.
start_vswitchd() {
    timeout 60 /usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk "$db" --pidfile="$FOLDER/vswitchd.pid" --detach \
        --log-file="$FOLDER/switch.log" 2>/dev/null
}
