// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A dataset: a description of a sequence of elements, which is read by iterating.
//
//   auto data = lockstep::Dataset<std::tuple<Tensor, Tensor>>::from_tensor_slices({images, labels})
//                   .shuffle(seed).batch(256);
//   for (const auto& [image, label] : data) ...

#pragma once

#include <lockstep/input/element.hpp>
#include <lockstep/input/pipeline.hpp>

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lockstep {

/// Reads one pass of a Dataset. Move-only. Thread-safety: one thread at a time; iterators of the same dataset are
/// independent.
template <ElementTree T>
class DatasetIterator {
 public:
  explicit DatasetIterator(input::Reader reader) : reader_(std::move(reader)) {}

  /// The next element; nothing at the end. Throws exceptions of the dataset's functions; the pass is then over.
  [[nodiscard]] std::optional<T> get_next_as_optional() {
    input::Leaves leaves;
    if (!reader_.next(leaves)) return std::nullopt;
    return input::element_of<T>(std::move(leaves));
  }

 private:
  input::Reader reader_;
};

/// An input iterator over an object with a member function get_next_as_optional().
template <class Source, class Value>
class InputPosition {
 public:
  using value_type = Value;
  using difference_type = std::ptrdiff_t;

  explicit InputPosition(Source source) : source_(std::make_shared<Source>(std::move(source))) { ++*this; }

  [[nodiscard]] const Value& operator*() const noexcept { return *current_; }
  [[nodiscard]] const Value* operator->() const noexcept { return &*current_; }
  InputPosition& operator++() {
    current_.reset();  // freed first, so that the next element can reuse its memory
    current_ = source_->get_next_as_optional();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const InputPosition& position, std::default_sentinel_t) noexcept { return !position.current_; }

 private:
  std::shared_ptr<Source> source_;
  std::optional<Value> current_;
};

/// A dataset of elements T. Immutable: every transformation returns a new dataset. Copies are cheap and share data.
///
/// Each iteration is a pass over all elements. The passes of a Dataset object and its copies are numbered from 0 in the
/// order in which they begin. The order of shuffled data is determined by the seed and the pass number, and is the same
/// on all ranks and platforms.
///
/// Datasets of tensor slices, ranges and rows of mapped files have random access, and keep it through shuffle, repeat,
/// take, skip, shard, cache, enumerate and map up to batch. A reader that needs only some rows of a batch, such as a
/// distributed dataset, then reads no others. Tensors that are passed to a dataset, or returned by its functions, are
/// shared, not copied: do not write to them afterwards. Functions run on the thread that reads: the caller's, or one of
/// prefetch or of a parallel map. If several iterators are used at once, the functions run concurrently.
/// Thread-safety: immutable except for the pass number, which is atomic.
template <ElementTree T>
class Dataset {
 public:
  using value_type = T;
  static constexpr std::int64_t forever = input::Pipeline::forever;

  /// For the library, and for user-defined transformations.
  explicit Dataset(input::Pipeline pipeline) : pipeline_(std::move(pipeline)) {}

  /// Element i consists of row i of each tensor. Throws Error(invalid_argument) if a tensor is a scalar, or if first
  /// extents differ.
  [[nodiscard]] static Dataset from_tensor_slices(const T& tensors) {
    return Dataset(input::Pipeline::from_tensor_slices(input::leaves_of(tensors)));
  }

  /// A dataset with one element, `tensors`. Throws Error(invalid_argument) if a tensor has Shape::max_rank axes.
  [[nodiscard]] static Dataset from_tensors(const T& tensors) {
    return Dataset(input::Pipeline::from_tensors(input::leaves_of(tensors)));
  }

  /// Calls `make()` for each pass. It returns a function that returns the next element as std::optional<T>, empty at
  /// the end.
  template <class Make>
    requires requires(Make& make) {
      { make()() } -> std::convertible_to<std::optional<T>>;
    }
  [[nodiscard]] static Dataset from_generator(Make make) {
    return Dataset(input::Pipeline::from_generator([make = std::move(make)]() mutable -> input::Pipeline::Generator {
      return [generate = make()](input::Leaves& element) mutable {
        const std::optional<T> value = generate();
        if (value) element = input::leaves_of(*value);
        return value.has_value();
      };
    }));
  }

  /// The i64 scalars 0, 1, ..., count - 1; or start, start + step, ..., up to but not including `stop`. Throws
  /// Error(invalid_argument) if `count` is negative or `step` is 0.
  [[nodiscard]] static Dataset range(std::int64_t count)
    requires std::same_as<T, Tensor>
  {
    return Dataset(input::Pipeline::range(count));
  }
  [[nodiscard]] static Dataset range(std::int64_t start, std::int64_t stop, std::int64_t step = 1)
    requires std::same_as<T, Tensor>
  {
    return Dataset(input::Pipeline::range(start, stop, step));
  }

  /// The same elements in an order that is determined by the seed and the pass number. With random access the order is
  /// a uniformly random permutation of the whole dataset, and takes 8 bytes per element; otherwise elements are drawn
  /// from a buffer.
  [[nodiscard]] Dataset shuffle(std::uint64_t seed, const ShuffleOptions& options = {}) const {
    return Dataset(pipeline_.shuffle(seed, options));
  }

  /// Repeats the dataset `times` times. Each repetition is a new pass, so data that is shuffled before has another
  /// order in each. An empty dataset ends even if it is repeated forever.
  [[nodiscard]] Dataset repeat(std::int64_t times = forever) const { return Dataset(pipeline_.repeat(times)); }

  /// take: the first `count` elements; skip: all elements after these. Throws Error(invalid_argument) if `count` is
  /// negative.
  [[nodiscard]] Dataset take(std::int64_t count) const { return Dataset(pipeline_.take(count)); }
  [[nodiscard]] Dataset skip(std::int64_t count) const { return Dataset(pipeline_.skip(count)); }

  /// Stacks `rows` consecutive elements along a new first axis; the last batch may have fewer rows. Throws
  /// Error(invalid_argument) for `rows` below 1, and, when reading, for elements of different shapes.
  [[nodiscard]] Dataset batch(std::int64_t rows, const BatchOptions& options = {}) const {
    return Dataset(pipeline_.batch(rows, options));
  }

  /// Replaces every element by `fn(element)`. `fn` may also take a memory resource for large results: `fn(element,
  /// memory)`. After batch, `fn` gets whole batches, on every rank; if rows are independent, map_rows is cheaper.
  template <class Fn>
  [[nodiscard]] auto map(Fn fn) const {
    return map(std::move(fn), MapOptions{});
  }

  /// Like map, for a batched dataset and a function that treats each row independently: `fn` gets one or more
  /// consecutive rows of a batch and returns as many. In a distributed dataset a rank transforms only the rows of its
  /// replicas.
  /// Throws Error(invalid_argument) if the dataset is not batched, and, when reading, if `fn` returns another number of
  /// rows.
  template <class Fn>
  [[nodiscard]] auto map_rows(Fn fn) const {
    return mapped<Fn>([](const input::Pipeline& pipeline,
                         input::Pipeline::Transform transform) { return pipeline.map_rows(std::move(transform)); },
                      std::move(fn));
  }

  /// Like map, with `fn` called by `options.num_parallel_calls` threads concurrently. The elements keep their order; an
  /// exception of `fn` is thrown in place of its element. Computes up to 2 * num_parallel_calls elements ahead. Keeps
  /// random access: that many threads then transform the rows of a batch.
  /// Throws Error(invalid_argument) for fewer than one thread.
  template <class Fn>
  [[nodiscard]] auto map(Fn fn, const MapOptions& options) const {
    return mapped<Fn>(
        [options](const input::Pipeline& pipeline, input::Pipeline::Transform transform) {
          return pipeline.map(std::move(transform), options);
        },
        std::move(fn));
  }

  /// The elements for which `keep(element)` is true. Their number is unknown, and they have no random access.
  template <class Keep>
    requires std::predicate<const Keep&, const T&>
  [[nodiscard]] Dataset filter(Keep keep) const {
    return Dataset(pipeline_.filter([keep = std::move(keep)](const input::Leaves& leaves) {
      return keep(input::element_of<T>(input::Leaves(leaves)));
    }));
  }

  /// The rows of each element, one by one: the inverse of batch. When reading, throws Error(invalid_argument) for a
  /// scalar, and if first extents of an element's tensors differ.
  [[nodiscard]] Dataset unbatch() const { return Dataset(pipeline_.unbatch()); }

  /// The elements i with i mod `count` == `index`. In `shard(shard_hint, shard_hint)` the numbers are set by a
  /// distributed dataset with the policy HINT; without it, reading throws Error(failed_precondition).
  /// Throws Error(invalid_argument) if `count` is below 1 or `index` is not in [0, count).
  [[nodiscard]] Dataset shard(std::int64_t count, std::int64_t index) const {
    return Dataset(pipeline_.shard(count, index));
  }

  /// The same elements, stored in memory when they are read for the first time. The source is read once, as pass 0, so
  /// data that is shuffled before keeps that order. With random access each element is stored as soon as it is read;
  /// otherwise the elements are stored by the first pass that reaches the end.
  [[nodiscard]] Dataset cache() const { return Dataset(pipeline_.cache()); }

  /// The elements of this dataset, then those of `next`.
  [[nodiscard]] Dataset concatenate(const Dataset& next) const {
    return Dataset(pipeline_.concatenate(next.pipeline()));
  }

  /// `expand(element)` returns a dataset for every element; the elements of these datasets are interleaved as `options`
  /// says. `expand` is called only when the dataset that it returns is opened.
  /// Throws Error(invalid_argument) for a cycle or block length below 1.
  template <class Expand>
  [[nodiscard]] auto interleave(Expand expand, const InterleaveOptions& options = {}) const {
    using Inner = std::remove_cvref_t<std::invoke_result_t<const Expand&, T>>;
    return Inner(pipeline_.interleave(
        [expand = std::move(expand)](input::Leaves leaves) {
          return expand(input::element_of<T>(std::move(leaves))).pipeline();
        },
        options));
  }

  /// Pairs of the element's number, an i64 scalar that counts from `start`, and the element.
  [[nodiscard]] Dataset<std::pair<Tensor, T>> enumerate(std::int64_t start = 0) const {
    return Dataset<std::pair<Tensor, T>>(pipeline_.enumerate(start));
  }

  /// The same elements, of which a background thread reads up to `depth` ahead. An exception while reading is thrown in
  /// place of its element. Not needed at the end of a dataset that is distributed, which reads ahead anyway.
  /// Throws Error(invalid_argument) for a depth below 1.
  [[nodiscard]] Dataset prefetch(int depth) const { return Dataset(pipeline_.prefetch(depth)); }

  [[nodiscard]] Cardinality cardinality() const { return pipeline_.cardinality(); }
  /// Number of rows of a full batch; nothing if the elements are not batches.
  [[nodiscard]] std::optional<std::int64_t> batch_size() const { return pipeline_.batch_size(); }
  [[nodiscard]] const input::Pipeline& pipeline() const noexcept { return pipeline_; }

  /// Starts the next pass; or pass `pass`, which does not change the number of the next one.
  [[nodiscard]] DatasetIterator<T> iterate() const { return iterate(passes_->fetch_add(1, std::memory_order_relaxed)); }
  [[nodiscard]] DatasetIterator<T> iterate(std::uint64_t pass) const {
    return DatasetIterator<T>(pipeline_.open(pass));
  }

  /// As iterate(), for range-based for. References are valid until the iterator is incremented.
  [[nodiscard]] InputPosition<DatasetIterator<T>, T> begin() const {
    return InputPosition<DatasetIterator<T>, T>(iterate());
  }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  template <class Fn, class Transformation>
  [[nodiscard]] auto mapped(const Transformation& transformation, Fn fn) const {
    using Memory = const std::shared_ptr<MemoryResource>&;
    if constexpr (std::invocable<const Fn&, T, Memory>) {
      return mapped_to<std::invoke_result_t<const Fn&, T, Memory>>(transformation, std::move(fn));
    } else {
      auto without_memory = [fn = std::move(fn)](T element, Memory) { return fn(std::move(element)); };
      return mapped_to<std::invoke_result_t<const Fn&, T>>(transformation, std::move(without_memory));
    }
  }
  template <class Result, class Transformation, class Fn>
  [[nodiscard]] auto mapped_to(const Transformation& transformation, Fn fn) const {
    using Element = std::remove_cvref_t<Result>;
    static_assert(ElementTree<Element>, "the function of a map must return a tree of tensors");
    return Dataset<Element>(transformation(
        pipeline_, [fn = std::move(fn)](input::Leaves element, const std::shared_ptr<MemoryResource>& memory) {
          return input::leaves_of<Element>(fn(input::element_of<T>(std::move(element)), memory));
        }));
  }

  input::Pipeline pipeline_;
  std::shared_ptr<std::atomic<std::uint64_t>> passes_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

/// Tuples of the i-th elements of several datasets, until one of them ends. Keeps random access if all datasets have it
/// and none is shuffled, repeated or sliced before.
template <ElementTree... T>
  requires(sizeof...(T) > 0)
[[nodiscard]] Dataset<std::tuple<T...>> zip(const Dataset<T>&... datasets) {
  const std::array inputs{datasets.pipeline()...};
  return Dataset<std::tuple<T...>>(input::Pipeline::zip(inputs));
}

}  // namespace lockstep
