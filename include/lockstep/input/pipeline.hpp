// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A dataset without its element type: each element is a list of tensors. `Dataset<T>` is the typed edge around it.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lockstep {

/// How many elements a dataset has, as far as that is known without reading it.
class Cardinality {
 public:
  [[nodiscard]] static constexpr Cardinality known(std::int64_t count) noexcept { return Cardinality(count); }
  [[nodiscard]] static constexpr Cardinality infinite() noexcept { return Cardinality(-1); }
  [[nodiscard]] static constexpr Cardinality unknown() noexcept { return Cardinality(-2); }

  [[nodiscard]] constexpr bool is_known() const noexcept { return count_ >= 0; }
  [[nodiscard]] constexpr bool is_infinite() const noexcept { return count_ == -1; }
  [[nodiscard]] constexpr bool is_unknown() const noexcept { return count_ == -2; }
  /// The number of elements; only when it is known.
  [[nodiscard]] constexpr std::int64_t count() const noexcept { return count_; }
  friend constexpr bool operator==(Cardinality, Cardinality) noexcept = default;

 private:
  explicit constexpr Cardinality(std::int64_t count) noexcept : count_(count) {}
  std::int64_t count_;
};

struct BatchOptions {
  /// Whether a last batch with fewer rows is left out.
  bool drop_remainder = false;
};

struct ShuffleOptions {
  /// Whether each pass over the data has an order of its own. Either way the order follows from seed and pass number
  /// alone.
  bool reshuffle_each_iteration = true;
  /// Elements kept in memory to choose from, where the source has no random access. Larger mixes better; `whole`: all
  /// of them, each order as likely as any other.
  std::size_t buffer_elements = 4096;
  static constexpr std::size_t whole = std::numeric_limits<std::int64_t>::max();
};

struct MapOptions {
  /// Threads that call the function, for elements that follow each other; the elements keep their order.
  int num_parallel_calls = 1;
};

/// How several inputs are read in turns: `block_length` elements from each of `cycle_length` that are open. One that
/// ends makes way for the next in the list.
struct InterleaveOptions {
  int cycle_length = 1;  ///< 1: one input after the other
  int block_length = 1;
};

/// In place of both numbers of `shard`: the part that a distributed dataset with the policy HINT gives each rank.
inline constexpr std::int64_t shard_hint = -1;

namespace input {

/// The tensors of one element, in the order of the leaves of its type.
using Leaves = std::vector<Tensor>;

class Cursor;
class Node;

/// Reads the elements of one pass, one after the other. Move-only. Thread-safety: one thread at a time.
class LOCKSTEP_API Reader {
 public:
  explicit Reader(std::unique_ptr<Cursor> cursor) noexcept;
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  /// Replaces `element` by the next one; false at the end, and ever after. Throws what the dataset's functions throw.
  bool next(Leaves& element);

 private:
  std::unique_ptr<Cursor> cursor_;
};

/// An immutable description of a dataset; copies are cheap and share. Transformations return a new one.
/// Contracts of the transformations are at Dataset. Thread-safety: immutable.
class LOCKSTEP_API Pipeline {
 public:
  /// Writes the next element, or returns false at the end.
  using Generator = std::function<bool(Leaves& element)>;
  /// Called once for each pass.
  using MakeGenerator = std::function<Generator()>;
  /// One element to another. Large results may take their memory from `memory`, which reuses it from step to step.
  using Transform = std::function<Leaves(Leaves element, const std::shared_ptr<MemoryResource>& memory)>;
  using Predicate = std::function<bool(const Leaves& element)>;
  /// One element to a dataset.
  using Expand = std::function<Pipeline(Leaves element)>;

  static constexpr std::int64_t forever = -1;

  [[nodiscard]] static Pipeline from_tensor_slices(Leaves tensors);
  [[nodiscard]] static Pipeline from_generator(MakeGenerator make);
  [[nodiscard]] static Pipeline from_tensors(const Leaves& tensors);
  [[nodiscard]] static Pipeline range(std::int64_t count);
  [[nodiscard]] static Pipeline range(std::int64_t start, std::int64_t stop, std::int64_t step);
  /// The leaves of the first elements of `inputs` as one, then of the second, until one of them ends.
  [[nodiscard]] static Pipeline zip(std::span<const Pipeline> inputs);
  /// For the library.
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
  /// Rows of a full batch; nothing where the elements are no batches.
  [[nodiscard]] std::optional<std::int64_t> batch_size() const;
  /// Starts pass number `pass`; the number chooses the order of shuffled data. The reader keeps the dataset alive.
  [[nodiscard]] Reader open(std::uint64_t pass = 0) const;

  /// For the library: what stands behind.
  [[nodiscard]] const std::shared_ptr<const Node>& node() const noexcept { return node_; }

 private:
  explicit Pipeline(std::shared_ptr<const Node> node) noexcept : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;
};

}  // namespace input
}  // namespace lockstep
