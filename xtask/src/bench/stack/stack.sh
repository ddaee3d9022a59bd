# One reading: a client and a server over TCP.
#   ROW             echo, short, bulk, http, kv or connections
#   CLIENT          linerate, iip, kernel, wrk or memcaslap
#   SERVER          linerate, iip, kernel, nginx or memcached
#   SETTING         ring of the client's virtio-user port; bulk: that and a comma, if there is a ring, and tso or no-tso
#   CONNECTIONS
#   IIP             program of bench-iip
#   SOCKETS, BULK   programs of linerate-benches
#   SWITCH_CPU      of the server, GUEST_CPU of the client
#   SECONDS_EACH, LINERATE, FOLDER
# Prints a report as `linerate load -o json` does, or the bits per second of a stream.
set -euo pipefail
cd "$FOLDER"
server=10.100.0.20 client=10.100.1.1 port=10000 socket=$FOLDER/s
# Set for our own servers, whose memory is read.
server_pid=none
left=linerate-$$-1 right=linerate-$$-2
seconds=$(awk -v s="$SECONDS_EACH" 'BEGIN { print int(s + 0.999) }')
# Bytes of a request and of a reply, or of a piece of a stream.
[ "$ROW" = bulk ] && size=63488 || size=64
ring=split offloads=false
case $SETTING in split* | packed*) ring=${SETTING%,*} ;; esac
case $SETTING in tso | *,tso) offloads=true ;; esac
# Source addresses have 64512 ports each.
sources=$(((CONNECTIONS + 64511) / 64512))

finish() {
    trap - EXIT
    # Fails for processes that have already ended.
    jobs -p | xargs -r kill 2>/dev/null || true
    wait || true
    for netns in $left $right; do ip netns delete $netns 2>/dev/null || true; done
}
trap finish EXIT
trap 'exit 130' INT TERM

# until_true COMMAND...: waits until it succeeds.
until_true() {
    for _ in $(seq 100); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done
    echo "the server did not start: $*" >&2
    return 1
}

# iip without offloads: with them it receives nothing over virtio. To be run in the background, which it replaces, so that signals
# reach it.
iip() {
    local cpu=$1 device=$2 address=$3 buffer=2304 memory=256
    shift 3
    # A piece of a stream is in one buffer.
    [ "$ROW" != bulk ] || buffer=65535 memory=640
    IIP_NOOFF=1 IIP_MBUF=$buffer exec "$IIP" --lcores "0@$cpu" --no-pci --in-memory --single-file-segments -m $memory \
        --force-max-simd-bitwidth=512 --vdev "$device" -- -a "0,$address" -- -p $port "$@"
}

ring_options() {
    case $ring in
        split) echo "" ;;
        split-inorder) echo ",mrg_rxbuf=0,in_order=1" ;;
        packed) echo ",packed_vq=1" ;;
        packed-inorder) echo ",packed_vq=1,mrg_rxbuf=0,in_order=1,vectorized=1" ;;
        *) echo "unknown ring $ring: expected split, split-inorder, packed or packed-inorder" >&2; return 2 ;;
    esac
}

# The end of iip's run: rate of each second, and then the percentiles in nanoseconds. Fails if replies are not as long as
# requests; iip prints whole Mbit/s and does not read their bytes.
iip_report() {
    awk -v row="$ROW" -v size="$size" '
        function ns(name) {
            if (!match($0, " " name "%-ile [0-9]+")) return 0
            split(substr($0, RSTART, RLENGTH), word, " ")
            return word[2]
        }
        # The first second includes the start. Of a stream, sent Mbit/s; otherwise received replies.
        /^paylaod total/ {
            value = row == "bulk" ? $9 : substr($6, 2) + 0
            if (value > 0 && seen++) rate[n++] = value
            if (row != "bulk" && (value * size < $4 * 125000 || value * size >= ($4 + 1) * 125000)) {
                print "replies are not of " size " bytes: " $0 > "/dev/stderr"
                failed = 1
            }
        }
        /latency 50%-ile/ { p50 = ns("50"); p99 = ns("99") }
        END {
            if (failed || !n) exit 1
            for (i = 1; i < n; i++) for (j = i; j && rate[j - 1] > rate[j]; j--) { t = rate[j]; rate[j] = rate[j - 1]; rate[j - 1] = t }
            value = rate[int(n / 2)]
            if (row == "bulk") printf "{\"bits_per_second\": %.0f}\n", value * 1e6
            else printf "{\"rounds\": [{\"replies_per_second\": %s}], \"latency_ns\": {\"p50\": %s, \"p99\": %s}}\n", value, p50, p99
        }' client.log
}

# The report of wrk.
wrk_report() {
    awk '
        function ns(text) {
            if (text ~ /us$/) return text * 1e3
            if (text ~ /ms$/) return text * 1e6
            return text * 1e9
        }
        $1 == "50%" { p50 = ns($2) }
        $1 == "99%" { p99 = ns($2) }
        $1 == "Requests/sec:" { rate = $2 }
        /Socket errors|Non-2xx/ { print > "/dev/stderr"; failed = 1 }
        END {
            if (failed || !rate) exit 1
            printf "{\"rounds\": [{\"replies_per_second\": %s}], \"latency_ns\": {\"p50\": %.0f, \"p99\": %.0f}}\n", rate, p50, p99
        }'
}

# The report of memcaslap, which has no percentiles.
memcaslap_report() {
    awk '/^get_misses/ && $2 + 0 > 0 { print > "/dev/stderr"; failed = 1 }
        { for (i = 1; i < NF; i++) if ($i == "TPS:") rate = $(i + 1) }
        END { if (failed || !rate) exit 1; printf "{\"rounds\": [{\"replies_per_second\": %s}]}\n", rate }'
}

# Both ends of a veth pair.
veth() {
    ip netns add $left
    ip -netns $left link add eth0 type veth peer name eth0 netns $right
    ip -netns $left address add $server/16 dev eth0
    ip -netns $left link set eth0 up
}

# The client's interface.
client_interface() {
    ip -netns $right address add $client/16 dev eth0
    ip -netns $right link set eth0 up
    # Short connections: all ports, and those in TIME-WAIT again after a second.
    ip netns exec $right sysctl -qw net.ipv4.ip_local_port_range="1024 65535" net.ipv4.tcp_tw_reuse=1
    [ "$SETTING" != no-tso ] || ip netns exec $right ethtool -K eth0 tso off gso off gro off >ethtool.log 2>&1
    [ "$SETTING" != no-tso ] || [ "$SERVER" = linerate ] ||
        ip netns exec $left ethtool -K eth0 tso off gso off gro off >>ethtool.log 2>&1
}

# on_left WORDS...: a server in the left namespace. To be run in the background, which it replaces.
on_left() { exec ip netns exec $left taskset -c "$SWITCH_CPU" "$@" >server.log 2>&1; }

mkdir site
head -c 1024 /dev/zero | tr '\0' x >site/file
chmod 755 . site
case $CLIENT in
    linerate | iip) link=socket ;;
    *) ip netns add $right; if [ "$SERVER" = linerate ]; then link=tap; else link=veth; veth; fi ;;
esac

case $SERVER in
    linerate)
        case $ROW in
            bulk) program=discard ;;
            http) program="http $FOLDER/site" ;;
            kv) program="kv --memory 1GiB" ;;
            *) program="echo --max-connections $((CONNECTIONS + CONNECTIONS / 8 + 4096))" ;;
        esac
        at="kind=vhost-user,socket=$socket,mode=server,offloads=$offloads"
        [ $link = socket ] || at="kind=tap,interface=eth0,netns=$right"
        "$LINERATE" serve $program --port "$at" --address $server/16 --tcp-port $port --cpu "$SWITCH_CPU" \
            --polling busy >server.log 2>&1 &
        server_pid=$!
        if [ $link = socket ]; then until_true [ -e "$socket" ]; else until_true grep "serves port" server.log; fi
        ;;
    iip)
        [ "$ROW" = bulk ] && words="-g 2" || words="-l $size"
        iip "$SWITCH_CPU" "net_vhost0,iface=$socket,queues=1" $server $words >server.log 2>&1 &
        until_true [ -e "$socket" ]
        ;;
    kernel)
        if [ "$CLIENT" = kernel ] && [ "$ROW" = bulk ]; then
            on_left "$BULK" sink $server:$port &
        else
            on_left "$SOCKETS" serve $server:$port "$size" &
        fi
        sleep 0.5
        ;;
    nginx)
        cat >nginx.conf <<EOF
daemon off; master_process off; user root; pid $FOLDER/nginx.pid; error_log $FOLDER/nginx-error.log;
events { worker_connections 4096; multi_accept on; }
http {
    access_log off; sendfile on; tcp_nopush on; tcp_nodelay on;
    keepalive_timeout 1h; keepalive_requests 1000000000; open_file_cache max=16;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server { listen $server:$port; location / { root $FOLDER/site; } }
}
EOF
        on_left nginx -p "$FOLDER" -c "$FOLDER/nginx.conf" &
        sleep 0.5
        ;;
    memcached)
        on_left memcached -u root -l $server -p $port -U 0 -m 1024 -t 1 -c 4096 &
        sleep 0.5
        ;;
esac
[ $link = socket ] || client_interface

on_right() { ip netns exec $right taskset -c "$GUEST_CPU" "$@"; }
case $CLIENT in
    linerate)
        if [ "$ROW" = bulk ]; then
            taskset -c "$GUEST_CPU" "$BULK" port "$socket" $ring $offloads $client/16 $server:$port "$seconds" 2>client.log
        else
            limit=
            [ "$ROW" != short ] || limit="--requests-per-connection 1"
            # So long that each connection has had several requests.
            warm_up=$((1 + CONNECTIONS / 70000))
            "$LINERATE" load echo --address $client/16 --sources $sources --to $server:$port --connections "$CONNECTIONS" \
                --port "kind=virtio-user,socket=$socket,mode=client,ring=$ring,queue_size=256,offloads=false" \
                --size "$size" --no-check $limit --timeout 60s --warm-up "${warm_up}s" \
                --duration "${seconds}s" --cpu "$GUEST_CPU" --polling busy -o json 2>client.log
            awk '/^VmHWM:/ { printf "{\"server_kib\": %s}\n", $2 }' /proc/$server_pid/status 2>/dev/null || true
        fi
        ;;
    iip)
        device="net_virtio_user0,path=$socket,queues=1,queue_size=256,mac=02:00:00:00:00:10$(ring_options)"
        words="-c $CONNECTIONS -d 1"
        [ "$ROW" != bulk ] || words="-c 1 -g 2 -d 3"
        iip "$GUEST_CPU" "$device" $client -s $server -l $size $words >client.log 2>&1 &
        pid=$!
        # It clears its memory at start.
        [ "$ROW" != bulk ] || sleep 3
        sleep $((seconds + 3))
        # It prints latencies after its connections are closed.
        kill -INT $pid
        for _ in $(seq 120); do [ -d /proc/$pid ] || break; sleep 0.1; done
        iip_report
        ;;
    kernel)
        if [ "$ROW" = bulk ]; then
            on_right "$BULK" send $server:$port "$seconds" 2>client.log
        else
            limit=
            [ "$ROW" != short ] || limit=1
            on_right "$SOCKETS" load $server:$port "$size" "$CONNECTIONS" "$seconds" $limit 2>client.log
        fi
        ;;
    wrk)
        on_right wrk -t1 "-c$CONNECTIONS" "-d${seconds}s" --latency "http://$server:$port/file" >client.log 2>&1
        wrk_report <client.log
        ;;
    memcaslap)
        printf 'key\n16 16 1\nvalue\n100 100 1\ncmd\n0 0.05\n1 0.95\n' >kv.cnf
        on_right memcaslap -s $server:$port -T1 "-c$CONNECTIONS" -w1k "-t${seconds}s" -F kv.cnf >client.log 2>&1
        memcaslap_report <client.log
        ;;
esac
