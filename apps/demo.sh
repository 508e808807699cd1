#!/bin/sh
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs missing packages, builds, trains on real images under mpirun in several layouts, and measures all-reduce. Ends
# with a summary and plots. Takes no argument.

set -u
cd "$(dirname "$0")/.." || exit 1
sh tests/setup.sh build data || exit $?
# shellcheck source=/dev/null
. tests/launch.env

build='build-demo'
train=$build/apps/train/lockstep-train
perf=$build/bench/perf/lockstep-perf
results=$build/demo
jobs=$(nproc 2>/dev/null || echo 2)

note() { printf '\n== %s\n' "$*"; }
run() {
  printf '+ %s\n' "$*"
  "$@" </dev/null || { echo "lockstep: the demo stops: the last command failed with exit code $?" >&2; exit 1; }
}

compile() {
  if [ ! -f "$build/build.ninja" ]; then
    # several sources per compilation, kernels for few processors, and nothing for GPUs: less than half of the time
    meson setup "$build" -Dbuildtype=release -Doptimization=2 -Dunity=on -Dunity_size=16 -Dkernels=few -Dcuda=disabled \
      -Dtests=disabled -Dapps=enabled -Dbench=enabled -Dcpp_args=--param=ggc-min-heapsize=524288 || return 1
  fi
  # what follows runs these programs only
  CCACHE_DEPEND=1 ninja -C "$build" -j "$jobs" apps/train/lockstep-train bench/perf/lockstep-perf bench/perf/lockstep-plot
}

note "build ($build)"
log=$(mktemp)
if ! compile >"$log" 2>&1; then
  tail -n 40 "$log"
  echo "lockstep: the build failed; its complete output is in $log" >&2
  exit 1
fi
rm -f "$log"
mkdir -p "$results"
rm -f "$results"/*.json "$results"/*.png "$results"/perf.txt

note "training on Fashion-MNIST: 2 ranks"
run mpirun -n 2 "$train" --epochs 5 --json "$results"/train.json

note "the same 4 replicas in two layouts: on 1 rank, and on 2"
run mpirun -n 1 "$train" --steps 200 --global-batch 240 --replicas-per-rank 4 --quiet --json "$results"/one.json
run mpirun -n 2 "$train" --steps 200 --global-batch 240 --replicas-per-rank 2,2 --quiet --json "$results"/two.json

note "all-reduce, compared with MPI_Allreduce"
plot=$results/perf.txt
sh tests/setup.sh plot >/dev/null 2>&1
if command -v gnuplot >/dev/null 2>&1; then
  run mpirun -n 2 "$perf" -b 8 -e 16M -f 8 --memory arena --compare mpi --json "$results"/perf.json --plot "$plot"
else
  run mpirun -n 2 "$perf" -b 8 -e 16M -f 8 --memory arena --compare mpi --json "$results"/perf.json
fi

note "summary"
python3 - "$results" <<'END'
import json
import sys


def load(name):
    with open(f'{sys.argv[1]}/{name}.json', encoding='utf-8') as file:
        return json.load(file)


def size(count):
    for unit in ('B', 'KiB', 'MiB'):
        if count < 1024:
            return f'{count:g} {unit}'
        count /= 1024
    return f'{count:g} GiB'


train, one, two, perf = load('train'), load('one'), load('two'), load('perf')
same = one['parameters'] == two['parameters']
print(f'test accuracy      {train["test_accuracy"]:.4f}   (10000 test images, after 5 epochs)')
print(f'images per second  {train["images_per_second"]:,.0f}   ({len(train["layout"])} ranks)')
print(f'communication      {100 * train["communication_share"]:.1f} % of the time')
print(f'waiting for input  {100 * train["input_wait_share"]:.2f} % of the time')
print('4 replicas         ', f'{one["layout"]} {one["parameters"]}   {two["layout"]} {two["parameters"]}', sep='')
print(f'same bits:         {"yes" if same else "NO"}')
print()
rows = [row for row in perf['rows'] if not row['in_place']] or perf['rows']
wrong = sum(row['wrong'] for row in perf['rows'])
print('all-reduce on 2 ranks      lockstep          MPI    ratio   bus bandwidth')
for row in rows:
    print(f'{size(row["bytes"]):>12} {row["dtype"]:>5} {row["time_us"]:>13.2f} us {row["mpi_time_us"]:>9.2f} us {row["ratio"]:>7.2f}'
          f' {row["busbw_gbs"]:>10.3f} GB/s')
print(f'wrong elements: {wrong}')
sys.exit(0 if same and not wrong else 1)
END
summary=$?

if [ -s "$plot" ]; then
  cat "$plot"
else
  echo "no plot: gnuplot is missing (Debian package gnuplot-nox)"
fi
for name in perf train; do
  "$build"/bench/perf/lockstep-plot "$results/$name".json || break
  echo "picture: $results/$name.png"
done
exit $summary
