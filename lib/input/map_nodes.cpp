// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "input/parallel.hpp"
#include "input/rows.hpp"
#include "input/stream_nodes.hpp"

#include <optional>
#include <utility>

namespace lockstep::input {
namespace {

class MapCursor final : public WholeCursor {
 public:
  MapCursor(std::unique_ptr<Cursor> source, Pipeline::Transform transform, std::shared_ptr<MemoryResource> memory)
      : WholeCursor(std::move(memory)), source_(std::move(source)), transform_(std::move(transform)) {}
  bool advance() override {
    if (!source_->advance()) return false;
    Leaves element;
    source_->read(element);
    const RowsBefore before{source_->full_rows(), rows_in(element)};
    present_ = transform_(std::move(element), memory_);
    full_rows_ = rows_.next(before, present_);
    return true;
  }

 private:
  std::unique_ptr<Cursor> source_;
  Pipeline::Transform transform_;
  RowsAfterMap rows_;
};

class MapNode final : public TransformNode {
 public:
  MapNode(NodePointer source, Pipeline::Transform transform) noexcept
      : TransformNode(std::move(source)), transform_(std::move(transform)) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    return std::make_unique<MapCursor>(source_->open(options), transform_, options.memory);
  }
  [[nodiscard]] bool keeps_rows() const override { return false; }
  [[nodiscard]] bool has_full_batches() const override { return false; }  // the function may change the number of rows

 private:
  [[nodiscard]] NodePointer with_source(NodePointer source) const override {
    return std::make_shared<MapNode>(std::move(source), transform_);
  }
  Pipeline::Transform transform_;
};

class ParallelMapNode final : public TransformNode {
 public:
  ParallelMapNode(NodePointer source, Pipeline::Transform transform, int threads) noexcept
      : TransformNode(std::move(source)), transform_(std::move(transform)), threads_(threads) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    std::shared_ptr<Cursor> source = source_->open(options);
    auto next = [source = std::move(source), transform = transform_, memory = options.memory]() -> std::optional<Job> {
      if (!source->advance()) return std::nullopt;
      Leaves element;
      source->read(element);
      const RowsBefore before{source->full_rows(), rows_in(element)};
      auto make = [element = std::move(element), transform, memory](Leaves& result) {
        result = transform(element, memory);
      };
      return Job{std::move(make), before};
    };
    return parallel_cursor(std::move(next), threads_, options.memory);
  }
  [[nodiscard]] bool keeps_rows() const override { return false; }
  [[nodiscard]] bool has_full_batches() const override { return false; }

 private:
  [[nodiscard]] NodePointer with_source(NodePointer source) const override {
    return std::make_shared<ParallelMapNode>(std::move(source), transform_, threads_);
  }
  Pipeline::Transform transform_;
  int threads_;
};

class MapRowsCursor final : public Cursor {
 public:
  MapRowsCursor(std::unique_ptr<Cursor> source, Pipeline::Transform transform, std::shared_ptr<MemoryResource> memory)
      : source_(std::move(source)), transform_(std::move(transform)), memory_(std::move(memory)) {}
  bool advance() override { return source_->advance(); }
  std::int64_t rows() override { return source_->rows(); }
  [[nodiscard]] std::int64_t full_rows() const override { return source_->full_rows(); }
  void read(Leaves& element) override { read_rows(0, rows(), element); }
  void read_rows(std::int64_t first, std::int64_t count, Leaves& element) override {
    // if `count` is 0, the dtypes and inner shapes of the result are still needed: transform row 0, and drop its data
    if (count != 0) {
      transform(first, count, element);
    } else if (rows() != 0) {
      Leaves one;
      transform(0, 1, one);
      copy_rows(one, 0, 0, memory_, element);
    } else {
      source_->read_rows(0, 0, element);
    }
  }

 private:
  void transform(std::int64_t first, std::int64_t count, Leaves& element) {
    Leaves rows;
    source_->read_rows(first, count, rows);
    element = transform_(std::move(rows), memory_);
    const std::int64_t result = common_rows(element, "map_rows");
    if (result != count) {
      detail::throw_error(Code::invalid_argument,
                          "map_rows: the function returned {} for {}; it must return as many as it gets; use map for a "
                          "function of whole batches",
                          detail::counted(result, "row"), count);
    }
  }

  std::unique_ptr<Cursor> source_;
  Pipeline::Transform transform_;
  std::shared_ptr<MemoryResource> memory_;
};

class MapRowsNode final : public TransformNode {
 public:
  MapRowsNode(NodePointer source, Pipeline::Transform transform) noexcept
      : TransformNode(std::move(source)), transform_(std::move(transform)) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    return std::make_unique<MapRowsCursor>(source_->open(options), transform_, options.memory);
  }
  [[nodiscard]] Cardinality row_count() const override { return source_->row_count(); }
  [[nodiscard]] bool reads_single_rows() const override { return source_->reads_single_rows(); }

 private:
  [[nodiscard]] NodePointer with_source(NodePointer source) const override {
    return std::make_shared<MapRowsNode>(std::move(source), transform_);
  }
  Pipeline::Transform transform_;
};

}  // namespace

std::unique_ptr<Cursor> map_cursor(std::unique_ptr<Cursor> source, Pipeline::Transform transform,
                                   std::shared_ptr<MemoryResource> memory) {
  return std::make_unique<MapCursor>(std::move(source), std::move(transform), std::move(memory));
}

NodePointer map_node(NodePointer source, Pipeline::Transform transform) {
  return std::make_shared<MapNode>(std::move(source), std::move(transform));
}

NodePointer parallel_map_node(NodePointer source, Pipeline::Transform transform, int threads) {
  return std::make_shared<ParallelMapNode>(std::move(source), std::move(transform), threads);
}

NodePointer map_rows_node(NodePointer source, Pipeline::Transform transform) {
  return std::make_shared<MapRowsNode>(std::move(source), std::move(transform));
}

}  // namespace lockstep::input
