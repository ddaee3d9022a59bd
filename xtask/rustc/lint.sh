#!/usr/bin/env bash
# The compiler of the workspace's crates for the gate: clippy, and no optimisation of tests, which take less time to run
# than to optimise. The exceptions simulate caches and clocks.
# Not sh, which may remove variables such as CARGO_BIN_EXE_linerate-lab, whose names are not those of a shell.
optimise=true
for word in "$@"; do
    case $word in
    --test) optimise=false ;;
    sim | qos) exec clippy-driver "$@" ;;
    esac
done
$optimise || set -- "$@" -C opt-level=0
exec clippy-driver "$@"
