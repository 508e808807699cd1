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
  DistributedIterator(input::Feed feed, int first_replica) : feed_(std::move(feed)), first_replica_(first_replica) {}

  /// The next step's batches, nothing at the end, which all ranks reach after the same number of steps. A replica
  /// without data in the last steps gets a batch whose first extent is 0, the others as usual. Collective or Local as
  /// the dataset says. Throws Error(invalid_argument) inside a replica's function, and what reading throws; the pass is
  /// then over.
  [[nodiscard]] std::optional<PerReplica<T>> get_next_as_optional() {
    if (!feed_.next(batches_)) return std::nullopt;
    return PerReplica<T>(static_cast<int>(batches_.size()), first_replica_, [this](int i) {
      return input::element_of<T>(std::move(batches_[static_cast<std::size_t>(i)]));
    });
  }

  /// As above; throws Error(out_of_range) at the end.
  [[nodiscard]] PerReplica<T> get_next() {
    std::optional<PerReplica<T>> next = get_next_as_optional();
    if (!next) throw Error(Code::out_of_range, "get_next: the dataset is at its end");
    return std::move(*next);
  }

  /// Where this iterator stands: what get_next gives next, whatever has been prepared ahead. Local. Kept with the
  /// variables in a checkpoint, it lets DistributedDataset::resume go on where this iterator was.
  [[nodiscard]] ReadingPosition position() const noexcept { return feed_.position(); }

  /// Seconds that this iterator has kept its caller waiting for data. Local.
  [[nodiscard]] double wait_seconds() const noexcept { return feed_.wait_seconds(); }

 private:
  input::Feed feed_;
  int first_replica_;
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
  [[nodiscard]] DistributedIterator<T> iterate() const { return {source_.open(), source_.first_replica()}; }
  [[nodiscard]] DistributedIterator<T> iterate(std::uint64_t pass) const {
    return {source_.open(pass), source_.first_replica()};
  }
  /// Goes on where an iterator of an equal dataset was when it said `position`; the next iterate() starts the pass
  /// after that one. Collective as iterate(): every rank gives the same position. Where the dataset is sharded
  /// automatically, the position may be from any layout of as many replicas. Elements before it are passed over: at no
  /// cost with random access, read again otherwise. A position at or behind the end gives an iterator at its end.
  [[nodiscard]] DistributedIterator<T> resume(ReadingPosition position) const {
    return {source_.resume(position), source_.first_replica()};
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
