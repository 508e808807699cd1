// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The options for distributing a dataset.

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

/// How a batch is divided into one chunk per replica. R is the number of replicas, and G is the number of rows of a
/// full batch. AutoShardPolicy determines which chunk a replica takes; by default, replica r takes chunk r.
///
/// After `batch(n)`, G is n, also for a short batch, as long as the batches have the number of rows that `batch` gave
/// to them. A function that is applied to batches, such as that of map, may change the number of rows. From the first
/// batch on of which it does, in a pass over the batches, G is for each batch its own number of rows. The same holds
/// for batches that were not made by `batch`, such as those of a generator. If datasets with several batch sizes are
/// concatenated or interleaved, each batch has the G of its own dataset. The division depends only on the data, not on
/// ranks, nor on the position at which reading is resumed.
enum class SplitPolicy : std::uint8_t {
  /// The chunk sizes of a full batch are used for every batch: G / R rows, rounded down, plus one row in the first G
  /// mod R chunks. A short last batch fills the chunks from the front. Example: if G is 6 and R is 4, a full batch is
  /// divided into 2, 2, 1, 1 rows, and a last batch of 3 rows into 2, 1, 0, 0 rows.
  fixed_chunks,
  /// Each batch of n rows is divided into slices of ceil(n / R) rows; the last slices may be shorter or empty.
  ceil_slices,
};

/// Which part of a dataset each rank reads: tf.data's AutoShardPolicy. With every policy except `automatic`, the
/// batches of a replica depend on the number of ranks, and all ranks must have the same number of replicas. W is the
/// number of ranks, and k is the number of replicas of each rank: R = W * k. A source is a dataset that is not made
/// from another dataset, such as tfrecord_dataset(files).
enum class AutoShardPolicy : std::uint8_t {
  /// Replica r takes chunk r of each global batch, independent of the rank that owns the replica. If the source has
  /// random access, a rank reads only the rows of its replicas; otherwise every rank reads the whole source.
  automatic,
  /// Rank i reads files i, i + W, ... of every source; every source must have at least W files. The batches that a rank
  /// reads form one stream, and the replicas of the rank take chunks of this stream in turn. With fixed_chunks, a chunk
  /// may continue in the next batch; the chunks of rank i have the sizes of chunks i * k, i * k + 1, ... of a full
  /// batch, used cyclically. With ceil_slices, each batch is divided into R slices. When the files of a rank end, its
  /// replicas get empty batches until all ranks are at the end.
  file,
  /// Every rank iterates over the whole dataset, and divides each batch into R slices of ceil(n / R) rows, even if
  /// InputOptions::split is fixed_chunks. Rank i keeps slices i, i + W, ... If there are several ranks, rank 0 logs a
  /// warning about the redundant work.
  data,
  /// Every rank reads the whole dataset as a stream, and divides the stream as with `file`. Each element is therefore
  /// used once per rank.
  off,
  /// On rank i, `shard(shard_hint, shard_hint)` in the dataset gives shard i of W; the rest is as with `off`.
  hint,
  /// AUTO of tf.data: `file` if all sources are files, otherwise `data`.
  file_or_data,
};

/// The name of the policy: "FIXED_CHUNKS", "CEIL_SLICES"; "AUTO", "FILE", "DATA", "OFF", "HINT", "FILE_OR_DATA". Local.
[[nodiscard]] LOCKSTEP_API std::string_view to_string(SplitPolicy policy) noexcept;
[[nodiscard]] LOCKSTEP_API std::string_view to_string(AutoShardPolicy policy) noexcept;

/// How often a dataset function is called: tf.distribute's InputReplicationMode.
enum class InputReplicationMode : std::uint8_t {
  per_worker,   ///< once per rank; the rank's replicas take elements in turn
  per_replica,  ///< once per replica
};

/// Options of a distributed dataset; must be equal on all ranks. The fields that begin with experimental_ have the
/// names and rules of tf.distribute. If all devices are CPUs, no elements are copied:
/// experimental_fetch_to_device decides only whether batches name the replica's CPU, such as cpu:1, or cpu:0.
struct InputOptions {
  /// See SplitPolicy. Ignored for datasets from a function.
  SplitPolicy split = SplitPolicy::fixed_chunks;
  /// See AutoShardPolicy. Ignored for datasets from a function.
  AutoShardPolicy auto_shard_policy = AutoShardPolicy::automatic;
  /// Number of steps that a background thread prepares ahead; a step has one batch per local replica. 0: there is no
  /// thread, and each step is prepared on the caller's thread when it is requested.
  int prefetch_batches = 2;
  /// Whether batches are copied to the replica's device before they are requested, concurrently with the replica's
  /// computation. If false, all batches stay in host memory. Cannot be combined with
  /// experimental_place_dataset_on_device.
  bool experimental_fetch_to_device = true;
  /// How often a dataset function is called. per_replica is allowed only for datasets from a function with
  /// MirroredStrategy: in each step, a replica takes one element of the dataset that the function returned for this
  /// replica.
  InputReplicationMode experimental_replication_mode = InputReplicationMode::per_worker;
  /// In tf.distribute: whether a dataset function runs on the replica's device. lockstep runs dataset functions on the
  /// host in any case, and leaves the batches where the dataset creates them. Allowed only with per_replica and without
  /// experimental_fetch_to_device.
  bool experimental_place_dataset_on_device = false;
  /// Number of batches to prepare ahead for each replica, at least 0. The larger of this value and prefetch_batches is
  /// used. No effect if prefetch_batches is 0.
  int experimental_per_replica_buffer_size = 1;
};

/// The replicas for which this rank reads batches.
struct InputLayout {
  ReplicaLayout replicas;  ///< the replicas of all ranks
  int rank = 0;            ///< this rank
  /// Communicator of all ranks. If reading fails on this rank, the error is propagated to the other ranks through this
  /// communicator, so that they do not wait for this rank. With AutoShardPolicy file, off and hint, the ranks also use
  /// this communicator to agree on the number of steps, so several ranks then require a communicator.
  std::optional<Communicator> peers = std::nullopt;
  /// The devices of this rank's batches, one for each local replica. Empty: batches stay in host memory.
  std::vector<Device> devices = {};
};

}  // namespace lockstep
