# One reading: a client and a server of one TCP/IP stack each.
#   CLIENT, SERVER  linerate, iip or kernel
#   RING            ring of the client's virtio-user port
#   CONNECTIONS, SIZE
#   PER_CONNECTION  requests of a connection; 0: no limit
#   IIP             program of bench-iip
#   SOCKETS         program for the kernel's TCP
#   SWITCH_CPU      of the server, GUEST_CPU of the client
#   SECONDS_EACH, LINERATE, FOLDER
# Prints a report as `linerate load -o json` does.
set -euo pipefail
cd "$FOLDER"
server=10.100.0.20 client=10.100.0.10 port=10000 socket=$FOLDER/s
left=linerate-$$-1 right=linerate-$$-2

finish() {
    trap - EXIT
    # Fails for processes that have already ended.
    jobs -p | xargs -r kill 2>/dev/null || true
    wait || true
    for netns in $left $right; do ip netns delete $netns 2>/dev/null || true; done
}
trap finish EXIT
trap 'exit 130' INT TERM

until_there() {
    for _ in $(seq 100); do [ -e "$1" ] && return; sleep 0.1; done
    echo "no server at $1" >&2
    return 1
}

# iip without offloads. The name of its EAL's folder must differ between the two ends.
iip() {
    local cpu=$1 device=$2 address=$3
    shift 3
    IIP_NOOFF=1 IIP_MBUF=2304 "$IIP" --lcores "0@$cpu" --no-pci --in-memory --single-file-segments -m 256 \
        --force-max-simd-bitwidth=512 --vdev "$device" -- -a "0,$address" -- -p $port -l "$SIZE" "$@"
}

ring_options() {
    case $RING in
        split) echo "" ;;
        split-inorder) echo ",mrg_rxbuf=0,in_order=1" ;;
        packed) echo ",packed_vq=1" ;;
        packed-inorder) echo ",packed_vq=1,mrg_rxbuf=0,in_order=1,vectorized=1" ;;
        *) echo "unknown ring $RING: expected split, split-inorder, packed or packed-inorder" >&2; return 2 ;;
    esac
}

# The end of iip's run: rate of each second, and then the percentiles in nanoseconds.
iip_report() {
    awk '
        function ns(name) {
            if (!match($0, " " name "%-ile [0-9]+")) return 0
            split(substr($0, RSTART, RLENGTH), word, " ")
            return word[2]
        }
        # The first second includes the start.
        /^paylaod total/ { pps = substr($6, 2) + 0; if (pps > 0 && seen++) rate[n++] = pps }
        /latency 50%-ile/ { p50 = ns("50"); p99 = ns("99") }
        END {
            if (!n) exit 1
            for (i = 1; i < n; i++) for (j = i; j && rate[j - 1] > rate[j]; j--) { t = rate[j]; rate[j] = rate[j - 1]; rate[j - 1] = t }
            printf "{\"rounds\": [{\"replies_per_second\": %s}], \"latency_ns\": {\"p50\": %s, \"p99\": %s}}\n", rate[int(n / 2)], p50, p99
        }' client.log
}

case $SERVER in
    linerate)
        # Without offloads, as iip.
        "$LINERATE" serve echo --port "kind=vhost-user,socket=$socket,mode=server,offloads=false" --address $server/24 \
            --tcp-port $port --cpu "$SWITCH_CPU" --polling busy >server.log 2>&1 &
        until_there "$socket"
        ;;
    iip)
        iip "$SWITCH_CPU" "net_vhost0,iface=$socket,queues=1" $server >server.log 2>&1 &
        until_there "$socket"
        ;;
    kernel)
        ip netns add $left
        ip netns add $right
        ip -netns $left link add eth0 type veth peer name eth0 netns $right
        ip -netns $left address add $server/24 dev eth0
        ip -netns $right address add $client/24 dev eth0
        ip -netns $left link set eth0 up
        ip -netns $right link set eth0 up
        ip netns exec $left taskset -c "$SWITCH_CPU" "$SOCKETS" serve $server:$port "$SIZE" >server.log 2>&1 &
        sleep 0.5
        ;;
esac
seconds=$(awk -v s="$SECONDS_EACH" 'BEGIN { print int(s + 0.999) }')
case $CLIENT in
    linerate)
        limit=
        [ "$PER_CONNECTION" = 0 ] || limit="--requests-per-connection $PER_CONNECTION"
        "$LINERATE" load echo --port "kind=virtio-user,socket=$socket,mode=client,ring=$RING,queue_size=256,offloads=false" \
            --address $client/24 --to $server:$port --connections "$CONNECTIONS" --size "$SIZE" --no-check $limit \
            --duration "${seconds}s" --cpu "$GUEST_CPU" --polling busy -o json 2>client.log
        ;;
    iip)
        device="net_virtio_user0,path=$socket,queues=1,queue_size=256,mac=02:00:00:00:00:10$(ring_options)"
        iip "$GUEST_CPU" "$device" $client -s $server -c "$CONNECTIONS" -d 1 >client.log 2>&1 &
        pid=$!
        sleep $((seconds + 3))
        # It prints latencies after its connections are closed.
        kill -INT $pid
        for _ in $(seq 120); do [ -d /proc/$pid ] || break; sleep 0.1; done
        iip_report
        ;;
    kernel)
        limit=
        [ "$PER_CONNECTION" = 0 ] || limit=$PER_CONNECTION
        ip netns exec $right taskset -c "$GUEST_CPU" "$SOCKETS" load $server:$port "$SIZE" "$CONNECTIONS" "$seconds" $limit 2>client.log
        ;;
esac
