#!/bin/sh
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs the missing packages of the named groups of tests/packages; does nothing, and needs no root, if none is missing.
#
#   sh tests/setup.sh GROUP...          exit 0: all there; 2: something is missing and cannot be installed from here
#   sh tests/setup.sh --list GROUP...   prints the names

set -u
list=$(dirname "$0")/packages

# packages_of GROUP...: lines "package probe"
packages_of() {
  for group in "$@"; do
    awk -v group="$group" '$1 == group { print $2, $3 }' "$list"
  done
}

# probe KIND:NAME: whether it can be found without asking the package manager
probe() {
  name=${1#*:}
  case $1 in
    tool:*) command -v "$name" >/dev/null 2>&1 ;;
    module:*) command -v pkg-config >/dev/null 2>&1 && pkg-config --exists "$name" 2>/dev/null ;;
    header:*)
      command -v c++ >/dev/null 2>&1 && printf '#include <%s>\n' "$name" | c++ -x c++ -std=c++20 -E - >/dev/null 2>&1 ;;
    file:*) test -e "$name" ;;
    *) return 1 ;;
  esac
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

missing_of() {
  packages_of "$@" | while read -r package what; do
    if $have_dpkg && installed "$package"; then continue; fi
    probe "$what" || echo "$package"
  done
}

if [ "${1:-}" = --list ]; then
  shift
  packages_of "$@" | cut -d ' ' -f 1
  exit 0
fi

have_dpkg=false
if command -v dpkg-query >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1; then have_dpkg=true; fi

missing=$(missing_of "$@" | tr '\n' ' ')
[ -n "$missing" ] || exit 0

if ! $have_dpkg; then
  echo "lockstep: this system has no apt-get. Please install what Debian calls: $missing" >&2
  echo "lockstep: (looked for each by the tool, pkg-config module, header or file named in tests/packages)" >&2
  exit 2
fi

options='-y --no-install-recommends -o DPkg::Lock::Timeout=300'
if [ "$(id -u)" = 0 ]; then
  as_root='env'
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
  as_root='sudo -n env'
else
  echo "lockstep: packages are missing, and this user can neither be root nor use sudo without a password. Please run:" >&2
  echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing% }" >&2
  exit 2
fi

echo "lockstep: installing ${missing% }"
log=${TMPDIR:-/tmp}/lockstep-setup.$$.log
# shellcheck disable=SC2086
if $as_root apt-get update >"$log" 2>&1 &&
  $as_root DEBIAN_FRONTEND=noninteractive apt-get install $options $missing >>"$log" 2>&1 </dev/null; then
  rm -f "$log"
  exit 0
fi
tail -n 20 "$log" >&2
echo "lockstep: the installation failed; its log is $log" >&2
exit 2
