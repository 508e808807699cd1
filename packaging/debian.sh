#!/bin/sh
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the Debian packages of the committed sources, unsigned: debian.sh FOLDER. FOLDER must not exist or be empty.
# Needs dpkg-dev, debhelper, chrpath, git and the Build-Depends of debian/control. If lintian is installed, it checks the packages.

set -eu
folder=${1:?usage: debian.sh FOLDER}
top=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n '1s/.*(\(.*\)-[^-]*).*/\1/p' "$top/packaging/debian/changelog")
mkdir -p "$folder"
[ -z "$(ls -A "$folder")" ] || { echo "debian.sh: folder $folder is not empty" >&2; exit 2; }
folder=$(cd "$folder" && pwd)
git -C "$top" archive --prefix="lockstep-$version/" --output="$folder/lockstep_$version.orig.tar.gz" HEAD
tar -C "$folder" -xzf "$folder/lockstep_$version.orig.tar.gz"
cp -R "$folder/lockstep-$version/packaging/debian" "$folder/lockstep-$version/debian"
cd "$folder/lockstep-$version"
dpkg-buildpackage -us -uc -b
if command -v lintian >/dev/null; then lintian --fail-on error,warning "$folder"/*.changes; fi
ls -l "$folder"/*.deb
