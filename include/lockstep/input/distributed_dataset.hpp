// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A dataset whose iteration returns one batch per local replica:
//   for (const auto& batch : strategy.experimental_distribute_dataset(data)) strategy.run(step, batch);
//   for (const auto& [x, y] : strategy.experimental_distribute_dataset(pairs)) strategy.run(step, x, y);

#pragma once

#include <lockstep/base/error.hpp>
#include <lockstep/base/function.hpp>
#include <lockstep/collectives/detail/propagate.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/distributed_pipeline.hpp>
#include <lockstep/input/input_context.hpp>
#include <lockstep/input/input_options.hpp>
#include <lockstep/values/merge.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/tree.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {
namespace input {

/// `batch` with a TensorSpec in place of each Tensor. `specs[i]` are those of local replica i, from left to right.
template <class Batch>
[[nodiscard]] auto specs_in_place_of(const Batch& batch, const std::vector<std::vector<TensorSpec>>& specs) {
  std::size_t first = 0;  // number of the leaf's first tensor
  return map_leaves(batch, [&]<class Leaf>(const Leaf& leaf) {
    std::size_t next = first;
    const auto spec_of = [&](int local) {
      next = first;
      return map_leaves(leaf.component(local),
                        [&, local](const Tensor&) { return specs[static_cast<std::size_t>(local)][next++]; });
    };
    PerReplica<decltype(spec_of(0))> result(leaf.size(), leaf.first_replica(), spec_of);
    first = next;
    return result;
  });
}

}  // namespace input

/// One pass over a DistributedDataset. Move-only. Thread-safety: one thread at a time; iterators of the same dataset
/// are independent.
template <ElementTree T>
class DistributedIterator {
 public:
  /// The batches of one step: T with a PerReplica in place of each leaf, as `run` returns a T. PerReplica<Tensor> for
  /// datasets of tensors; a tuple of them for datasets of tuples; PerReplica<T> if T is an aggregate.
  using Batch = merged_t<T>;

  DistributedIterator(input::DistributedPipeline pipeline, input::DistributedReader reader, input::ElementForm<T> form)
      : pipeline_(std::move(pipeline)), reader_(std::move(reader)), form_(std::move(form)) {}

  /// Returns the batches of the next step, or nullopt at the end. All ranks reach the end after the same number of
  /// steps. In the last steps, a replica that has no data left gets a batch whose first extent is 0. README.md ("The
  /// end") states when this call is Collective and when it is Local.
  /// Throws Error(invalid_argument) in replica context. Rethrows exceptions of reading, which end the pass.
  [[nodiscard]] std::optional<Batch> get_next_as_optional() {
    if (!reader_.next(batches_)) return std::nullopt;
    elements_.clear();
    for (input::Leaves& batch : batches_) elements_.push_back(form_.element_of(std::move(batch)));
    return detail::merge_trees<T>(static_cast<int>(elements_.size()), pipeline_.first_replica(),
                                  [this](int i) -> T& { return elements_[static_cast<std::size_t>(i)]; });
  }

  /// Like get_next_as_optional, but throws Error(out_of_range) at the end.
  [[nodiscard]] Batch get_next() {
    std::optional<Batch> next = get_next_as_optional();
    if (!next)
      throw Error(Code::out_of_range,
                  "get_next: the dataset is at its end; get_next_as_optional returns nullopt there");
    return std::move(*next);
  }

  /// The position of the batches that the next call of get_next returns; batches that are prepared ahead do not count
  /// as returned. Local. A checkpoint can store this position for DistributedDataset::resume.
  [[nodiscard]] ReadingPosition position() const noexcept { return reader_.position(); }

  /// Seconds that callers have waited for data of this iterator. Local.
  [[nodiscard]] double wait_seconds() const noexcept { return reader_.wait_seconds(); }

  /// Returns another iterator of the same dataset, which starts at `position`, like DistributedDataset::resume.
  [[nodiscard]] DistributedIterator at(ReadingPosition position) const {
    return {pipeline_, pipeline_.resume(position), form_};
  }
  /// Moves this iterator to `position`, like DistributedDataset::resume. If resume throws, the iterator is unchanged.
  void seek(ReadingPosition position) { *this = at(position); }

 private:
  input::DistributedPipeline pipeline_;
  input::DistributedReader reader_;
  [[no_unique_address]] input::ElementForm<T> form_;
  std::vector<input::Leaves> batches_;  // this and the next member are members, so that their memory is reused
  std::vector<T> elements_;
};

/// A dataset distributed to the replicas; can be iterated any number of times. Each iteration is a pass. Passes are
/// numbered from 0 in the order in which they begin. The pass number determines the order of shuffled data, so all
/// ranks must begin their passes in the same order. Each iterator has a prefetch thread, which also copies batches to
/// GPUs (see InputOptions). Batches are aligned to 64 bytes. The caller may keep batches; the memory of destroyed
/// batches is reused. Shared handle: copies share the pass number.
/// Thread-safety: any thread. Beginning a pass is Collective for datasets from a function, and with AutoShardPolicy
/// file, off and hint; otherwise it is Local.
template <ElementTree T>
class DistributedDataset {
 public:
  /// For use by the library.
  DistributedDataset(input::DistributedPipeline pipeline, input::ElementForm<T> form)
      : pipeline_(std::move(pipeline)), form_(std::move(form)) {}

  /// Without an argument, starts the next pass. With an argument, starts pass `pass`; the next pass number is
  /// unchanged.
  [[nodiscard]] DistributedIterator<T> iterate() const { return {pipeline_, pipeline_.open(), form_}; }
  [[nodiscard]] DistributedIterator<T> iterate(std::uint64_t pass) const {
    return {pipeline_, pipeline_.open(pass), form_};
  }
  /// Starts reading at `position`, which an iterator of an equal dataset returned. The next iterate() then starts pass
  /// `position.pass + 1`. Collective or Local as iterate(); every rank passes the same position. With
  /// AutoShardPolicy::automatic, the position may come from any layout with the same number of replicas. Elements
  /// before the position are skipped: with random access, they are not read; without random access, they are read
  /// again. If the position is at or after the end of the pass, the iterator is at the end.
  [[nodiscard]] DistributedIterator<T> resume(ReadingPosition position) const {
    return {pipeline_, pipeline_.resume(position), form_};
  }

  /// Like iterate(), for range-based for loops. References to batches are valid until the iterator is incremented.
  [[nodiscard]] InputPosition<DistributedIterator<T>, merged_t<T>> begin() const {
    return InputPosition<DistributedIterator<T>, merged_t<T>>(iterate());
  }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

  /// Dtypes and static shapes of the batches that get_next returns: a batch with a TensorSpec in place of each Tensor
  /// (if T is an aggregate, a tuple in place of the aggregate). The number of rows is known only if it is equal in
  /// every step, that is, if every global batch is full (drop_remainder) and all ranks read the same data. The other
  /// extents are those of the first element. Local. Reads the first element of pass 0; this read does not count as a
  /// pass. Throws Error(failed_precondition) if the dataset is empty. Rethrows exceptions of reading.
  [[nodiscard]] auto element_spec() const {
    const std::vector<std::vector<TensorSpec>> specs = pipeline_.element_spec();
    std::vector<T> structure(specs.size(), form_.empty_element());
    const auto batch =
        detail::merge_trees<T>(pipeline_.local_replicas(), pipeline_.first_replica(),
                               [&structure](int i) -> T& { return structure[static_cast<std::size_t>(i)]; });
    return input::specs_in_place_of(batch, specs);
  }

  /// A few lines of text that state which files or rows each rank reads, what its replicas get, and whether the batches
  /// depend on the number of ranks. Reads no data. Local.
  [[nodiscard]] std::string describe() const { return pipeline_.describe(); }

  /// Seconds that callers have waited for data, summed over all iterators of this dataset. Local.
  [[nodiscard]] double wait_seconds() const noexcept { return pipeline_.wait_seconds(); }

 private:
  input::DistributedPipeline pipeline_;
  [[no_unique_address]] input::ElementForm<T> form_;
};

namespace input {

/// Distributes the batches of `global`, which must be the same dataset on all ranks, as `options.auto_shard_policy`
/// specifies. By default, each batch is divided into chunks by `options.split`, and replica r gets chunk r, independent
/// of the rank that owns the replica. Local. With the policies automatic and data, iterating is Local too, because all
/// ranks compute the same division. With these policies and random access, a rank reads only the rows of its replicas;
/// without random access, every rank reads everything and keeps the rows of its replicas.
/// Throws like distribute_pipeline.
template <ElementTree T>
[[nodiscard]] DistributedDataset<T> distribute(const Dataset<T>& global, const InputLayout& layout,
                                               const InputOptions& options = {}) {
  return DistributedDataset<T>(distribute_pipeline(global.pipeline(), global.form().structure(), layout, options),
                               global.form());
}

/// The Dataset type that `fn` returns.
template <class Fn>
using dataset_of_function = std::remove_cvref_t<std::invoke_result_t<Fn&, const InputContext&>>;

/// Calls `fn(InputContext)` once on each rank. The returned dataset belongs to the rank, and its elements are batches
/// of single replicas: in each step, the local replicas take the next elements, in the order of replica ids. With
/// InputReplicationMode::per_replica, `fn` is called once for each local replica: replica r gets pipeline r of R, and
/// in each step takes the next element of this pipeline. Elements are neither split nor sharded.
/// Beginning a pass is Collective over `communicator`. If a rank does not know the length of its dataset, every step is
/// Collective too. All ranks make as many steps as the longest dataset needs. For `devices`, see InputLayout.
/// Throws Error(invalid_argument) for incompatible options. If `fn` throws, the exception is rethrown, and is
/// propagated to the other ranks (see Communicator::abort).
template <class Fn>
[[nodiscard]] auto distribute_from_function(Fn&& fn, const Communicator& communicator, const InputOptions& options = {},
                                            const std::vector<Device>& devices = {}) {
  using T = typename dataset_of_function<Fn>::value_type;
  const int replicas = communicator.layout().replicas();
  const bool per_replica = options.experimental_replication_mode == InputReplicationMode::per_replica;
  return detail::propagate(communicator, [&] {
    check_function_options(options);
    const ElementForm<T> form;
    std::vector<Pipeline> local;
    for (int i = 0; i < (per_replica ? communicator.local_replicas() : 1); ++i) {
      const int first = communicator.layout().first(communicator.rank());
      const Dataset<T> dataset =
          detail::invoke(fn, per_replica ? InputContext(replicas, first + i, replicas)
                                         : InputContext(communicator.size(), communicator.rank(), replicas));
      local.push_back(dataset.pipeline_of(form, "distribute_datasets_from_function"));
    }
    return DistributedDataset<T>(distribute_local_pipelines(local, form.structure(), communicator, options, devices),
                                 form);
  });
}

}  // namespace input

namespace detail {

/// Whether `argument`, an argument of a step, has rows for local replica `local`: whether any of its PerReplica tensors
/// has, or whether there are no such tensors.
template <class Argument>
[[nodiscard]] bool has_rows([[maybe_unused]] const Argument& argument, [[maybe_unused]] int local) {
  [[maybe_unused]] bool has_tensors = false;
  bool some = false;
  if constexpr (has_distributed_leaf<Argument>) {
    for_each_leaf(argument, [&]<class Leaf>(const Leaf& leaf) {
      if constexpr (is_distributed<Leaf>::value) {
        if constexpr (ElementTree<typename Leaf::value_type> &&
                      std::same_as<Leaf, PerReplica<typename Leaf::value_type>>) {
          for_each_leaf(leaf.component(local), [&](const Tensor& tensor) {
            has_tensors = true;
            some = some || tensor.shape().rank() == 0 || tensor.shape()[0] != 0;
          });
        }
      }
    });
  }
  return some || !has_tensors;
}

}  // namespace detail
}  // namespace lockstep
