// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The options of distributing a dataset.

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

/// How a global batch is divided into one chunk per replica. Replica r always takes chunk r. R is the number of
/// replicas, G the number of rows of a full batch.
enum class SplitPolicy : std::uint8_t {
  /// Chunk sizes are those of a full batch: G / R rows, with one row more in the first G mod R chunks. A short last
  /// batch fills these chunks from the front: 3 rows of a batch of 6 over 4 replicas are divided into 2, 1, 0, 0.
  fixed_chunks,
  /// Each batch of n rows is divided into slices of ceil(n / R) rows; the last slices may be shorter or empty.
  ceil_slices,
};

/// Which part of a dataset each rank reads: tf.data's AutoShardPolicy. With every policy but `automatic`, the batches
/// of a replica depend on the number of ranks, and every rank must have the same number of replicas: W ranks have k
/// replicas each, and R = W * k.
enum class AutoShardPolicy : std::uint8_t {
  /// Replica r takes chunk r of each global batch, on whatever rank it is. From a source with random access a rank
  /// reads only the rows of its replicas; any other source is read completely by every rank.
  automatic,
  /// Rank i reads files i, i + W, ... of every source, at least one. The batches that it reads are its own stream, and
  /// its replicas take chunks of the stream in turn. With fixed_chunks, chunks ignore the ends of the batches; the
  /// sizes of rank i's chunks are those of chunks i * k, i * k + 1, ... of a full batch, cyclically. With ceil_slices,
  /// each batch is divided into R slices. When a rank's files end, its replicas get empty batches until all ranks are
  /// at the end.
  file,
  /// Every rank reads everything, divides each batch into R slices of ceil(n / R) rows (even if the options say
  /// fixed_chunks), and keeps slices i, i + W, ... If there are several ranks, rank 0 logs a warning that they do
  /// redundant work.
  data,
  /// Every rank reads everything as its own stream, as with `file`, so each element is used once per rank.
  off,
  /// The shard hint in the dataset is replaced by shard i of W; otherwise as `off`.
  hint,
  /// AUTO of tf.data: `file` if all sources are files, otherwise `data`.
  file_or_data,
};

/// "FIXED_CHUNKS", "CEIL_SLICES"; "AUTO", "FILE", "DATA", "OFF", "HINT", "FILE_OR_DATA". Local.
[[nodiscard]] LOCKSTEP_API std::string_view to_string(SplitPolicy policy) noexcept;
[[nodiscard]] LOCKSTEP_API std::string_view to_string(AutoShardPolicy policy) noexcept;

/// How often a dataset function is called: tf.distribute's InputReplicationMode.
enum class InputReplicationMode : std::uint8_t {
  per_worker,   ///< once per rank; its replicas take elements in turn
  per_replica,  ///< once per replica
};

/// Options of a distributed dataset; must be equal on all ranks. The fields that begin with experimental_ are
/// tf.distribute's, with its rules. If all devices are CPUs, the two fields about devices have no effect on the
/// batches.
struct InputOptions {
  /// See SplitPolicy. Ignored by datasets from a function.
  SplitPolicy split = SplitPolicy::fixed_chunks;
  /// See AutoShardPolicy. Ignored by datasets from a function.
  AutoShardPolicy auto_shard_policy = AutoShardPolicy::automatic;
  /// Number of steps that a background thread prepares ahead; each has one batch per local replica. 0: no thread, each
  /// batch is prepared on the caller's thread when it is requested.
  int prefetch_batches = 2;
  /// Whether batches are copied to the replica's device before they are requested, concurrently with the replica's
  /// computation. If false, all batches are in host memory. Cannot be combined with
  /// experimental_place_dataset_on_device.
  bool experimental_fetch_to_device = true;
  /// How often a dataset function is called. per_replica is for datasets from a function of MirroredStrategy only:
  /// replica i then takes one element of pipeline i of R per step.
  InputReplicationMode experimental_replication_mode = InputReplicationMode::per_worker;
  /// Whether a dataset function runs on the replica's device; only with per_replica and without
  /// experimental_fetch_to_device. lockstep runs functions on the host in any case, so batches are where the dataset
  /// creates them.
  bool experimental_place_dataset_on_device = false;
  /// Number of batches to prepare ahead for each replica, at least 0. The larger of this and prefetch_batches is used,
  /// unless prefetch_batches is 0.
  int experimental_per_replica_buffer_size = 1;
};

/// The replicas for which this rank reads batches.
struct InputLayout {
  ReplicaLayout replicas;  ///< the replicas of all ranks
  int rank = 0;            ///< this rank
  /// Communicator of all ranks. If reading fails on this rank, it aborts the others, so that they do not wait for this
  /// one. If ranks read streams of their own (AutoShardPolicy file, off and hint), it also serves to agree on the
  /// number of steps.
  std::optional<Communicator> peers = std::nullopt;
  /// The devices of this rank's batches, one for each local replica. Empty: batches stay in host memory.
  std::vector<Device> devices = {};
};

}  // namespace lockstep
