# Builds bench-iip from the sources in $FOLDER, and fetches them if they are missing. Prints the path of the program.
# The edits permit virtio devices, which offer fewer offloads than network cards.
set -euo pipefail
cd "$FOLDER"
[ -x bench-iip/a.out ] && { echo "$FOLDER/bench-iip/a.out"; exit; }
for source in "iip acc27222ed3fb125609f788d12d27e6702d236f1" "iip-dpdk e361ef24ca615f49816903e1873f20527b3317e9" \
    "bench-iip a476244dad0c7285ebfc3f4a03faa961e1c5e569"; do
    set -- $source
    [ -f "$1/main.c" ] && continue
    git clone --quiet "https://github.com/yasukata/$1" >&2
    git -C "$1" checkout --quiet "$2"
done
sed -i 's/= RTE_ETH_MQ_RX_RSS;/= dev_info.flow_type_rss_offloads ? RTE_ETH_MQ_RX_RSS : RTE_ETH_MQ_RX_NONE;/
    s/if (dev_info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_CHECKSUM)/if ((dev_info.rx_offload_capa \& RTE_ETH_RX_OFFLOAD_CHECKSUM) == RTE_ETH_RX_OFFLOAD_CHECKSUM)/
    s/assert(rte_eth_promiscuous_enable(portid) >= 0);/rte_eth_promiscuous_enable(portid);/
    s/if (!strncmp(dev_info.driver_name, "net_tap"/if (getenv("IIP_NOOFF") || !strncmp(dev_info.driver_name, "net_tap"/
    s,^\(\t*\)0xffff /\* large buffer \*/,\1getenv("IIP_MBUF") ? atoi(getenv("IIP_MBUF")) : 0xffff,' iip-dpdk/main.c
sed -i 's/(ad->latency_cnt \/ \(100*\)) \* \(9*\)\]/ad->latency_cnt * \2 \/ \1]/' bench-iip/main.c
# Debian's DPDK instead of one that is fetched and built.
cd bench-iip
CFLAGS="-march=native -DNUM_RX_DESC=256" APP_EXTRA_CFLAGS="-I$FOLDER -Wno-error" \
    make -B IOSUB_DIR=../iip-dpdk IOSUB_DEP= >build.log 2>&1 || { tail -20 build.log >&2; exit 1; }
echo "$FOLDER/bench-iip/a.out"
