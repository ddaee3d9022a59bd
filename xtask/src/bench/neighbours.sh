# One reading: a calm pair beside one attacker, through one switch with four ports, vhost-user but for attacks at another kind.
#   SUBJECT    linerate, ovs (Open vSwitch with DPDK) or testpmd (DPDK's vhost library, port to port)
#   ATTACK, RING, MODEL, SECONDS_EACH, SWITCH_CPU, GUEST_CPU, LINERATE, FOLDER
# The guests listen and the switch connects: calm sender a, calm receiver b, attacker x, its receiver y.
# Prints what `linerate guest --hostile` says as JSON.
set -eu
cd "$FOLDER"

finish() {
    trap - EXIT
    for file in vswitchd.pid ovsdb.pid; do
        [ -f "$file" ] && kill "$(cat "$file")" 2>/dev/null || true
    done
    jobs -p | xargs -r kill 2>/dev/null || true
    wait 2>/dev/null || true
}
trap finish EXIT
trap 'exit 130' INT TERM

# A receiver that does not drain concerns a switch that waits for it.
full=drop
[ "$ATTACK" = no-drain ] && full=wait

# The devices of some attacks need a port of another kind, and some of those can only connect.
side=listen mode=client kind=vhost-user
case "$ATTACK" in
    backend-*) kind=virtio-user ;;
    memif-*) side=connect mode=server kind=memif ;;
    stream-*) side=connect mode=server kind=stream ;;
esac

start_linerate() {
    {
        case "$MODEL" in
            inline) printf '[[worker]]\ncpu = %s\npolling = "busy"\nqueue_full = "%s"\n' "$SWITCH_CPU" "$full" ;;
            stealing) printf '[worker]\nmodel = "stealing"\nwork = [%s]\npolling = "busy"\nqueue_full = "%s"\n' "$SWITCH_CPU" "$full" ;;
            pipeline)
                printf '[worker]\nmodel = "pipeline"\nrx = [%s]\nwork = [%s]\ntx = [%s]\n' \
                    "$SWITCH_CPU" "$SWITCH_CPU" "$SWITCH_CPU"
                printf 'polling = "busy"\nqueue_full = "%s"\n' "$full"
                ;;
        esac
        for name in a b x y; do
            [ "$name" = x ] && of=$kind || of=vhost-user
            printf '[[port]]\nname = "%s"\nkind = "%s"\nsocket = "%s/%s"\nmode = "%s"\n' \
                "$name" "$of" "$FOLDER" "$name" "$mode"
            # The driver of a virtio-user port chooses its rings.
            [ "$of" != virtio-user ] || printf 'ring = "%s"\n' "$RING"
        done
    } >switch.toml
    "$LINERATE" --control "$FOLDER/c" run switch.toml >switch.log 2>&1 &
}

start_testpmd() {
    devices=
    number=0
    for name in a b x y; do
        devices="$devices --vdev net_vhost$number,iface=$FOLDER/$name,queues=1,client=1"
        number=$((number + 1))
    done
    # It ends where its standard input does, so that is held open here. Ports 0 and 1 are a pair, and ports 2 and 3.
    mkfifo commands
    dpdk-testpmd --lcores "(0)@$SWITCH_CPU,(1)@$SWITCH_CPU" --file-prefix="n$$" --no-pci --single-file-segments -m 512 \
        $devices -- -i --nb-cores=1 --rxd=1024 --txd=1024 --total-num-mbufs=65536 <commands >switch.log 2>&1 &
    exec 3>commands
    printf 'set fwd io\nstart\n' >&3
}

start_ovs() {
    export OVS_RUNDIR="$FOLDER" OVS_LOGDIR="$FOLDER" OVS_DBDIR="$FOLDER"
    db="unix:$FOLDER/db"
    mask=$(printf '0x%x' $((1 << SWITCH_CPU)))
    ovsdb-tool create conf.db /usr/share/openvswitch/vswitch.ovsschema
    ovsdb-server conf.db --remote="p$db" --pidfile="$FOLDER/ovsdb.pid" --detach --log-file="$FOLDER/ovsdb.log" 2>/dev/null
    ovs-vsctl --db="$db" --no-wait init
    ovs-vsctl --db="$db" --no-wait set Open_vSwitch . other_config:dpdk-init=true other_config:dpdk-socket-mem=512 \
        other_config:pmd-cpu-mask="$mask" other_config:dpdk-lcore-mask="$mask" \
        other_config:dpdk-extra="--no-pci --file-prefix=o$$ --single-file-segments"
    /usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk "$db" --pidfile="$FOLDER/vswitchd.pid" --detach \
        --log-file="$FOLDER/switch.log" 2>/dev/null
    ovs-vsctl --db="$db" --timeout=20 add-br br0 -- set bridge br0 datapath_type=netdev
    for name in a b x y; do
        ovs-vsctl --db="$db" --timeout=20 add-port br0 "$name" -- set Interface "$name" type=dpdkvhostuserclient \
            options:vhost-server-path="$FOLDER/$name"
    done
}

case "$SUBJECT" in
    linerate) start_linerate >&2 ;;
    testpmd) start_testpmd >&2 ;;
    ovs) start_ovs >&2 ;;
esac
"$LINERATE" guest --hostile "$ATTACK" --anyway "--$side" "$FOLDER/x" "--$side" "$FOLDER/y" \
    --calm "$FOLDER/a" --calm "$FOLDER/b" --ring "$RING" --cpu "$GUEST_CPU" --seconds "$SECONDS_EACH" -o json
