#!/usr/bin/env bash
# The compiler of the workspace's crates for the gate. Clippy compiles programs and tests, and so each library with its
# tests. For others, rustc compiles libraries, which takes less time, and whose code is faster. Tests are not optimised,
# because they take less time to run than to optimise; the exceptions simulate caches and clocks.
# Not sh, which may remove variables such as CARGO_BIN_EXE_linerate-lab, whose names are not those of a shell.
is_test=false is_lib=false optimise=false
for word in "$@"; do
    case $word in
    --test) is_test=true ;;
    lib) is_lib=true ;;
    sim | qos) optimise=true ;;
    esac
done
$is_lib && exec "$@" -D warnings
$is_test && ! $optimise && set -- "$@" -C opt-level=0
exec clippy-driver "$@"
