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

# If hosts have networks that do not connect them (docker0, virbr0), name the network that does:
#   export OMPI_MCA_btl_tcp_if_include=10.0.0.0/8 OMPI_MCA_oob_tcp_if_include=10.0.0.0/8
# -x passes variables to all ranks; mpirun passes only its own. Without -n there is one rank per slot.
exec mpirun --hostfile "$hosts" -x PATH -x LD_LIBRARY_PATH "$@"
