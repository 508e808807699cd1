// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A sequence of elements, described before it is read:
//   auto data = lockstep::Dataset<std::tuple<Tensor, Tensor>>::from_tensor_slices({images,
//   labels}).shuffle(seed).batch(256); for (const auto& [image, label] : data) ...

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

/// Reads one pass of a Dataset. Move-only. Thread-safety: one thread at a time; iterators of one dataset are
/// independent.
template <ElementTree T>
class DatasetIterator {
 public:
  explicit DatasetIterator(input::Reader reader) : reader_(std::move(reader)) {}

  /// The next element, nothing at the end. Throws what the dataset's functions throw; the pass is then over.
  [[nodiscard]] std::optional<T> get_next_as_optional() {
    input::Leaves leaves;
    if (!reader_.next(leaves)) return std::nullopt;
    return input::element_of<T>(std::move(leaves));
  }

 private:
  input::Reader reader_;
};

/// An input iterator over anything with get_next_as_optional().
template <class Source, class Value>
class InputPosition {
 public:
  using value_type = Value;
  using difference_type = std::ptrdiff_t;

  explicit InputPosition(Source source) : source_(std::make_shared<Source>(std::move(source))) { ++*this; }

  [[nodiscard]] const Value& operator*() const noexcept { return *current_; }
  [[nodiscard]] const Value* operator->() const noexcept { return &*current_; }
  InputPosition& operator++() {
    current_.reset();  // first, so that its memory can serve the next element
    current_ = source_->get_next_as_optional();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const InputPosition& position, std::default_sentinel_t) noexcept { return !position.current_; }

 private:
  std::shared_ptr<Source> source_;
  std::optional<Value> current_;
};

/// A dataset of elements T. Immutable: every transformation returns a new dataset; copies are cheap and share.
///
/// Each iteration is a pass: it starts from the beginning, and the passes of one Dataset object and its copies are
/// numbered from 0 as they begin. Shuffled data has the order of (seed, pass number), the same on all ranks and
/// platforms.
///
/// Slices of tensors, ranges and rows of mapped files have random access, and keep it through shuffle, repeat, take,
/// skip, shard, cache, enumerate and map until batch; who then reads only some rows of a batch, as a distributed
/// dataset does, touches no others. Tensors given to a dataset, and returned by functions given to it, are shared, not
/// copied: do not write to them any more. Functions given to a dataset run on the thread that reads: the caller's, or
/// one of prefetch's or of a parallel map's; if several iterators are used at once, at the same time. Thread-safety:
/// immutable but for the pass number, which is atomic.
template <ElementTree T>
class Dataset {
 public:
  using value_type = T;
  static constexpr std::int64_t forever = input::Pipeline::forever;

  /// For the library and for transformations of one's own.
  explicit Dataset(input::Pipeline pipeline) : pipeline_(std::move(pipeline)) {}

  /// Element i consists of row i of each tensor. Throws Error(invalid_argument) when a tensor is a scalar or first
  /// extents differ.
  [[nodiscard]] static Dataset from_tensor_slices(const T& tensors) {
    return Dataset(input::Pipeline::from_tensor_slices(input::leaves_of(tensors)));
  }

  /// One element: `tensors`. Throws Error(invalid_argument) when a tensor has Shape::max_rank axes.
  [[nodiscard]] static Dataset from_tensors(const T& tensors) {
    return Dataset(input::Pipeline::from_tensors(input::leaves_of(tensors)));
  }

  /// `make()` is called for each pass and returns a function that returns the next element as std::optional<T>, empty
  /// at the end.
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

  /// 0, 1, ..., count - 1 as i64 scalars; or start, start + step, ... as long as they are before `stop`. Throws
  /// Error(invalid_argument) when `count` is negative or `step` is 0.
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

  /// The same elements in an order that (seed, pass number) determines. With random access it is a permutation of the
  /// whole dataset, each as likely as any other, and costs 8 bytes per element; otherwise elements are drawn from a
  /// buffer.
  [[nodiscard]] Dataset shuffle(std::uint64_t seed, const ShuffleOptions& options = {}) const {
    return Dataset(pipeline_.shuffle(seed, options));
  }

  /// The dataset `times` times over; each time is a new pass, so data shuffled before is in another order each time. A
  /// dataset without elements ends also when repeated forever.
  [[nodiscard]] Dataset repeat(std::int64_t times = forever) const { return Dataset(pipeline_.repeat(times)); }

  /// The first `count` elements, all but the first `count` elements. Throws Error(invalid_argument) when `count` is
  /// negative.
  [[nodiscard]] Dataset take(std::int64_t count) const { return Dataset(pipeline_.take(count)); }
  [[nodiscard]] Dataset skip(std::int64_t count) const { return Dataset(pipeline_.skip(count)); }

  /// `rows` successive elements as one, stacked along a new first axis; the last batch may have fewer.
  /// Throws Error(invalid_argument) for `rows` below 1, and when reading for elements of different shapes.
  [[nodiscard]] Dataset batch(std::int64_t rows, const BatchOptions& options = {}) const {
    return Dataset(pipeline_.batch(rows, options));
  }

  /// `fn(element)` for every element. `fn` may also take a memory resource, `fn(element, memory)`, for large results.
  /// After batch it gets whole batches, on every rank; where rows are independent, map_rows is cheaper.
  template <class Fn>
  [[nodiscard]] auto map(Fn fn) const {
    return map(std::move(fn), MapOptions{});
  }

  /// As map, of a batched dataset, for functions that treat each row by itself: `fn` gets any run of rows of a batch,
  /// at least one, and returns as many. Distributed, each replica's rows are transformed, and no others. Throws
  /// Error(invalid_argument) where the dataset is not batched, and when reading where `fn` returns another number of
  /// rows.
  template <class Fn>
  [[nodiscard]] auto map_rows(Fn fn) const {
    return mapped<Fn>([](const input::Pipeline& pipeline,
                         input::Pipeline::Transform transform) { return pipeline.map_rows(std::move(transform)); },
                      std::move(fn));
  }

  /// As map, with `fn` called by `options.num_parallel_calls` threads at once; the elements keep their order, and an
  /// exception of `fn` reaches the reader in place of its element. Up to twice as many elements are made ahead. Random
  /// access is kept: the rows of a batch are then transformed by as many threads. Throws Error(invalid_argument) for
  /// fewer than one thread.
  template <class Fn>
  [[nodiscard]] auto map(Fn fn, const MapOptions& options) const {
    return mapped<Fn>(
        [options](const input::Pipeline& pipeline, input::Pipeline::Transform transform) {
          return pipeline.map(std::move(transform), options);
        },
        std::move(fn));
  }

  /// The elements for which `keep(element)` is true. How many that are is not known beforehand, and there is no random
  /// access to them.
  template <class Keep>
    requires std::predicate<const Keep&, const T&>
  [[nodiscard]] Dataset filter(Keep keep) const {
    return Dataset(pipeline_.filter([keep = std::move(keep)](const input::Leaves& leaves) {
      return keep(input::element_of<T>(input::Leaves(leaves)));
    }));
  }

  /// The rows of each element, one by one: the reverse of batch. Throws Error(invalid_argument), when reading, for a
  /// scalar, and for tensors of one element whose first extents differ.
  [[nodiscard]] Dataset unbatch() const { return Dataset(pipeline_.unbatch()); }

  /// The elements i with i mod `count` == `index`. `shard(shard_hint, shard_hint)` leaves the numbers to the policy
  /// HINT of a distributed dataset, without which it cannot be read (Error(failed_precondition)). Throws
  /// Error(invalid_argument) when `count` is below 1 or `index` is not in [0, count).
  [[nodiscard]] Dataset shard(std::int64_t count, std::int64_t index) const {
    return Dataset(pipeline_.shard(count, index));
  }

  /// The same elements, kept in memory when they are read for the first time. What comes before is read as pass 0,
  /// once: data shuffled before stays in that order. With random access each element is kept as soon as it is read,
  /// otherwise all are by the first pass that reaches the end.
  [[nodiscard]] Dataset cache() const { return Dataset(pipeline_.cache()); }

  /// The elements of this dataset, then those of `next`.
  [[nodiscard]] Dataset concatenate(const Dataset& next) const {
    return Dataset(pipeline_.concatenate(next.pipeline()));
  }

  /// `expand(element)` returns a dataset for every element; their elements in turns, as `options` says. It is called
  /// when its dataset is opened. Throws Error(invalid_argument) for lengths below 1.
  template <class Expand>
  [[nodiscard]] auto interleave(Expand expand, const InterleaveOptions& options = {}) const {
    using Inner = std::remove_cvref_t<std::invoke_result_t<const Expand&, T>>;
    return Inner(pipeline_.interleave(
        [expand = std::move(expand)](input::Leaves leaves) {
          return expand(input::element_of<T>(std::move(leaves))).pipeline();
        },
        options));
  }

  /// Pairs of a number, `start` for the first one, as an i64 scalar, and the element.
  [[nodiscard]] Dataset<std::pair<Tensor, T>> enumerate(std::int64_t start = 0) const {
    return Dataset<std::pair<Tensor, T>>(pipeline_.enumerate(start));
  }

  /// The same elements, read ahead by a thread of its own, at most `depth` of them. An exception while reading reaches
  /// the consumer in its place. Not needed at the end of a dataset that is distributed, which reads ahead by itself.
  /// Throws Error(invalid_argument) for a depth below 1.
  [[nodiscard]] Dataset prefetch(int depth) const { return Dataset(pipeline_.prefetch(depth)); }

  [[nodiscard]] Cardinality cardinality() const { return pipeline_.cardinality(); }
  /// Rows of a full batch; nothing where the elements are no batches.
  [[nodiscard]] std::optional<std::int64_t> batch_size() const { return pipeline_.batch_size(); }
  [[nodiscard]] const input::Pipeline& pipeline() const noexcept { return pipeline_; }

  /// Starts the next pass, or pass `pass`, which counts for nothing else.
  [[nodiscard]] DatasetIterator<T> iterate() const { return iterate(passes_->fetch_add(1, std::memory_order_relaxed)); }
  [[nodiscard]] DatasetIterator<T> iterate(std::uint64_t pass) const {
    return DatasetIterator<T>(pipeline_.open(pass));
  }

  /// As iterate(), for range-based for. The reference that the iterator gives is good until it moves on.
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

/// Elements of several datasets as tuples: the first ones, the second ones, ... until one dataset ends. Random access
/// is kept where all have it and none is shuffled, repeated or cut before.
template <ElementTree... T>
  requires(sizeof...(T) > 0)
[[nodiscard]] Dataset<std::tuple<T...>> zip(const Dataset<T>&... datasets) {
  const std::array inputs{datasets.pipeline()...};
  return Dataset<std::tuple<T...>>(input::Pipeline::zip(inputs));
}

}  // namespace lockstep
