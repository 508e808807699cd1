// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A dataset without its element type: each element is a list of tensors. `Dataset<T>` is the typed interface to it.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/base/function.hpp>
#include <lockstep/base/owned.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lockstep {

/// Number of elements of a dataset: known without reading the data, infinite, or unknown.
class Cardinality {
 public:
  [[nodiscard]] static constexpr Cardinality known(std::int64_t count) noexcept { return Cardinality(count); }
  [[nodiscard]] static constexpr Cardinality infinite() noexcept { return Cardinality(-1); }
  [[nodiscard]] static constexpr Cardinality unknown() noexcept { return Cardinality(-2); }

  [[nodiscard]] constexpr bool is_known() const noexcept { return count_ >= 0; }
  [[nodiscard]] constexpr bool is_infinite() const noexcept { return count_ == -1; }
  [[nodiscard]] constexpr bool is_unknown() const noexcept { return count_ == -2; }
  /// The number of elements; only valid if is_known().
  [[nodiscard]] constexpr std::int64_t count() const noexcept { return count_; }
  friend constexpr bool operator==(Cardinality, Cardinality) noexcept = default;

 private:
  explicit constexpr Cardinality(std::int64_t count) noexcept : count_(count) {}
  std::int64_t count_;
};

struct BatchOptions {
  /// Whether the last batch is dropped if it is not full.
  bool drop_remainder = false;
};

struct ShuffleOptions {
  /// Whether each pass has a different order. If false, every pass has the order of pass 0.
  bool reshuffle_each_iteration = true;
  /// Size of the buffer from which elements are drawn if the source has no random access. A larger buffer shuffles
  /// better. `whole`: the buffer holds all elements, and the order is uniformly random.
  std::size_t buffer_elements = 4096;
  static constexpr std::size_t whole = std::numeric_limits<std::int64_t>::max();
};

struct MapOptions {
  /// Number of threads that call the function concurrently. The elements keep their order.
  int num_parallel_calls = 1;
};

/// How several inputs are interleaved: `cycle_length` inputs are open at a time, and `block_length` elements are taken
/// from each open input in turn. An input that ends is replaced by the next input.
struct InterleaveOptions {
  int cycle_length = 1;  ///< 1: one input after the other
  int block_length = 1;
};

/// If both arguments of `shard` have this value, a distributed dataset with the policy HINT chooses the shard.
inline constexpr std::int64_t shard_hint = -1;

namespace input {

/// The tensors of one element, in the order of the leaves of the element type.
using Leaves = std::vector<Tensor>;

class Cursor;
class Node;

/// Reads the elements of one pass in order. Move-only. Thread-safety: one thread at a time.
class LOCKSTEP_API Reader {
 public:
  explicit Reader(Owned<Cursor> cursor) noexcept;
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  /// Stores the next element in `element`. Returns false at the end, and in every later call. Rethrows exceptions of
  /// reading and of functions that were passed to the dataset.
  bool next(Leaves& element);

 private:
  Owned<Cursor> cursor_;
};

/// Numbers the passes of a dataset, from 0. Copies share the count. Thread-safety: any thread.
class LOCKSTEP_API PassCounter {
 public:
  PassCounter();
  /// The number of the next pass.
  [[nodiscard]] std::uint64_t next() const noexcept;

 private:
  std::shared_ptr<void> count_;
};

/// An immutable description of a dataset. Copies are cheap and share data. Transformations return a new Pipeline; their
/// contracts are documented at Dataset. Thread-safety: immutable.
class LOCKSTEP_API Pipeline {
 public:
  /// Writes the next element to `element` and returns true; returns false at the end.
  using Generator = Function<bool(Leaves& element)>;
  /// Called once for each pass.
  using MakeGenerator = Function<Generator()>;
  /// Maps an element to a new element. Large results may be allocated from `memory`, which reuses blocks in later
  /// steps.
  using Transform = Function<Leaves(Leaves element, const std::shared_ptr<MemoryResource>& memory)>;
  using Predicate = Function<bool(const Leaves& element)>;
  /// Maps an element to a dataset.
  using Expand = Function<Pipeline(Leaves element)>;

  static constexpr std::int64_t forever = -1;

  [[nodiscard]] static Pipeline from_tensor_slices(Leaves tensors);
  [[nodiscard]] static Pipeline from_generator(MakeGenerator make);
  [[nodiscard]] static Pipeline from_tensors(const Leaves& tensors);
  [[nodiscard]] static Pipeline range(std::int64_t count);
  [[nodiscard]] static Pipeline range(std::int64_t start, std::int64_t stop, std::int64_t step);
  /// Element i has the leaves of element i of every input. The result ends with the shortest input.
  [[nodiscard]] static Pipeline zip(std::span<const Pipeline> inputs);
  /// For use by the library.
  [[nodiscard]] static Pipeline from_node(std::shared_ptr<const Node> node) { return Pipeline(std::move(node)); }

  [[nodiscard]] Pipeline shuffle(std::uint64_t seed, const ShuffleOptions& options = {}) const;
  [[nodiscard]] Pipeline repeat(std::int64_t times = forever) const;
  [[nodiscard]] Pipeline take(std::int64_t count) const;
  [[nodiscard]] Pipeline skip(std::int64_t count) const;
  [[nodiscard]] Pipeline batch(std::int64_t rows, const BatchOptions& options = {}) const;
  [[nodiscard]] Pipeline map(Transform transform) const;
  [[nodiscard]] Pipeline map(Transform transform, const MapOptions& options) const;
  [[nodiscard]] Pipeline map_rows(Transform transform) const;
  [[nodiscard]] Pipeline filter(Predicate keep) const;
  [[nodiscard]] Pipeline unbatch() const;
  [[nodiscard]] Pipeline shard(std::int64_t count, std::int64_t index) const;
  [[nodiscard]] Pipeline enumerate(std::int64_t start) const;
  [[nodiscard]] Pipeline cache() const;
  [[nodiscard]] Pipeline concatenate(const Pipeline& next) const;
  [[nodiscard]] Pipeline interleave(Expand expand, const InterleaveOptions& options) const;
  [[nodiscard]] Pipeline prefetch(int depth) const;

  [[nodiscard]] Cardinality cardinality() const;
  /// Number of rows of a full batch; nullopt if the elements are not batches, or if the construction of the dataset
  /// does not determine the number.
  [[nodiscard]] std::optional<std::int64_t> batch_size() const;
  /// Whether the construction of the dataset implies that its elements are single rows or records, not batches.
  [[nodiscard]] bool has_single_elements() const;
  /// Starts pass number `pass`, which determines the order of shuffled data. The reader keeps the dataset alive.
  [[nodiscard]] Reader open(std::uint64_t pass = 0) const;

  /// The implementation; for use by the library.
  [[nodiscard]] const std::shared_ptr<const Node>& node() const noexcept { return node_; }

 private:
  explicit Pipeline(std::shared_ptr<const Node> node) noexcept : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;
};

}  // namespace input
}  // namespace lockstep
