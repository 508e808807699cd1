// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What can be chosen when a dataset is distributed.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cluster/replica_layout.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/device.hpp>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep {

/// How a global batch is cut into one chunk per replica; replica r always takes chunk r.
enum class SplitPolicy : std::uint8_t {
  /// The chunk sizes of a full batch (G / R, the first G mod R chunks one row longer), kept for a short last batch: it
  /// fills the chunks from the front, so 3 rows of a batch of 6 over 4 replicas are cut 2, 1, 0, 0.
  fixed_chunks,
  /// Each batch of n rows is cut by its own size, into slices of ceil(n / R); the last ones may be short or empty.
  ceil_slices,
};

/// Which part of a dataset each rank reads: tf.data's AutoShardPolicy. With W ranks of k replicas each, R = W * k, all
/// but `automatic` make the batches of a replica depend on the ranks, and want as many replicas on every rank.
enum class AutoShardPolicy : std::uint8_t {
  /// Replica r takes chunk r of each global batch, whatever rank it lives on. A source with random access is read only
  /// where a rank's replicas need it; any other is read whole by every rank.
  automatic,
  /// Rank i reads files i, i + W, ... of every source, at least one; what it reads is its own stream, which its
  /// replicas take in turn. Cut by fixed_chunks, the stream is taken without regard to where its batches end, rank i
  /// beginning with the size of chunk i * k, and each next batch having the size of the next chunk; by ceil_slices,
  /// each batch is cut into R slices. Ranks whose files end sooner get empty batches then.
  file,
  /// Every rank reads everything, cuts each batch into R slices of ceil(n / R) rows, also where the options say
  /// fixed_chunks, and keeps slices i, i + W, ...
  data,
  /// Every rank reads everything and takes it as its own stream, as with `file`: each element is given once per rank.
  off,
  /// The shard hint in the dataset becomes the shard of this rank, i of W; then as with `off`.
  hint,
  /// What tf.data calls AUTO: `file` where every source is made of files, otherwise `data`.
  file_or_data,
};

/// "FIXED_CHUNKS", "CEIL_SLICES"; "AUTO", "FILE", "DATA", "OFF", "HINT", "FILE_OR_DATA". Local.
[[nodiscard]] LOCKSTEP_API std::string_view to_string(SplitPolicy policy) noexcept;
[[nodiscard]] LOCKSTEP_API std::string_view to_string(AutoShardPolicy policy) noexcept;

/// For which unit of the job a dataset function is called: tf.distribute's InputReplicationMode.
enum class InputReplicationMode : std::uint8_t {
  per_worker,   ///< once per rank, whose replicas take turns
  per_replica,  ///< once per replica
};

/// Equal on all ranks. The fields that begin with experimental_ are tf.distribute's, with its rules; where all devices
/// are CPUs, whose memory is the host's, what is given does not depend on the two about devices.
struct InputOptions {
  /// See SplitPolicy. Ignored by datasets from a function.
  SplitPolicy split = SplitPolicy::fixed_chunks;
  /// See AutoShardPolicy. Ignored by datasets from a function.
  AutoShardPolicy auto_shard_policy = AutoShardPolicy::automatic;
  /// Steps that a thread of the iterator's own prepares ahead; each holds one batch per local replica. 0: none, the
  /// batch is prepared on the caller's thread while it waits.
  int prefetch_batches = 2;
  /// Whether batches are brought to the replica's device before they are asked for: on a GPU the tensors of a batch lie
  /// there, copied beside what the replica computes. Without it all batches are in host memory. Goes not with
  /// experimental_place_dataset_on_device under per_replica.
  bool experimental_fetch_to_device = true;
  /// How often a dataset function is called. per_replica: datasets from a function of MirroredStrategy only; pipeline i
  /// of R is then replica i's, of which it takes one element per step.
  InputReplicationMode experimental_replication_mode = InputReplicationMode::per_worker;
  /// Whether a dataset function runs on the replica's device; per_replica only, without experimental_fetch_to_device.
  /// Functions run on the host here, so batches lie where the dataset makes them.
  bool experimental_place_dataset_on_device = false;
  /// Batches to be prepared ahead for each replica, at least 0. The larger of this and prefetch_batches holds, unless
  /// that is 0.
  int experimental_per_replica_buffer_size = 1;
};

/// Whose batches are read here.
struct InputLayout {
  ReplicaLayout replicas;  ///< all of them
  int rank = 0;            ///< this rank
  /// Told when reading fails here, so that the other ranks do not wait for this one. Where ranks read streams of their
  /// own (AutoShardPolicy file, off and hint), they also agree over it on the number of steps.
  std::optional<Communicator> peers = std::nullopt;
  /// Where the batches of this rank's replicas go, one device each; none: they stay in host memory.
  std::vector<Device> devices = {};
};

}  // namespace lockstep
