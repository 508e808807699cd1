#!/bin/sh
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# kit.sh [--with-train] BUILD FOLDER: makes the test kit, which checks and measures lockstep on a machine with GPUs, in
# FOLDER, which must not exist yet. The kit has programs of the build directory BUILD, the libraries that they need, and
# Open MPI. FOLDER/run.sh runs it from any directory, on a machine that has none of these. The kit leaves out what a
# machine with GPUs has: the C library, the driver, NCCL (218 MB), cuBLAS (600 MB).
#
# --with-train adds lockstep-train and oneDNN, which has 38 MiB.
#
# Prints the size of the kit. A kit of more than LOCKSTEP_KIT_MIB MiB (default: 50, with lockstep-train 100) is removed,
# and the exit code is 1.

set -eu
most_mib=50 train=
if [ "${1:-}" = --with-train ]; then
  most_mib=100 train=yes
  shift
fi
most_mib=${LOCKSTEP_KIT_MIB:-$most_mib}

if [ $# -ne 2 ] || [ ! -d "$1/bench" ] || [ -e "$2" ]; then
  echo "usage: kit.sh [--with-train] BUILD FOLDER: a build directory, and a folder that does not exist yet" >&2
  exit 2
fi
if [ -n "$train" ] && [ ! -x "$1/apps/train/lockstep-train" ]; then
  echo "kit.sh: --with-train: \"$1\" has no lockstep-train" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)

mpirun=$(command -v mpirun.openmpi || command -v mpirun)
libraries_of_mpi=$(ompi_info --path pkglibdir --parsable | cut -d: -f3-)
texts_of_mpi=$(ompi_info --path pkgdatadir --parsable | cut -d: -f3-)
settings_of_mpi=$(ompi_info --path sysconfdir --parsable | cut -d: -f3-)

# program FILE [NAME]: copies it without debugging information
program() {
  mkdir -p "$folder/bin"
  strip --strip-unneeded -o "$folder/bin/${2:-$(basename "$1")}" "$1"
}

# libraries_of FILE...: the libraries that are loaded with them, except those that every machine has
libraries_of() {
  LD_LIBRARY_PATH="$build/lib" ldd "$@" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | sort -u |
    grep -v -E '/(libc|libm|libdl|librt|libpthread|libresolv|libutil|libcuda|libnccl)\.so' || true
}

# add_libraries FILE...: copies their libraries; the compiler's go to a separate folder, for machines that have older ones or none
add_libraries() {
  mkdir -p "$folder/lib/compiler"
  libraries_of "$@" | while read -r library; do
    name=$(basename "$library")
    case $name in libstdc++* | libgcc_s*) place=$folder/lib/compiler/$name ;; *) place=$folder/lib/$name ;; esac
    [ -e "$place" ] || strip --strip-unneeded -o "$place" "$library"
  done
}

for name in bench/perf/lockstep-perf tests/gpu/gpu-tests tests/gpu/kernel-rates tests/unit/bindings/unit-bindings \
  ${train:+apps/train/lockstep-train}; do
  program "$build/$name"
  add_libraries "$build/$name"
done
# libraries that a test opens from its own folder
for name in "$build"/tests/unit/bindings/libfake-nccl-*.so; do [ ! -e "$name" ] || program "$name"; done

# Open MPI, as far as one machine needs it
program "$(readlink -f "$mpirun")" mpirun
program "$(command -v orted)"
mkdir -p "$folder/lib/openmpi" "$folder/lib/pmix" "$folder/share" "$folder/etc"
for plugin in "$libraries_of_mpi"/mca_*.so; do
  case $(basename "$plugin") in
    # networks, schedulers, files, OpenSHMEM, profiling
    *ofi* | *ucx* | *psm* | *openib* | *slurm* | *flux* | *jsm* | *gridengine* | mca_io_* | mca_fs_* | mca_fbtl_* | \
      mca_fcoll_* | mca_sharedfp_* | mca_memheap_* | mca_scoll_* | mca_spml_* | mca_sshmem_* | *monitoring* | *treematch*) ;;
    *) strip --strip-unneeded -o "$folder/lib/openmpi/$(basename "$plugin")" "$plugin" ;;
  esac
done
pmix=$(libraries_of "$libraries_of_mpi"/mca_pmix_ext*.so | grep '/libpmix\.so' || true)
for plugin in $(find "$(dirname "${pmix:-/nowhere/x}")" -path '*/pmix/pmix_mca_*.so' 2>/dev/null || true); do
  case $plugin in *slurm*) ;; *) cp "$plugin" "$folder/lib/pmix/" ;; esac
done
cp -r "$texts_of_mpi" "$folder/share/openmpi"
cp -r "$settings_of_mpi" "$folder/etc/openmpi"
add_libraries "$folder"/bin/* "$folder"/lib/openmpi/*.so "$folder"/lib/pmix/*.so

cp "$here/run.sh" "$folder/run.sh"
chmod +x "$folder/run.sh"
{
  echo "lockstep $(meson introspect --projectinfo "$build" | sed 's/.*"version": "\([^"]*\)".*/\1/')"
  echo "made $(date -u '+%Y-%m-%d %H:%M:%S UTC') on $(uname -sr), $(getconf GNU_LIBC_VERSION)"
  ompi_info --version | head -n 1
} >"$folder/versions"

mib=$(du -sm "$folder" | cut -f 1)  # rounded up
if [ "$mib" -gt "$most_mib" ]; then
  echo "kit.sh: the kit has $mib MiB, but at most $most_mib MiB are allowed. The largest files, in MiB:" >&2
  du -m "$folder"/bin/* "$folder"/lib/* | sort -rn | head >&2
  rm -rf "$folder"
  exit 1
fi
echo "kit.sh: $folder, $mib MiB"
