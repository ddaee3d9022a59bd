#!/bin/sh
# Installs the C library: header, shared and static library, and the file for pkg-config.
# usage: install.sh PREFIX BUILD, where BUILD is target/release after `cargo build --release -p linerate-ffi`
set -eu
if [ $# -ne 2 ]; then
    echo "usage: $0 PREFIX BUILD" >&2
    exit 2
fi
prefix=$1 build=$2 source=$(dirname "$0")
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$source/../../Cargo.toml")
mkdir -p "$prefix/include" "$prefix/lib/pkgconfig"
install -m 644 "$source/include/linerate.h" "$prefix/include/"
install -m 755 "$build/liblinerate.so" "$prefix/lib/liblinerate.so.0"
install -m 644 "$build/liblinerate.a" "$prefix/lib/"
ln -sf liblinerate.so.0 "$prefix/lib/liblinerate.so"
sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" "$source/linerate.pc.in" > "$prefix/lib/pkgconfig/linerate.pc"
