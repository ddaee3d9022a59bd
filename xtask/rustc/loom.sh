#!/usr/bin/env bash
# The compiler of the workspace's crates for the models of loom. Their dependencies are those of other builds.
exec "$@" --cfg loom
