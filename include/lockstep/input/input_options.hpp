// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What can be chosen when a dataset is distributed.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>
#include <lockstep/collectives/communicator.hpp>

#include <cstdint>
#include <optional>

namespace lockstep {

/// How a global batch is cut into one chunk per replica; replica r always takes chunk r.
enum class SplitPolicy : std::uint8_t {
  /// The chunk sizes of a full batch (G / R, the first G mod R chunks one row longer), kept for a short last batch: it
  /// fills the
  /// chunks from the front, so 3 rows of a batch of 6 over 4 replicas are cut 2, 1, 0, 0.
  fixed_chunks,
  /// Each batch of n rows is cut by its own size, into slices of ceil(n / R); the last ones may be short or empty.
  ceil_slices,
};

/// For which unit of the job a dataset function is called: tf.distribute's InputReplicationMode.
enum class InputReplicationMode : std::uint8_t {
  per_worker,   ///< once per rank, whose replicas take turns
  per_replica,  ///< once per replica
};

struct InputOptions {
  /// See SplitPolicy. Ignored by datasets from a function.
  SplitPolicy split = SplitPolicy::fixed_chunks;
  /// Steps that a thread of the iterator's own prepares ahead; each holds one batch per local replica. 0: none, the
  /// batch is prepared on the caller's thread while it waits.
  int prefetch_batches = 2;
};

/// Whose batches are read here.
struct InputLayout {
  ReplicaLayout replicas;  ///< all of them
  int rank = 0;            ///< this rank
  /// Told when reading fails here, so that the other ranks do not wait for this one; nothing else is sent over it.
  std::optional<Communicator> peers = std::nullopt;
};

}  // namespace lockstep
