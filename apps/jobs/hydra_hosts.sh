#!/bin/bash
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Hosts without a batch system, for MPICH and Intel MPI, whose launcher is hydra. HOSTS is a file with a line such as "n1:2" for
# each host; program and libraries are at the same path on all of them. Between hosts this script was not run here.
#
#   ./hydra_hosts.sh HOSTS [PROGRAM [ARGUMENT...]]

hosts=${1:?usage: hydra_hosts.sh HOSTS [PROGRAM [ARGUMENT...]]}
shift
[ $# -gt 0 ] || set -- lockstep-train --epochs 5
# The launcher of the MPI library: MPIEXEC=/path/mpiexec.hydra, or the one in PATH.
mpiexec=${MPIEXEC:-mpiexec.hydra}

fail() { echo "hydra_hosts.sh: $1" >&2; exit 2; }
[ -r "$hosts" ] || fail "host file $hosts cannot be read"
command -v "$mpiexec" >/dev/null || fail "$mpiexec is not found in PATH: load the module of the MPI library, or set MPIEXEC"
command -v "$1" >/dev/null || fail "program $1 is not found: give its path, or add its folder to PATH"

# Hydra has no -x: it passes all variables, or those of -genvlist. If hosts have several networks, name one: -iface eth0.
ranks=$(sed 's/#.*//' "$hosts" | awk -F: 'NF && $1 !~ /^[ \t]*$/ { n += NF > 1 ? $2 : 1 } END { print n + 0 }')
[ "$ranks" -gt 0 ] || fail "host file $hosts names no host"
exec "$mpiexec" -f "$hosts" -n "$ranks" "$@"
