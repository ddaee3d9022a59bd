#!/usr/bin/env bash
# The compiler of the workspace's crates for the gate. Clippy compiles tests and examples, and so each library and each
# program with its tests. Without their tests, rustc compiles them, which takes less time, and whose code is faster.
# Tests are not optimised, because they take less time to run than to optimise; the exception simulates clocks. The
# program, which is compiled last, has several units of code, so that no CPU is idle meanwhile.
# Not sh, which may remove variables such as CARGO_BIN_EXE_linerate-lab, whose names are not those of a shell.
is_test=false has_tests=false optimise=false
for word in "$@"; do
    case $word in
    --test) is_test=true ;;
    lib | linerate | linerate_lab) has_tests=true ;;
    qos) optimise=true ;;
    esac
done
! $is_test && [[ " $* " == *" --crate-name linerate "* ]] && set -- "$@" -C codegen-units=4
! $is_test && $has_tests && exec "$@" -D warnings
$is_test && ! $optimise && set -- "$@" -C opt-level=0
exec clippy-driver "$@"
