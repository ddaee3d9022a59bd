# One reading: a calm pair and one attacker at one switch with four ports; vhost-user, or another kind if the attack
# needs it.
#   SUBJECT    linerate, ovs (Open vSwitch with DPDK) or testpmd (DPDK's vhost library, port to port)
#   ATTACK, RING, MODEL, SECONDS_EACH, SWITCH_CPU, GUEST_CPU, LINERATE, FOLDER
# The guests listen and the switch connects: calm sender a, calm receiver b, attacker x, its receiver y.
# Prints the JSON report of `linerate guest --hostile`. Runs after `hosts.sh`.
PORTS="a b x y"

# A receiver that does not drain affects only a switch that waits for it.
full=drop
[ "$ATTACK" = no-drain ] && full=wait

# Some attacks need another kind of port, and some of these support only the connecting side.
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
            # The driver of a virtio-user port selects the ring kind.
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
    --calm "$FOLDER/a" --calm "$FOLDER/b" --ring "$RING" --cpu "$GUEST_CPU" --duration "${SECONDS_EACH}s" -o json
