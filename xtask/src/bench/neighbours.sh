# One reading: a calm pair beside one attacker, through one switch with four ports, vhost-user but for attacks at another kind.
#   SUBJECT    linerate, ovs (Open vSwitch with DPDK) or testpmd (DPDK's vhost library, port to port)
#   ATTACK, RING, MODEL, SECONDS_EACH, SWITCH_CPU, GUEST_CPU, LINERATE, FOLDER
# The guests listen and the switch connects: calm sender a, calm receiver b, attacker x, its receiver y.
# Prints what `linerate guest --hostile` says as JSON. Behind `hosts.sh`.
PORTS="a b x y"

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
        for name in $PORTS; do
            [ "$name" = x ] && of=$kind || of=vhost-user
            printf '[[port]]\nname = "%s"\nkind = "%s"\nsocket = "%s/%s"\nmode = "%s"\n' \
                "$name" "$of" "$FOLDER" "$name" "$mode"
            # The driver of a virtio-user port chooses its rings.
            [ "$of" != virtio-user ] || printf 'ring = "%s"\n' "$RING"
        done
    } >switch.toml
    "$LINERATE" --control "$FOLDER/c" run switch.toml >switch.log 2>&1 &
}

case "$SUBJECT" in
    linerate) start_linerate >&2 ;;
    testpmd) start_testpmd >&2 ;;
    ovs) start_ovs >&2 ;;
esac
"$LINERATE" guest --hostile "$ATTACK" --anyway "--$side" "$FOLDER/x" "--$side" "$FOLDER/y" \
    --calm "$FOLDER/a" --calm "$FOLDER/b" --ring "$RING" --cpu "$GUEST_CPU" --seconds "$SECONDS_EACH" -o json
