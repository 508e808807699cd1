// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The text of DistributedDataset::describe().

#include "base/phrases.hpp"
#include "input/distributed_implementation.hpp"
#include "input/split.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

namespace lockstep::input {
namespace {

constexpr std::string_view depends =
    "  batches depend on the number of ranks: on another number, replicas get different batches\n";

std::string count_of(Cardinality elements) {
  if (elements.is_infinite()) return "infinitely many";
  return elements.is_known() ? std::to_string(elements.count()) : "an unknown number of";
}

std::string replicas_of(const ReplicaLayout& layout, int rank) {
  const int first = layout.first(rank);
  const int last = layout.first(rank + 1) - 1;
  return first == last ? fmt::format("replica {}", first) : fmt::format("replicas {} to {}", first, last);
}

/// The rows of a rank's replicas in a full batch.
std::string rows_of(const ReplicaLayout& layout, int rank, SplitPolicy split, std::int64_t full) {
  const auto chunk = [&](int replica) { return chunk_of(split, full, full, layout.replicas(), replica); };
  const RowRange first = chunk(layout.first(rank));
  const RowRange last = chunk(layout.first(rank + 1) - 1);
  const std::int64_t end = last.first + last.count;
  if (end == first.first) return "no rows";
  return end == first.first + 1 ? fmt::format("row {}", first.first)
                                : fmt::format("rows {} to {}", first.first, end - 1);
}

std::string chunks_of(const ReplicaLayout& layout, int rank) {
  const int first = layout.first(rank);
  const int last = layout.first(rank + 1) - 1;
  return first == last ? fmt::format("chunk {}", first) : fmt::format("chunks {} to {}", first, last);
}

/// Whether all full batches have the same number of rows by construction.
bool has_known_size(const Node& dataset) { return dataset.batch_size() != 0 && dataset.keeps_rows(); }

/// The rule for the sizes of the chunks of a batch.
std::string rule_of(const Node& dataset, SplitPolicy split) {
  if (dataset.batched() == Batched::no) return "";
  if (split == SplitPolicy::ceil_slices) return "  each batch is divided by its own number of rows\n";
  if (has_known_size(dataset))
    return fmt::format("  chunks have the sizes that they have in a full batch of {}\n",
                       detail::counted(dataset.batch_size(), "row"));
  return "  chunks have the sizes that they have in a full batch, as long as the batches have the number of rows that "
         "batch() gave to them; otherwise each batch is divided by its own number of rows\n";
}

std::string part_of(const Node& dataset, const ReplicaLayout& layout, int rank, AutoShardPolicy policy,
                    SplitPolicy split) {
  const int ranks = layout.ranks();
  const std::string_view reads = dataset.reads_single_rows() ? "reads" : "reads everything and keeps";
  switch (policy) {
    case AutoShardPolicy::automatic:
      if (layout.replicas() == 1 && dataset.batched() != Batched::yes) return "reads every element";
      if (!has_known_size(dataset)) return fmt::format("{} {} of each batch", reads, chunks_of(layout, rank));
      return fmt::format("{} {} of each full batch", reads, rows_of(layout, rank, split, dataset.batch_size()));
    case AutoShardPolicy::data: {
      std::vector<int> slices;
      for (int slice = rank; slice < layout.replicas(); slice += ranks) slices.push_back(slice);
      return fmt::format("{} slices {} of the {} slices of each batch", reads, fmt::join(slices, ", "),
                         layout.replicas());
    }
    case AutoShardPolicy::file: {
      const auto own = dataset.restricted({.files = Part{ranks, rank}, .hinted = std::nullopt});
      return fmt::format("reads {}", fmt::join(own->files(), ", "));
    }
    case AutoShardPolicy::hint:
      return fmt::format("reads shard {} of {} at the shard hint of the dataset", rank, ranks);
    case AutoShardPolicy::off:
    case AutoShardPolicy::file_or_data: break;
  }
  return "reads everything";
}

}  // namespace

std::string describe_dataset(const Node& dataset, const ReplicaLayout& layout, AutoShardPolicy policy,
                             SplitPolicy split) {
  std::string text;
  const auto out = std::back_inserter(text);
  if (dataset.batched() != Batched::yes) {
    fmt::format_to(out, "dataset: {} elements", count_of(dataset.cardinality()));
  } else if (!has_known_size(dataset)) {
    fmt::format_to(out, "dataset: {} global batches", count_of(dataset.cardinality()));
  } else {
    fmt::format_to(out, "dataset: {1} global batches of {0}", detail::counted(dataset.batch_size(), "row"),
                   count_of(dataset.cardinality()));
  }
  const SplitPolicy used = policy == AutoShardPolicy::data ? SplitPolicy::ceil_slices : split;
  fmt::format_to(out, "; auto_shard_policy {}, split {}\n", to_string(policy), to_string(used));
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    fmt::format_to(out, "  rank {}, {}: {}\n", rank, replicas_of(layout, rank),
                   part_of(dataset, layout, rank, policy, split));
  }
  text += rule_of(dataset, used);
  if (policy == AutoShardPolicy::automatic) {
    fmt::format_to(out, "  replica r gets chunk r of each batch, on any layout of {}\n",
                   detail::counted(layout.replicas(), "replica"));
  } else {
    text += depends;
  }
  return text;
}

std::string describe_function(const ReplicaLayout& layout, InputReplicationMode mode) {
  const bool per_replica = mode == InputReplicationMode::per_replica;
  std::string text = per_replica
                         ? "datasets from a function: one per replica\n"
                         : "datasets from a function: one per rank; the replicas of a rank take elements in turn\n";
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    fmt::format_to(std::back_inserter(text), "  rank {}, {}: reads ", rank, replicas_of(layout, rank));
    if (per_replica && layout.count(rank) > 1) {
      fmt::format_to(std::back_inserter(text), "pipelines {} to {} of {}\n", layout.first(rank),
                     layout.first(rank + 1) - 1, layout.replicas());
    } else {
      fmt::format_to(std::back_inserter(text), "pipeline {} of {}\n", per_replica ? layout.first(rank) : rank,
                     per_replica ? layout.replicas() : layout.ranks());
    }
  }
  if (!per_replica) text += depends;
  return text;
}

}  // namespace lockstep::input
