# Shared part of the scripts with DPDK's guest; prepended to them as text.
set -euo pipefail

: "${PKT:=64}"          # bytes of a frame, without its checksum
: "${INFLIGHT:=256}"    # frames in circulation per port of the guest
: "${SECONDS_EACH:=4}"  # how long a reading lasts

# Device options of the guest's driver for a ring.
guest_options() {
    case $1 in
        split) echo "" ;;
        split-inorder) echo ",mrg_rxbuf=0,in_order=1" ;;
        packed) echo ",packed_vq=1" ;;
        packed-vec | packed-inorder) echo ",packed_vq=1,mrg_rxbuf=0,in_order=1,vectorized=1" ;;
        *) echo "unknown ring $1: expected split, split-inorder, packed, packed-vec or packed-inorder" >&2; return 2 ;;
    esac
}
