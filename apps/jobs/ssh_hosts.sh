#!/bin/bash
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Hosts without a batch system, reached by ssh without a password. HOSTS is a file with a line such as "n1 slots=2" for
# each host; program and libraries are at the same path on all of them.
#
#   ./ssh_hosts.sh HOSTS [PROGRAM [ARGUMENT...]]

hosts=${1:?usage: ssh_hosts.sh HOSTS [PROGRAM [ARGUMENT...]]}
shift
[ $# -gt 0 ] || set -- lockstep-train --epochs 5

fail() { echo "ssh_hosts.sh: $1" >&2; exit 2; }
[ -r "$hosts" ] || fail "host file $hosts cannot be read"
command -v mpirun >/dev/null || fail "mpirun is not found in PATH: load the module of the MPI library"
command -v "$1" >/dev/null || fail "program $1 is not found: give its path, or add its folder to PATH"

# If hosts have networks that do not connect them (docker0, virbr0), name the network that does:
#   export OMPI_MCA_btl_tcp_if_include=10.0.0.0/8 OMPI_MCA_oob_tcp_if_include=10.0.0.0/8
# MPICH and Intel MPI: mpiexec -f "$hosts" -genvlist PATH,LD_LIBRARY_PATH "$@", with lines such as "n1:2"; they have no -x.
# -x passes variables to all ranks; mpirun passes only its own. Without -n there is one rank per slot.
exec mpirun --hostfile "$hosts" -x PATH -x LD_LIBRARY_PATH "$@"
