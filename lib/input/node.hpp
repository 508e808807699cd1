// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A dataset is a chain of nodes, each of which knows the one before. Opening it gives a chain of cursors for one pass.
// Moving on and reading are two things, so that elements can be skipped, and only some rows of a batch read.

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

/// How a pass is read.
struct PassOptions {
  std::uint64_t pass = 0;                  ///< chooses the order of shuffled data
  std::shared_ptr<MemoryResource> memory;  ///< for the tensors that are made
};

/// A resource on `source`, null for the heap, that keeps the 64 blocks that were given back last, and gives them out
/// again for the same size. A batch that somebody still holds is simply not given back. Thread-safe.
[[nodiscard]] std::shared_ptr<MemoryResource> recycling_memory(std::shared_ptr<MemoryResource> source = nullptr);

/// A place in one pass. One thread at a time.
class Cursor {
 public:
  Cursor() = default;
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;
  virtual ~Cursor();

  /// Moves to the next element, at first to the first one; false at the end. Not called again after that.
  [[nodiscard]] virtual bool advance() = 0;
  /// Gives the present element. May be called several times, or not at all.
  virtual void read(Leaves& element) = 0;
  /// The first extent of the present element's tensors, which must agree.
  [[nodiscard]] virtual std::int64_t rows() = 0;
  /// Gives rows [first, first + count) of the present element; `count` 0 gives tensors without rows but of the right
  /// kind.
  virtual void read_rows(std::int64_t first, std::int64_t count, Leaves& element) = 0;
};

struct IndexedRows;

/// One of `count` parts: what has number i belongs to part i mod count.
struct Part {
  std::int64_t count = 1;
  std::int64_t index = 0;
};

/// What a dataset is cut down to where several readers share it.
struct Restriction {
  std::optional<Part> files;   ///< of each source's files, by their places in its list
  std::optional<Part> hinted;  ///< what a shard hint stands for
};

/// Immutable, shared between threads, and always held by a shared_ptr.
class Node : public std::enable_shared_from_this<Node> {
 public:
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  virtual ~Node();

  [[nodiscard]] virtual std::unique_ptr<Cursor> open(const PassOptions& options) const = 0;
  [[nodiscard]] virtual Cardinality cardinality() const = 0;
  /// Rows of a full batch; 0 where the elements are no batches.
  [[nodiscard]] virtual std::int64_t batch_size() const { return 0; }
  /// Whether every batch is a full one because others are left out.
  [[nodiscard]] virtual bool has_full_batches() const { return false; }
  /// Rows of all batches together; unknown where that takes reading them.
  [[nodiscard]] virtual Cardinality row_count() const { return Cardinality::unknown(); }
  /// Whether reading some rows of a batch touches no others.
  [[nodiscard]] virtual bool reads_single_rows() const { return false; }
  /// Not null where elements are rows with random access.
  [[nodiscard]] virtual const IndexedRows* indexed() const noexcept { return nullptr; }
  /// The node whose elements this one only reads ahead, else null.
  [[nodiscard]] virtual std::shared_ptr<const Node> reads_ahead_of() const { return nullptr; }

  /// The files that its sources read, source after source, each in the order of its list; empty where any source is
  /// something else than files.
  [[nodiscard]] virtual std::vector<std::string> files() const { return {}; }
  /// Whether a shard hint waits in it for a Restriction.
  [[nodiscard]] virtual bool has_shard_hint() const { return false; }
  /// The same transformations of fewer files, or with its shard hints replaced. Throws Error(invalid_argument) when
  /// files are to be parted and a source has none, or none for this part.
  [[nodiscard]] virtual std::shared_ptr<const Node> restricted(const Restriction& restriction) const;
};

/// A node with one source: to be asked what the source is asked, unless it says otherwise.
class TransformNode : public Node {
 public:
  explicit TransformNode(std::shared_ptr<const Node> source) noexcept : source_(std::move(source)) {}
  [[nodiscard]] Cardinality cardinality() const override { return source_->cardinality(); }
  [[nodiscard]] std::int64_t batch_size() const override { return source_->batch_size(); }
  [[nodiscard]] bool has_full_batches() const override { return source_->has_full_batches(); }
  [[nodiscard]] std::vector<std::string> files() const final { return source_->files(); }
  [[nodiscard]] bool has_shard_hint() const override { return source_->has_shard_hint(); }
  [[nodiscard]] std::shared_ptr<const Node> restricted(const Restriction& restriction) const override {
    return with_source(source_->restricted(restriction));
  }

 protected:
  /// The same transformation of another source.
  [[nodiscard]] virtual std::shared_ptr<const Node> with_source(std::shared_ptr<const Node> source) const = 0;

  std::shared_ptr<const Node> source_;
};

/// What its sources answer together.
class SeveralNode : public Node {
 public:
  explicit SeveralNode(std::vector<std::shared_ptr<const Node>> sources) noexcept : sources_(std::move(sources)) {}
  /// That of all sources, if they agree.
  [[nodiscard]] std::int64_t batch_size() const override;
  [[nodiscard]] std::vector<std::string> files() const final;
  [[nodiscard]] bool has_shard_hint() const final;
  [[nodiscard]] std::shared_ptr<const Node> restricted(const Restriction& restriction) const final;

 protected:
  [[nodiscard]] virtual std::shared_ptr<const Node> with_source(
      std::vector<std::shared_ptr<const Node>> sources) const = 0;

  std::vector<std::shared_ptr<const Node>> sources_;
};

/// Holds the present element whole: the base of cursors that cannot do better.
class WholeCursor : public Cursor {
 public:
  explicit WholeCursor(std::shared_ptr<MemoryResource> memory) noexcept : memory_(std::move(memory)) {}

  void read(Leaves& element) final { element = present_; }
  [[nodiscard]] std::int64_t rows() final;
  void read_rows(std::int64_t first, std::int64_t count, Leaves& element) final;

 protected:
  std::shared_ptr<MemoryResource> memory_;
  Leaves present_;
};

}  // namespace lockstep::input
