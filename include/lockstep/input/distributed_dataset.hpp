// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A dataset whose iteration gives one batch per local replica:
//   for (const auto& batch : strategy.experimental_distribute_dataset(data)) strategy.run(step, batch);

#pragma once

#include <lockstep/base/error.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/feed.hpp>
#include <lockstep/input/input_context.hpp>
#include <lockstep/input/input_options.hpp>
#include <lockstep/values/per_replica.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {

/// One pass over a DistributedDataset. Move-only. Thread-safety: one thread at a time; iterators of one dataset are
/// independent.
template <ElementTree T>
class DistributedIterator {
 public:
  DistributedIterator(input::FeedSource source, input::Feed feed)
      : source_(std::move(source)), feed_(std::move(feed)) {}

  /// The next step's batches, nothing at the end, which all ranks reach after the same number of steps. A replica
  /// without data in the last steps gets a batch whose first extent is 0, the others as usual. Collective or Local as
  /// the dataset says. Throws Error(invalid_argument) inside a replica's function, and what reading throws; the pass is
  /// then over.
  [[nodiscard]] std::optional<PerReplica<T>> get_next_as_optional() {
    if (!feed_.next(batches_)) return std::nullopt;
    return PerReplica<T>(static_cast<int>(batches_.size()), source_.first_replica(), [this](int i) {
      return input::element_of<T>(std::move(batches_[static_cast<std::size_t>(i)]));
    });
  }

  /// As above; throws Error(out_of_range) at the end.
  [[nodiscard]] PerReplica<T> get_next() {
    std::optional<PerReplica<T>> next = get_next_as_optional();
    if (!next) throw Error(Code::out_of_range, "get_next: the dataset is at its end");
    return std::move(*next);
  }

  /// Seconds that this iterator has kept its caller waiting for data. Local.
  [[nodiscard]] double wait_seconds() const noexcept { return feed_.wait_seconds(); }

  /// Where it goes on: its pass, and the steps that it has given. For checkpoints. Local.
  [[nodiscard]] PassPosition position() const noexcept { return feed_.position(); }
  /// Another iterator of the same dataset that goes on at `position`, as DistributedDataset::iterate.
  [[nodiscard]] DistributedIterator at(const PassPosition& position) const { return {source_, source_.open(position)}; }
  /// Goes on at `position`; unchanged when that throws. As DistributedDataset::iterate.
  void seek(const PassPosition& position) { *this = at(position); }

 private:
  input::FeedSource source_;
  input::Feed feed_;
  std::vector<input::Leaves> batches_;  // kept for its memory
};

/// Only to be iterated, as often as wished. Each iteration is a pass of its own, numbered from 0 as they begin;
/// shuffled data has the order of (seed, pass number), so all ranks must begin their passes in the same order. Each
/// iterator has a prefetch thread. Batches are aligned to 64 bytes and may be kept; the memory of those that are let go
/// serves later steps. Shared handle: copies number their passes together. Thread-safety: any thread; beginning a pass
/// is Collective for datasets from a function.
template <ElementTree T>
class DistributedDataset {
 public:
  explicit DistributedDataset(input::FeedSource source) : source_(std::move(source)) {}

  /// Starts the next pass, or pass `pass`, which counts for nothing else.
  [[nodiscard]] DistributedIterator<T> iterate() const { return {source_, source_.open()}; }
  [[nodiscard]] DistributedIterator<T> iterate(std::uint64_t pass) const { return {source_, source_.open(pass)}; }
  /// Goes on at `position`, which an iterator had: gives what that one would have given next, on any layout of the same
  /// replicas. Passes that begin later are numbered from there on. What lies before is not read where the data has
  /// random access; otherwise it is read and thrown away. A dataset from a function is its rank's own, and the position
  /// counts its rank's steps: for the same ranks only. Throws Error(invalid_argument) for a negative step.
  [[nodiscard]] DistributedIterator<T> iterate(const PassPosition& position) const {
    return {source_, source_.open(position)};
  }

  /// As iterate(), for range-based for. The reference that the iterator gives is good until it moves on.
  [[nodiscard]] InputPosition<DistributedIterator<T>, PerReplica<T>> begin() const {
    return InputPosition<DistributedIterator<T>, PerReplica<T>>(iterate());
  }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

  /// Seconds that all iterators of this dataset together have kept their callers waiting for data. Local.
  [[nodiscard]] double wait_seconds() const noexcept { return source_.wait_seconds(); }

 private:
  input::FeedSource source_;
};

namespace input {

/// Gives replica r chunk r of each batch of `global`, whatever rank it lives on, cut by `options.split`. Every rank
/// gives the same dataset. Local, and so is iterating: the ranks agree because they compute the same. With random
/// access a rank reads only the rows of its replicas; otherwise every rank reads everything and keeps its part. Throws
/// Error(invalid_argument) when `global` is not batched.
template <ElementTree T>
[[nodiscard]] DistributedDataset<T> distribute(const Dataset<T>& global, const InputLayout& layout,
                                               const InputOptions& options = {}) {
  return DistributedDataset<T>(feed_chunks(global.pipeline(), layout, options));
}

/// What `fn` returns, a Dataset; T is its element type.
template <class Fn>
using dataset_of_function = std::remove_cvref_t<std::invoke_result_t<Fn&, const InputContext&>>;

/// Calls `fn(InputContext)` once, for this rank's own dataset of per-replica batches; in each step every local replica
/// takes the next element, in id order. Nothing is split or sharded. Collective over `communicator` whenever a pass
/// begins, and in every step if some rank cannot know the length of its dataset beforehand; all ranks make as many
/// steps as the longest dataset needs. An exception of `fn` is passed on, and the other ranks are told.
template <class Fn>
[[nodiscard]] auto distribute_from_function(Fn&& fn, const Communicator& communicator,
                                            const InputOptions& options = {}) {
  using T = typename dataset_of_function<Fn>::value_type;
  const InputContext context(communicator.size(), communicator.rank(), communicator.layout().replicas());
  try {
    const Dataset<T> local = std::invoke(fn, context);
    return DistributedDataset<T>(feed_pipelines(local.pipeline(), leaf_count<T>::value, communicator, options));
  } catch (...) {
    tell_peers(communicator, std::current_exception());
    throw;
  }
}

}  // namespace input
}  // namespace lockstep
