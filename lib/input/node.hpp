// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A dataset is a chain of nodes, each with a pointer to its source. Opening the dataset creates a chain of cursors for
// one pass. Cursors advance and read in separate calls, so that a reader can skip elements, or read only some rows of a
// batch.

#pragma once

#include <lockstep/device/memory_resource.hpp>
#include <lockstep/input/pipeline.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::input {

/// Options for reading a pass.
struct PassOptions {
  std::uint64_t pass = 0;                  ///< chooses the order of shuffled data
  std::shared_ptr<MemoryResource> memory;  ///< allocates the tensors of the elements
};

/// A memory resource for batches, whose sizes are the same in every step. It keeps the 64 blocks that were freed last,
/// and reuses a block for an allocation of the same size. It allocates from `source`, or from the heap if `source` is
/// null. Thread-safe.
[[nodiscard]] std::shared_ptr<MemoryResource> recycling_memory(std::shared_ptr<MemoryResource> source = nullptr);

/// The number of rows of a full batch, as the division of an element into FIXED_CHUNKS uses it. If batch(n) made the
/// element, and no function has changed its number of rows since, this number is n, also for a short batch. Otherwise
/// it is one of these values.
constexpr std::int64_t own_rows = 0;      ///< the element's own number of rows
constexpr std::int64_t not_a_batch = -1;  ///< the element is a single row or record, which cannot be divided

/// A position in one pass. Thread-safety: one thread at a time.
class Cursor {
 public:
  Cursor() = default;
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;
  virtual ~Cursor();

  /// Moves to the next element; the first call moves to the first one. Returns false at the end; do not call `advance`
  /// after the end.
  [[nodiscard]] virtual bool advance() = 0;
  /// Stores the current element in `element`. May be called any number of times for an element.
  virtual void read(Leaves& element) = 0;
  /// The first extent of the current element's tensors. All tensors must have the same first extent.
  [[nodiscard]] virtual std::int64_t rows() = 0;
  /// The number of rows of a full batch for the division of the current element, or own_rows, or not_a_batch.
  [[nodiscard]] virtual std::int64_t full_rows() const { return not_a_batch; }
  /// Stores rows [first, first + count) of the current element in `element`. If `count` is 0, the tensors have no rows,
  /// but have the dtypes and inner shapes of the current element.
  virtual void read_rows(std::int64_t first, std::int64_t count, Leaves& element) = 0;
};

struct IndexedRows;

/// An element in a buffer.
struct BufferedElement {
  Leaves tensors;
  std::int64_t full_rows = not_a_batch;
};

/// Whether the elements of a dataset are batches, as far as its construction tells.
enum class Batched : std::uint8_t { no, unknown, yes };

/// One of `count` parts of a sequence: item i belongs to part i mod `count`.
struct Part {
  std::int64_t count = 1;
  std::int64_t index = 0;
};

/// Selects the part of a dataset that one of several readers gets.
struct Restriction {
  std::optional<Part> files;   ///< part of each source's list of files
  std::optional<Part> hinted;  ///< replaces the shard hints: shard(shard_hint, shard_hint)
};

/// A dataset, or a transformation of a dataset. Immutable, shared between threads, and always owned by a shared_ptr.
class Node : public std::enable_shared_from_this<Node> {
 public:
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  virtual ~Node();

  [[nodiscard]] virtual std::unique_ptr<Cursor> open(const PassOptions& options) const = 0;
  [[nodiscard]] virtual Cardinality cardinality() const = 0;
  [[nodiscard]] virtual Batched batched() const { return Batched::no; }
  /// Number of rows that batch() gave to every full batch; 0 if the elements were not made by one batch().
  [[nodiscard]] virtual std::int64_t batch_size() const { return 0; }
  /// Whether every batch still has the number of rows that batch() gave to it.
  [[nodiscard]] virtual bool keeps_rows() const { return true; }
  /// Whether every batch is full, because a short last batch is dropped.
  [[nodiscard]] virtual bool has_full_batches() const { return false; }
  /// Number of rows of all batches together; unknown if only reading the batches can tell the number.
  [[nodiscard]] virtual Cardinality row_count() const { return Cardinality::unknown(); }
  /// Whether reading some rows of a batch accesses no other rows.
  [[nodiscard]] virtual bool reads_single_rows() const { return false; }
  /// If the elements have random access, the rows and their order; otherwise null.
  [[nodiscard]] virtual const IndexedRows* indexed() const noexcept { return nullptr; }
  /// If this node only prefetches the elements of its source, the source; otherwise null.
  [[nodiscard]] virtual std::shared_ptr<const Node> reads_ahead_of() const { return nullptr; }

  /// The files of all sources, source after source; the files of a source are in the order of its list. Empty if any
  /// source does not consist of files.
  [[nodiscard]] virtual std::vector<std::string> files() const { return {}; }
  /// Whether the dataset has a shard hint, which a Restriction must replace before reading.
  [[nodiscard]] virtual bool has_shard_hint() const { return false; }
  /// This dataset with only a part of the files, or with its shard hints replaced. Throws Error(invalid_argument) if
  /// `restriction.files` is set, but a source does not consist of files or has no file in that part.
  [[nodiscard]] virtual std::shared_ptr<const Node> restricted(const Restriction& restriction) const;
};

/// A node with one source. By default it has the properties of its source.
class TransformNode : public Node {
 public:
  explicit TransformNode(std::shared_ptr<const Node> source) noexcept : source_(std::move(source)) {}
  [[nodiscard]] Cardinality cardinality() const override { return source_->cardinality(); }
  [[nodiscard]] Batched batched() const override { return source_->batched(); }
  [[nodiscard]] std::int64_t batch_size() const override { return source_->batch_size(); }
  [[nodiscard]] bool keeps_rows() const override { return source_->keeps_rows(); }
  [[nodiscard]] bool has_full_batches() const override { return source_->has_full_batches(); }
  [[nodiscard]] std::vector<std::string> files() const final { return source_->files(); }
  [[nodiscard]] bool has_shard_hint() const override { return source_->has_shard_hint(); }
  [[nodiscard]] std::shared_ptr<const Node> restricted(const Restriction& restriction) const override {
    return with_source(source_->restricted(restriction));
  }

 protected:
  /// The transformation of this node, applied to another source.
  [[nodiscard]] virtual std::shared_ptr<const Node> with_source(std::shared_ptr<const Node> source) const = 0;

  std::shared_ptr<const Node> source_;
};

/// A node with several sources. Its properties are those that its sources have in common.
class SeveralNode : public Node {
 public:
  explicit SeveralNode(std::vector<std::shared_ptr<const Node>> sources) noexcept : sources_(std::move(sources)) {}
  /// `no` if the elements of any source are not batches; `yes` if those of all sources are.
  [[nodiscard]] Batched batched() const final;
  /// The batch size of the sources if all sources have the same batch size, otherwise 0.
  [[nodiscard]] std::int64_t batch_size() const final;
  [[nodiscard]] bool keeps_rows() const final;
  [[nodiscard]] std::vector<std::string> files() const final;
  [[nodiscard]] bool has_shard_hint() const final;
  [[nodiscard]] std::shared_ptr<const Node> restricted(const Restriction& restriction) const final;

 protected:
  [[nodiscard]] virtual std::shared_ptr<const Node> with_source(
      std::vector<std::shared_ptr<const Node>> sources) const = 0;

  std::vector<std::shared_ptr<const Node>> sources_;
};

/// Base of cursors that always compute the whole current element.
class WholeCursor : public Cursor {
 public:
  explicit WholeCursor(std::shared_ptr<MemoryResource> memory) noexcept : memory_(std::move(memory)) {}

  void read(Leaves& element) final { element = present_; }
  [[nodiscard]] std::int64_t rows() final;
  [[nodiscard]] std::int64_t full_rows() const final { return full_rows_; }
  void read_rows(std::int64_t first, std::int64_t count, Leaves& element) final;

 protected:
  void set_present(BufferedElement&& element) noexcept {
    present_ = std::move(element.tensors);
    full_rows_ = element.full_rows;
  }

  std::shared_ptr<MemoryResource> memory_;
  Leaves present_;
  std::int64_t full_rows_ = not_a_batch;
};

}  // namespace lockstep::input
