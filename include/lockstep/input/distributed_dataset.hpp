// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A dataset whose iteration gives one batch per local replica:
//   for (const auto& batch : strategy.experimental_distribute_dataset(data)) strategy.run(step, batch);

#pragma once

#include <lockstep/base/error.hpp>
#include <lockstep/collectives/detail/propagate.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/feed.hpp>
#include <lockstep/input/input_context.hpp>
#include <lockstep/input/input_options.hpp>
#include <lockstep/input/tensor_spec.hpp>
#include <lockstep/values/merge.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/tree.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {
namespace input {

/// `specs` as a tree like T.
template <ElementTree T>
[[nodiscard]] auto spec_tree(const std::vector<TensorSpec>& specs) {
  const T structure{};
  auto next = specs.begin();
  return map_leaves(structure, [&next](const Tensor&) { return *next++; });
}

}  // namespace input

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

  /// Where this iterator stands: what get_next gives next, whatever has been prepared ahead. Local. Kept with the
  /// variables in a checkpoint, it lets DistributedDataset::resume go on where this iterator was.
  [[nodiscard]] ReadingPosition position() const noexcept { return feed_.position(); }

  /// Seconds that this iterator has kept its caller waiting for data. Local.
  [[nodiscard]] double wait_seconds() const noexcept { return feed_.wait_seconds(); }

  /// Another iterator of the same dataset that goes on at `position`, as DistributedDataset::resume.
  [[nodiscard]] DistributedIterator at(ReadingPosition position) const { return {source_, source_.resume(position)}; }
  /// Goes on at `position`; unchanged when that throws. As DistributedDataset::resume.
  void seek(ReadingPosition position) { *this = at(position); }

 private:
  input::FeedSource source_;
  input::Feed feed_;
  std::vector<input::Leaves> batches_;  // kept for its memory
};

/// Only to be iterated, as often as wished. Each iteration is a pass of its own, numbered from 0 as they begin;
/// shuffled data has the order of (seed, pass number), so all ranks must begin their passes in the same order. Each
/// iterator has a prefetch thread, which also brings batches to GPUs, if the options say so. Batches are aligned to 64
/// bytes and may be kept; the memory of those that are let go serves later steps. Shared handle: copies number their
/// passes together. Thread-safety: any thread; beginning a pass is Collective for datasets from a function, and with
/// AutoShardPolicy file, off and hint.
template <ElementTree T>
class DistributedDataset {
 public:
  explicit DistributedDataset(input::FeedSource source) : source_(std::move(source)) {}

  /// Starts the next pass, or pass `pass`, which counts for nothing else.
  [[nodiscard]] DistributedIterator<T> iterate() const { return {source_, source_.open()}; }
  [[nodiscard]] DistributedIterator<T> iterate(std::uint64_t pass) const { return {source_, source_.open(pass)}; }
  /// Goes on where an iterator of an equal dataset was when it said `position`; the next iterate() starts the pass
  /// after that one. Collective as iterate(): every rank gives the same position. Where the dataset is sharded
  /// automatically, the position may be from any layout of as many replicas. Elements before it are passed over: at no
  /// cost with random access, read again otherwise. A position at or behind the end gives an iterator at its end.
  [[nodiscard]] DistributedIterator<T> resume(ReadingPosition position) const {
    return {source_, source_.resume(position)};
  }

  /// As iterate(), for range-based for. The reference that the iterator gives is good until it moves on.
  [[nodiscard]] InputPosition<DistributedIterator<T>, PerReplica<T>> begin() const {
    return InputPosition<DistributedIterator<T>, PerReplica<T>>(iterate());
  }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

  /// What get_next gives, as a tree of TensorSpec per local replica: of an aggregate a tuple. The number of rows is
  /// known only where every replica gets as many in each step: every batch of the global dataset is a full one
  /// (drop_remainder), and all ranks read the same. The other extents are those of the first element. Local; reads the
  /// first element of pass 0, as a pass that does not count. Throws Error(failed_precondition) when there is none, and
  /// what reading throws.
  [[nodiscard]] auto element_spec() const {
    const std::vector<std::vector<TensorSpec>> specs = source_.element_spec();
    using Spec = decltype(input::spec_tree<T>(specs.front()));
    return PerReplica<Spec>(source_.local_replicas(), source_.first_replica(),
                            [&specs](int i) { return input::spec_tree<T>(specs[static_cast<std::size_t>(i)]); });
  }

  /// Which rank reads which files or rows, and what its replicas get of them; and whether batches depend on the ranks.
  /// A few lines of text, before anything is read. Local.
  [[nodiscard]] std::string describe() const { return source_.describe(); }

  /// Seconds that all iterators of this dataset together have kept their callers waiting for data. Local.
  [[nodiscard]] double wait_seconds() const noexcept { return source_.wait_seconds(); }

 private:
  input::FeedSource source_;
};

namespace input {

/// Gives replica r chunk r of each batch of `global`, whatever rank it lives on, cut by `options.split`; or what
/// another `options.auto_shard_policy` says. Every rank gives the same dataset. Local, and with automatic and data so
/// is iterating: the ranks agree because they compute the same. With random access a rank reads only the rows of its
/// replicas; otherwise every rank reads everything and keeps its part. Throws what feed_dataset throws.
template <ElementTree T>
[[nodiscard]] DistributedDataset<T> distribute(const Dataset<T>& global, const InputLayout& layout,
                                               const InputOptions& options = {}) {
  return DistributedDataset<T>(feed_dataset(global.pipeline(), leaf_count<T>::value, layout, options));
}

/// What `fn` returns, a Dataset; T is its element type.
template <class Fn>
using dataset_of_function = std::remove_cvref_t<std::invoke_result_t<Fn&, const InputContext&>>;

/// Calls `fn(InputContext)` once, for this rank's own dataset of per-replica batches; in each step every local replica
/// takes the next element, in id order. Where the options say per_replica, `fn` is called for each local replica, as
/// pipeline r of R, and each takes the next element of its own dataset. Nothing is split or sharded. Collective over
/// `communicator` whenever a pass begins, and in every step if some rank cannot know the length of its dataset
/// beforehand; all ranks make as many steps as the longest dataset needs. An exception of `fn` is thrown
/// here, and aborts the epoch of the other ranks. `devices` as InputLayout's. Throws Error(invalid_argument) for
/// options that do not go together.
template <class Fn>
[[nodiscard]] auto distribute_from_function(Fn&& fn, const Communicator& communicator, const InputOptions& options = {},
                                            const std::vector<Device>& devices = {}) {
  using T = typename dataset_of_function<Fn>::value_type;
  const int replicas = communicator.layout().replicas();
  const bool per_replica = options.experimental_replication_mode == InputReplicationMode::per_replica;
  return detail::propagate(communicator, [&] {
    check_function_options(options);
    std::vector<Pipeline> local;
    for (int i = 0; i < (per_replica ? communicator.local_replicas() : 1); ++i) {
      const int first = communicator.layout().first(communicator.rank());
      const Dataset<T> dataset =
          std::invoke(fn, per_replica ? InputContext(replicas, first + i, replicas)
                                      : InputContext(communicator.size(), communicator.rank(), replicas));
      local.push_back(dataset.pipeline());
    }
    return DistributedDataset<T>(feed_pipelines(local, leaf_count<T>::value, communicator, options, devices));
  });
}

}  // namespace input

namespace detail {

/// Whether the dataset had rows for local replica `local`, as far as this argument of a step tells.
template <class Argument>
[[nodiscard]] bool has_rows([[maybe_unused]] const Argument& argument, [[maybe_unused]] int local) {
  bool result = true;
  if constexpr (has_distributed_leaf<Argument>) {
    for_each_leaf(argument, [&]<class Leaf>(const Leaf& leaf) {
      if constexpr (is_distributed<Leaf>::value) {
        if constexpr (ElementTree<typename Leaf::value_type> &&
                      std::same_as<Leaf, PerReplica<typename Leaf::value_type>>) {
          bool some = false;
          for_each_leaf(leaf.component(local), [&some](const Tensor& tensor) {
            some = some || tensor.shape().rank() == 0 || tensor.shape()[0] != 0;
          });
          result = result && some;
        }
      }
    });
  }
  return result;
}

}  // namespace detail
}  // namespace lockstep
