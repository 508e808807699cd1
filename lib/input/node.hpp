// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A dataset is a chain of nodes, each of which knows the one before. Opening it gives a chain of cursors for one pass.
// Moving on and reading are two things, so that elements can be skipped, and only some rows of a batch read.

#pragma once

#include <lockstep/input/pipeline.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace lockstep::input {

/// How a pass is read.
struct PassOptions {
  std::uint64_t pass = 0;                  ///< chooses the order of shuffled data
  std::shared_ptr<MemoryResource> memory;  ///< for the tensors that are made
};

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

/// Immutable, shared between threads.
class Node {
 public:
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  virtual ~Node();

  [[nodiscard]] virtual std::unique_ptr<Cursor> open(const PassOptions& options) const = 0;
  [[nodiscard]] virtual Cardinality cardinality() const = 0;
  /// Rows of a full batch; 0 where the elements are no batches.
  [[nodiscard]] virtual std::int64_t batch_size() const { return 0; }
  /// Not null where elements are rows with random access.
  [[nodiscard]] virtual const IndexedRows* indexed() const noexcept { return nullptr; }
  /// The node whose elements this one only reads ahead, else null.
  [[nodiscard]] virtual std::shared_ptr<const Node> reads_ahead_of() const { return nullptr; }
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
