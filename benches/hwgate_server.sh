#!/bin/sh
# hwgate as one of the log servers that log_bench.py compares.
# usage: hwgate_server.sh ENDPOINT FILE FOLDER
# FILE is where the others write; hwgate writes FOLDER/gateway.log. The journal stands outside FOLDER,
# where its records are not counted as lines. HWGATE_BENCH_DATA: where; made anew at each start.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
data=${HWGATE_BENCH_DATA:-$here/build/bench/hwgate}
rm -rf "$data"
mkdir -p "$data"
cat >"$data/hwgate.toml" <<CONF
[gateway]
name = "bench"
log_dir = "$3"
[endpoints]
logs = "$1"
commands = "${HWGATE_BENCH_COMMANDS:-tcp://127.0.0.1:0}"
[journal]
dir = "$data/journal"
max_bytes = "2GiB"
[[log]]
path = "gateway.log"
CONF
exec "${HWGATE_BIN:-$here/target/release/hwgate}" run --config "$data/hwgate.toml"
