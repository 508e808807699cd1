// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Distributes one global dataset by its AutoShardPolicy.

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/phrases.hpp"
#include "input/distributed_implementation.hpp"
#include "input/split.hpp"

#include <utility>

namespace lockstep::input {
namespace {

void check_layout(const InputLayout& layout, AutoShardPolicy policy) {
  const ReplicaLayout& replicas = layout.replicas;
  if (layout.rank < 0 || layout.rank >= replicas.ranks()) {
    detail::throw_error(Code::invalid_argument, "distribute: rank {} is not in the layout {}", layout.rank,
                        to_string(replicas));
  }
  if (policy == AutoShardPolicy::automatic) return;
  for (const int count : replicas.counts()) {
    if (count == replicas.count(0)) continue;
    detail::throw_error(
        Code::invalid_argument,
        "experimental_distribute_dataset: auto_shard_policy {} requires the same number of replicas on every "
        "rank, but the numbers by rank are {}; AUTO supports any layout",
        to_string(policy), to_string(replicas));
  }
  if (policy != AutoShardPolicy::data && replicas.ranks() > 1 && !layout.peers) {
    detail::throw_error(Code::invalid_argument,
                        "distribute: with auto_shard_policy {} the {} ranks must agree on the number of steps; set "
                        "InputLayout::peers to their communicator",
                        to_string(policy), replicas.ranks());
  }
}

void check_files(const Node& dataset, int ranks) {
  const std::vector<std::string> files = dataset.files();
  if (files.empty()) {
    detail::throw_error(
        Code::invalid_argument,
        "experimental_distribute_dataset: auto_shard_policy FILE requires that all sources of the dataset are "
        "files, but one is an array, a range or a generator; use AUTO or DATA");
  }
  if (files.size() < static_cast<std::size_t>(ranks)) {
    detail::throw_error(
        Code::invalid_argument,
        "experimental_distribute_dataset: auto_shard_policy FILE requires at least one file for each rank ({}), but "
        "the dataset reads {} (the first is {}); use AUTO, OFF or DATA, or split the data into more files",
        detail::counted(ranks, "rank"), files.size(), files.front());
  }
}

void check_hint(const Node& dataset) {
  if (dataset.has_shard_hint()) return;
  detail::throw_error(
      Code::invalid_argument,
      "experimental_distribute_dataset: auto_shard_policy HINT requires shard(shard_hint, shard_hint) in the "
      "dataset; without it every rank would read everything, as with OFF");
}

/// The stream that this rank reads, divided into batches for its replicas.
std::shared_ptr<const Node> own_stream(const std::shared_ptr<const Node>& dataset, const InputLayout& layout,
                                       AutoShardPolicy policy, SplitPolicy split) {
  const Part part{layout.replicas.ranks(), layout.rank};
  std::shared_ptr<const Node> own = dataset;
  if (policy == AutoShardPolicy::file) own = dataset->restricted({.files = part, .hinted = std::nullopt});
  if (policy == AutoShardPolicy::hint) own = dataset->restricted({.files = std::nullopt, .hinted = part});
  const int replicas = layout.replicas.replicas();
  if (replicas == 1 && own->batched() != Batched::yes) return own;  // the only replica takes the elements as they are
  if (split == SplitPolicy::ceil_slices) return batch_slices_node(std::move(own), replicas);
  return stream_chunks_node(std::move(own), replicas, layout.replicas.first(layout.rank));
}

AutoShardPolicy resolved(AutoShardPolicy policy, const Node& dataset) {
  if (policy != AutoShardPolicy::file_or_data) return policy;
  return dataset.files().empty() ? AutoShardPolicy::data : AutoShardPolicy::file;
}

/// If there are several ranks, rank 0 logs a warning.
void warn_of_redundant_reads(const InputLayout& layout) {
  if (layout.rank != 0 || layout.replicas.ranks() == 1) return;
  detail::log_warning(
      "experimental_distribute_dataset: with auto_shard_policy DATA each of the {} ranks reads and transforms all data "
      "and uses a part of "
      "it; use AUTO, which reads only the rows of its own replicas from sources with random access, or "
      "distribute_datasets_from_function",
      layout.replicas.ranks());
}

DistributedPipeline distribute_checked(const std::shared_ptr<const Node>& dataset, const ElementStructure& structure,
                                       const InputLayout& layout, const InputOptions& options) {
  const AutoShardPolicy policy = resolved(options.auto_shard_policy, *dataset);
  const ReplicaLayout& replicas = layout.replicas;
  check_layout(layout, policy);
  if (dataset->batched() == Batched::no && replicas.replicas() != 1) throw_not_batched(replicas.replicas());
  Describe describe = [dataset, layout = layout.replicas, policy, split = options.split] {
    return describe_dataset(*dataset, layout, policy, split);
  };
  switch (policy) {
    case AutoShardPolicy::automatic:
      return distribute_chunks(dataset, {options.split, replicas.first(layout.rank), 1}, layout, options,
                               std::move(describe));
    case AutoShardPolicy::data:
      warn_of_redundant_reads(layout);
      return distribute_chunks(dataset, {SplitPolicy::ceil_slices, layout.rank, replicas.ranks()}, layout, options,
                               std::move(describe));
    case AutoShardPolicy::file: check_files(*dataset, replicas.ranks()); break;
    case AutoShardPolicy::hint: check_hint(*dataset); break;
    case AutoShardPolicy::off:
    case AutoShardPolicy::file_or_data: break;
  }
  return distribute_streams({own_stream(dataset, layout, policy, options.split)}, structure, layout, options,
                            dataset->batch_size(), std::move(describe));
}

}  // namespace

DistributedPipeline distribute_pipeline(const Pipeline& global, const ElementStructure& structure,
                                        const InputLayout& layout, const InputOptions& options) {
  return detail::propagate(layout, [&] {
    check_options("experimental_distribute_dataset", options);
    if (options.experimental_replication_mode == InputReplicationMode::per_replica) {
      detail::throw_error(Code::unimplemented,
                          "experimental_distribute_dataset: experimental_replication_mode PER_REPLICA is supported "
                          "only by distribute_datasets_from_function of MirroredStrategy; use PER_WORKER");
    }
    return distribute_checked(node_to_read(global.node(), options), structure, layout, options);
  });
}

}  // namespace lockstep::input
