// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A dataset describes a sequence of elements. Iterating over the dataset reads the elements.
//
//   auto data = lockstep::Dataset<std::tuple<Tensor, Tensor>>::from_tensor_slices({images, labels})
//                   .shuffle(seed).batch(256);
//   for (const auto& [image, label] : data) ...

#pragma once

#include <lockstep/input/element.hpp>
#include <lockstep/input/pipeline.hpp>

#include <array>
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
  DatasetIterator(input::Reader reader, input::ElementForm<T> form)
      : reader_(std::move(reader)), form_(std::move(form)) {}

  /// Returns the next element, or nullopt at the end. Rethrows exceptions of reading and of functions that were passed
  /// to the dataset; after an exception, the pass is over.
  [[nodiscard]] std::optional<T> get_next_as_optional() {
    input::Leaves leaves;
    if (!reader_.next(leaves)) return std::nullopt;
    return form_.element_of(std::move(leaves));
  }

 private:
  input::Reader reader_;
  [[no_unique_address]] input::ElementForm<T> form_;
};

/// An input iterator over an object with a member function get_next_as_optional().
template <class Source, class Value>
class InputPosition {
 public:
  using value_type = Value;
  using difference_type = std::ptrdiff_t;

  explicit InputPosition(Source source)
      : source_(new Source(std::move(source))) {  // NOLINT: std::make_shared costs more to compile
    ++*this;
  }

  [[nodiscard]] const Value& operator*() const noexcept { return *current_; }
  [[nodiscard]] const Value* operator->() const noexcept { return &*current_; }
  InputPosition& operator++() {
    current_.reset();  // free the old element first, so that the next element can reuse its memory
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
/// If T has maps or lists, for example if T is std::map<std::string, Tensor>, all elements have the same keys and the
/// same lengths of lists: those of the first element that is given or read. If the function of a map, or a generator,
/// returns an element with other keys, reading throws Error(invalid_argument), which names the keys.
///
/// Each iteration is a pass over all elements. The passes of a Dataset object and its copies are numbered from 0, in
/// the order in which the passes begin. The seed and the pass number determine the order of shuffled data, which is the
/// same on all ranks and platforms.
///
/// Datasets of tensor slices, of ranges, and of rows of mapped files have random access. shuffle, repeat, take, skip,
/// shard, cache and map preserve random access; enumerate does so only if the rows are still in their original order.
/// If a dataset with random access is batched, a reader that needs only some rows of a batch, such as a distributed
/// dataset, reads only these rows.
/// Tensors that are passed to a dataset, or returned by functions such as those of map, are shared, not copied: do not
/// write to such a tensor afterwards. The functions run on the thread that reads: the caller's thread, the thread of a
/// prefetch, or a thread of a parallel map. Iterators that are used at the same time call the functions concurrently.
/// Thread-safety: immutable except for the pass number, which is atomic.
template <ElementTree T>
class Dataset {
 public:
  using value_type = T;
  static constexpr std::int64_t forever = input::Pipeline::forever;

  /// For use by the library, and by user-defined transformations. `form` has the keys of the elements.
  explicit Dataset(input::Pipeline pipeline, input::ElementForm<T> form = input::ElementForm<T>())
      : pipeline_(std::move(pipeline)), form_(std::move(form)) {}

  /// Element i consists of row i of each tensor. Throws Error(invalid_argument) if a tensor is a scalar, or if the
  /// first extents of the tensors differ.
  [[nodiscard]] static Dataset from_tensor_slices(const T& tensors) {
    const input::ElementForm<T> form;
    return Dataset(input::Pipeline::from_tensor_slices(form.leaves_of(tensors, "from_tensor_slices")), form);
  }

  /// A dataset with one element, `tensors`. Throws Error(invalid_argument) if a tensor has Shape::max_rank axes.
  [[nodiscard]] static Dataset from_tensors(const T& tensors) {
    const input::ElementForm<T> form;
    return Dataset(input::Pipeline::from_tensors(form.leaves_of(tensors, "from_tensors")), form);
  }

  /// Calls `make()` once for each pass. `make()` returns a generator function. Each call of the generator function
  /// returns the next element as std::optional<T>, or nullopt at the end. The elements may be batches: a distributed
  /// dataset with several replicas divides them unless `batch` follows, so single elements need `batch`.
  template <class Make>
    requires requires(Make& make) {
      { make()() } -> std::convertible_to<std::optional<T>>;
    }
  [[nodiscard]] static Dataset from_generator(Make make) {
    const input::ElementForm<T> form;
    return Dataset(
        input::Pipeline::from_generator([make = std::move(make), form]() mutable -> input::Pipeline::Generator {
          return [generate = make(), form](input::Leaves& element) mutable {
            const std::optional<T> value = generate();
            if (value) element = form.leaves_of(*value, "from_generator");
            return value.has_value();
          };
        }),
        form);
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

  /// The elements of this dataset in an order that the seed and the pass number determine. With random access, the
  /// order is a uniformly random permutation of the whole dataset, and takes 8 bytes per element. Without random
  /// access, elements are drawn at random from a buffer (see ShuffleOptions).
  [[nodiscard]] Dataset shuffle(std::uint64_t seed, const ShuffleOptions& options = {}) const {
    return with(pipeline_.shuffle(seed, options));
  }

  /// Repeats the dataset `times` times. Each repetition is a new pass over this dataset: if this dataset is shuffled,
  /// every repetition has a different order (see ShuffleOptions). Repeating an empty dataset, even forever, gives an
  /// empty dataset.
  [[nodiscard]] Dataset repeat(std::int64_t times = forever) const { return with(pipeline_.repeat(times)); }

  /// take returns the first `count` elements; skip returns all elements after the first `count`. Throws
  /// Error(invalid_argument) if `count` is negative.
  [[nodiscard]] Dataset take(std::int64_t count) const { return with(pipeline_.take(count)); }
  [[nodiscard]] Dataset skip(std::int64_t count) const { return with(pipeline_.skip(count)); }

  /// Stacks `rows` consecutive elements along a new first axis; the last batch may have fewer rows. Throws
  /// Error(invalid_argument) if `rows` is below 1. Reading throws Error(invalid_argument) if the elements of a batch
  /// differ in dtype or shape.
  [[nodiscard]] Dataset batch(std::int64_t rows, const BatchOptions& options = {}) const {
    return with(pipeline_.batch(rows, options));
  }

  /// Replaces every element by `fn(element)`. `fn` may also take a memory resource for large results: `fn(element,
  /// memory)`. If map follows batch, `fn` gets whole batches, on every rank. If `fn` treats rows independently,
  /// map_rows is cheaper.
  template <class Fn>
  [[nodiscard]] auto map(Fn fn) const {
    return map(std::move(fn), MapOptions{});
  }

  /// Like map, for a batched dataset and a function that treats each row independently: `fn` gets one or more
  /// consecutive rows of a batch and returns the same number of rows. In a distributed dataset, a rank transforms only
  /// its replicas' rows.
  /// Throws Error(invalid_argument) if the dataset is not batched. Reading throws Error(invalid_argument) if `fn`
  /// returns a different number of rows.
  template <class Fn>
  [[nodiscard]] auto map_rows(Fn fn) const {
    return mapped<Fn>([](const input::Pipeline& pipeline,
                         input::Pipeline::Transform transform) { return pipeline.map_rows(std::move(transform)); },
                      std::move(fn));
  }

  /// Like map, but `options.num_parallel_calls` threads call `fn` concurrently. The elements keep their order. If `fn`
  /// throws for an element, the exception is rethrown when this element is requested. Up to 2 * num_parallel_calls
  /// elements are computed ahead. Random access is preserved: if batch follows, num_parallel_calls threads transform
  /// the rows of a batch.
  /// Throws Error(invalid_argument) unless num_parallel_calls is in 1 to 1024. Reading throws Error(unavailable) if the
  /// system has no thread left.
  template <class Fn>
  [[nodiscard]] auto map(Fn fn, const MapOptions& options) const {
    return mapped<Fn>(
        [options](const input::Pipeline& pipeline, input::Pipeline::Transform transform) {
          return pipeline.map(std::move(transform), options);
        },
        std::move(fn));
  }

  /// The elements for which `keep(element)` is true. The result has an unknown number of elements and no random access.
  template <class Keep>
    requires std::predicate<const Keep&, const T&>
  [[nodiscard]] Dataset filter(Keep keep) const {
    return with(pipeline_.filter([keep = std::move(keep), form = form_](const input::Leaves& leaves) {
      return keep(form.element_of(input::Leaves(leaves)));
    }));
  }

  /// The rows of each element, one by one: the inverse of batch. Reading throws Error(invalid_argument) if a tensor of
  /// an element is a scalar, or if the first extents of an element's tensors differ.
  [[nodiscard]] Dataset unbatch() const { return with(pipeline_.unbatch()); }

  /// The elements whose number i, counted from 0, satisfies i mod `count` == `index`. For `shard(shard_hint,
  /// shard_hint)`, a distributed dataset with the policy HINT chooses both arguments; without such a distributed
  /// dataset, reading throws Error(failed_precondition).
  /// Throws Error(invalid_argument) if `count` is below 1 or `index` is not in [0, count).
  [[nodiscard]] Dataset shard(std::int64_t count, std::int64_t index) const {
    return with(pipeline_.shard(count, index));
  }

  /// The elements of this dataset, stored in memory when they are read for the first time. This dataset is read as pass
  /// 0 only: if it is shuffled, every pass over the cache has the order of pass 0. With random access, each element is
  /// stored as soon as it is read. Without random access, the first pass that reaches the end stores all elements.
  [[nodiscard]] Dataset cache() const { return with(pipeline_.cache()); }

  /// The elements of this dataset, followed by the elements of `next`.
  [[nodiscard]] Dataset concatenate(const Dataset& next) const {
    return with(pipeline_.concatenate(next.pipeline_of(form_, "concatenate")));
  }

  /// `expand(element)` returns a dataset for each element of this dataset. The result interleaves the elements of the
  /// returned datasets as `options` specify. `expand` is called only when its result is needed.
  /// Throws Error(invalid_argument) if the cycle length or the block length is below 1.
  template <class Expand>
  [[nodiscard]] auto interleave(Expand expand, const InterleaveOptions& options = {}) const {
    using Inner = std::remove_cvref_t<std::invoke_result_t<const Expand&, T>>;
    const input::ElementForm<typename Inner::value_type> inner;
    return Inner(pipeline_.interleave(
                     [expand = std::move(expand), form = form_, inner](input::Leaves leaves) {
                       return expand(form.element_of(std::move(leaves))).pipeline_of(inner, "interleave");
                     },
                     options),
                 inner);
  }

  /// Pairs (number, element). The number is an i64 scalar that counts from `start`.
  [[nodiscard]] Dataset<std::pair<Tensor, T>> enumerate(std::int64_t start = 0) const {
    using Numbered = std::pair<Tensor, T>;
    return Dataset<Numbered>(pipeline_.enumerate(start),
                             input::ElementForm<Numbered>(input::ElementForm<Tensor>(), form_));
  }

  /// The elements of this dataset; a background thread reads up to `depth` elements ahead. If reading an element
  /// throws, the exception is rethrown when this element is requested. A distributed dataset reads ahead by itself, so
  /// prefetch is not needed directly before distribution.
  /// Throws Error(invalid_argument) if `depth` is below 1. Reading throws Error(unavailable) if the system has no
  /// thread left.
  [[nodiscard]] Dataset prefetch(int depth) const { return with(pipeline_.prefetch(depth)); }

  [[nodiscard]] Cardinality cardinality() const { return pipeline_.cardinality(); }
  /// Number of rows of a full batch: n after batch(n), as long as only transformations follow that keep the number of
  /// rows, or join datasets of equal batch size. nullopt if the elements are not batches, or if the number is not known
  /// before reading: after map, interleave, and for a generator.
  [[nodiscard]] std::optional<std::int64_t> batch_size() const { return pipeline_.batch_size(); }
  [[nodiscard]] const input::Pipeline& pipeline() const noexcept { return pipeline_; }
  /// For use by the library.
  [[nodiscard]] const input::ElementForm<T>& form() const noexcept { return form_; }
  /// For use by the library: the elements for a dataset whose elements have the form `form`. If the keys are not known
  /// yet, they are compared when elements are read.
  [[nodiscard]] input::Pipeline pipeline_of(const input::ElementForm<T>& form, const char* call) const {
    if (form.adopt(form_, call)) return pipeline_;
    return pipeline_.map([mine = form_, form, call](input::Leaves element, const std::shared_ptr<MemoryResource>&) {
      static_cast<void>(form.adopt(mine, call));
      return element;
    });
  }

  /// Without an argument, starts the next pass. With an argument, starts pass `pass`; the next pass number is
  /// unchanged.
  [[nodiscard]] DatasetIterator<T> iterate() const { return iterate(passes_.next()); }
  [[nodiscard]] DatasetIterator<T> iterate(std::uint64_t pass) const {
    return DatasetIterator<T>(pipeline_.open(pass), form_);
  }

  /// Like iterate(), for range-based for loops. References to an element are valid until the iterator is incremented.
  [[nodiscard]] InputPosition<DatasetIterator<T>, T> begin() const {
    return InputPosition<DatasetIterator<T>, T>(iterate());
  }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  /// A dataset of elements of the same form.
  [[nodiscard]] Dataset with(input::Pipeline pipeline) const { return Dataset(std::move(pipeline), form_); }
  template <class Fn, class Transformation>
  [[nodiscard]] auto mapped(const Transformation& transformation, Fn fn) const {
    using Memory = const std::shared_ptr<MemoryResource>&;
    if constexpr (std::invocable<const Fn&, T, Memory>) {
      return mapped_to<std::invoke_result_t<const Fn&, T, Memory>>(transformation, std::move(fn));
    } else {
      auto without_memory = [fn = std::move(fn)](T&& element, Memory) { return fn(std::move(element)); };
      return mapped_to<std::invoke_result_t<const Fn&, T>>(transformation, std::move(without_memory));
    }
  }
  template <class Result, class Transformation, class Fn>
  [[nodiscard]] auto mapped_to(const Transformation& transformation, Fn fn) const {
    using Element = std::remove_cvref_t<Result>;
    static_assert(ElementTree<Element>, "the function of a map must return a tree of tensors");
    const input::ElementForm<Element> result;
    return Dataset<Element>(transformation(pipeline_,
                                           [fn = std::move(fn), form = form_, result](
                                               input::Leaves element, const std::shared_ptr<MemoryResource>& memory) {
                                             return result.leaves_of(fn(form.element_of(std::move(element)), memory),
                                                                     "map");
                                           }),
                            result);
  }

  input::Pipeline pipeline_;
  [[no_unique_address]] input::ElementForm<T> form_;
  input::PassCounter passes_;
};

/// Tuples of the i-th elements of several datasets; the result ends with the shortest dataset. The result has random
/// access if all datasets have random access and their rows are still in the original order, that is, not shuffled,
/// repeated, sharded, or cut by take or skip.
template <ElementTree... T>
  requires(sizeof...(T) > 0)
[[nodiscard]] Dataset<std::tuple<T...>> zip(const Dataset<T>&... datasets) {
  const std::array inputs{datasets.pipeline()...};
  return Dataset<std::tuple<T...>>(input::Pipeline::zip(inputs),
                                   input::ElementForm<std::tuple<T...>>(datasets.form()...));
}

}  // namespace lockstep
