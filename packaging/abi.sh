#!/bin/sh
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Compares the ABI of the library in the committed sources with that of an earlier commit: abi.sh BASE [FOLDER]. BASE is a commit or
# tag, such as the last release. FOLDER (default: a temporary one) keeps both builds for the next time. Needs git and abidiff
# (Debian: abigail-tools). Prints abidiff's report, limited to what the public headers declare. Exit code: 0 if a program that was
# linked with BASE runs with HEAD, 1 if something was removed or changed, 2 if the comparison was not possible.

set -u
[ $# -ge 1 ] && [ $# -le 2 ] || { echo "usage: abi.sh BASE [FOLDER]" >&2; exit 2; }
top=$(cd "$(dirname "$0")/.." && pwd)
base=$(git -C "$top" rev-parse --verify --quiet "$1^{commit}") || { echo "abi.sh: \"$1\" is not a commit" >&2; exit 2; }
command -v abidiff >/dev/null || { echo "abi.sh: abidiff is missing (Debian: abigail-tools)" >&2; exit 2; }
folder=${2:-}
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# build COMMIT: its library with debugging information, in $folder/COMMIT/build; sets `built`. Optimization and kernels change no ABI.
build() {
  built=$folder/$1
  [ ! -e "$built/build/complete" ] || return 0
  rm -rf "$built"
  mkdir -p "$built"
  git -C "$top" archive "$1" | tar -x -C "$built" &&
    meson setup "$built/build" "$built" --buildtype=debug -Doptimization=0 -Dapps=disabled -Dbench=disabled -Dcuda=disabled \
      -Dkernels=few -Dunity=on -Dunity_size=16 >"$built/log" 2>&1 &&
    meson compile -C "$built/build" lockstep:shared_library >>"$built/log" 2>&1 && touch "$built/build/complete" && return 0
  tail -n 20 "$built/log" >&2
  echo "abi.sh: $1 does not build" >&2
  exit 2
}

build "$base"
before=$built
build "$(git -C "$top" rev-parse HEAD)"
abidiff --headers-dir1 "$before/include" --headers-dir2 "$built/include" --drop-private-types --no-added-syms \
  "$before/build/lib/liblockstep.so" "$built/build/lib/liblockstep.so"
code=$?
# bits of the exit code: 1 an error, 2 a wrong use, 4 a change, 8 an incompatible change
[ $((code & 3)) -eq 0 ] || exit 2
[ $((code & 12)) -eq 0 ] || exit 1
