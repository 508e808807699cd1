#!/bin/sh
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# prefix.sh PREFIX: builds the libraries that lockstep needs, and that the machine may lack, in the folder PREFIX, without
# root: fmt, Highway, nlohmann_json, hwloc and zlib. Needs a C++ compiler, CMake, make, tar, and curl or wget.
#
# The archives are Debian's copies of the projects' own. Each is compared with its SHA-256. LOCKSTEP_ARCHIVES names a
# folder in which they are kept (default: PREFIX/archives); an archive that is already there is not downloaded, so that a
# machine without a network can use a folder that was filled elsewhere. What PREFIX has already is not built again.
#
# Prints the commands with which lockstep is then built there. Exit code: 0, or 1 if an archive or a build is wrong.

set -eu

if [ $# -ne 1 ] || [ -z "$1" ]; then
  echo "usage: prefix.sh PREFIX: a folder, which is created" >&2
  exit 2
fi
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
archives=${LOCKSTEP_ARCHIVES:-$prefix/archives}
pool=https://deb.debian.org/debian/pool/main
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$archives" "$prefix/share"
jobs=$(nproc 2>/dev/null || echo 2)

fail() {
  echo "prefix.sh: $*" >&2
  exit 1
}

# unpack PATH SHA256: the archive at this path of the pool, in $work/source
unpack() {
  file=$archives/$(basename "$1")
  if [ ! -e "$file" ]; then
    if command -v curl >/dev/null; then
      curl -fsSL -o "$file.part" "$pool/$1" || fail "cannot download $pool/$1"
    else
      wget -q -O "$file.part" "$pool/$1" || fail "cannot download $pool/$1"
    fi
    mv "$file.part" "$file"
  fi
  echo "$2  $file" | sha256sum -c --status || fail "$file is not the file with the SHA-256 $2; remove it to download it again"
  rm -rf "$work/source"
  mkdir "$work/source"
  tar -xf "$file" -C "$work/source" --strip-components=1
}

# build NAME PATH SHA256 COMMAND...: runs the command in the sources, unless PREFIX has the library already
build() {
  name=$1 done=$prefix/share/$1.built path=$2 sum=$3
  shift 3
  [ ! -e "$done" ] || return 0
  echo "prefix.sh: $name"
  unpack "$path" "$sum"
  (cd "$work/source" && "$@") >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; fail "$name does not build"; }
  touch "$done"
}

by_cmake() {
  cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
    -DBUILD_SHARED_LIBS=ON -DCMAKE_INSTALL_RPATH="$prefix/lib" "$@" && cmake --build build -j "$jobs" && cmake --install build
}

by_configure() {
  ./configure --prefix="$prefix" --libdir="$prefix/lib" "$@" && make -j "$jobs" && make install
}

build fmt f/fmtlib/fmtlib_9.1.0+ds1.orig.tar.gz 84ce1c2d0be3a9863935137969dcec6970125caac032f82474640bfc81463583 by_cmake -DFMT_TEST=OFF -DFMT_DOC=OFF
build highway h/highway/highway_1.0.3.orig.tar.gz 566fc77315878473d9a6bd815f7de78c73734acdcb745c3dde8579560ac5440e by_cmake -DBUILD_TESTING=OFF -DHWY_ENABLE_EXAMPLES=OFF \
  -DHWY_ENABLE_CONTRIB=OFF
build nlohmann_json n/nlohmann-json3/nlohmann-json3_3.11.2.orig.tar.gz d69f9deb6a75e2580465c6c4c5111b89c4dc2fa94e3a85fcd2ffcd9a143d9273 by_cmake -DJSON_BuildTests=OFF
build zlib z/zlib/zlib_1.3.dfsg+really1.3.1.orig.tar.gz 60dd315c07f616887caa029408308a018ace66e3d142726a97db164b3b8f69fb by_configure
build hwloc h/hwloc/hwloc_2.9.0.orig.tar.bz2 b3fb1a43a14d8fbcd8e976de5ede2ea7ce1d768ed173adb33c7ceaaf098dc970 by_configure --disable-static --disable-cairo --disable-libxml2 \
  --disable-pci --disable-opencl --disable-cuda --disable-nvml --disable-rsmi --disable-levelzero --disable-gl

cat <<END
prefix.sh: done. Next:
  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig:$prefix/share/pkgconfig
  meson setup build --prefix=$prefix --libdir=lib -Dapps=disabled -Dbench=disabled
  ninja -C build && meson install -C build
END
