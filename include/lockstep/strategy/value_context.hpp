// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace lockstep {

/// What a function that makes a replica's value is told: for which replica it is, and how many there are on all ranks.
struct ValueContext {
  int replica_id_in_sync_group = 0;
  int num_replicas_in_sync = 1;
};

}  // namespace lockstep
