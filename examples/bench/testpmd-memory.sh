# Sets `memory` to the memory options of testpmd: huge pages if 256 MiB of them are free on a mounted hugetlbfs, otherwise
# ordinary pages. Reserved pages alone are not enough: DPDK exits without a mounted file system.
memory=(--no-huge -m 256)
free=$(awk '/^HugePages_Free/ { pages = $2 } /^Hugepagesize/ { print pages * $2 }' /proc/meminfo)
folder=$(awk '$3 == "hugetlbfs" { print $2; exit }' /proc/mounts)
if [ "${free:-0}" -ge 262144 ] && [ -n "$folder" ] && [ -w "$folder" ]; then
  memory=(--single-file-segments -m 256)
fi
