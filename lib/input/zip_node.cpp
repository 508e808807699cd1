// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/row_source.hpp"
#include "input/rows.hpp"
#include "input/stream_nodes.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace lockstep::input {
namespace {

void append(Leaves& element, Leaves&& more) {
  element.insert(element.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

class ZippedRows final : public RowSource {
 public:
  explicit ZippedRows(std::vector<std::shared_ptr<const RowSource>> sources) : sources_(std::move(sources)) {
    count_ = sources_.front()->count();
    for (const auto& source : sources_) count_ = std::min(count_, source->count());
  }
  [[nodiscard]] std::int64_t count() const override { return count_; }
  void gather(std::span<const std::int64_t> rows, const std::shared_ptr<MemoryResource>& memory,
              Leaves& result) const override {
    result.clear();
    for (const auto& source : sources_) {
      Leaves part;
      source->gather(rows, memory, part);
      append(result, std::move(part));
    }
  }
  void element(std::int64_t row, const std::shared_ptr<MemoryResource>& memory, Leaves& result) const override {
    result.clear();
    for (const auto& source : sources_) {
      Leaves part;
      source->element(row, memory, part);
      append(result, std::move(part));
    }
  }
  [[nodiscard]] std::vector<std::string> files() const override {
    std::vector<std::string> all;
    for (const auto& source : sources_) {
      const std::vector<std::string> some = source->files();
      if (some.empty()) return {};
      if (some != all) all.insert(all.end(), some.begin(), some.end());  // a list equal to `all` is not repeated
    }
    return all;
  }
  [[nodiscard]] std::shared_ptr<const RowSource> of_files(const Part& part) const override {
    std::vector<std::shared_ptr<const RowSource>> fewer;
    for (const auto& source : sources_) {
      fewer.push_back(source->of_files(part));
      if (!fewer.back()) return nullptr;
    }
    return std::make_shared<ZippedRows>(std::move(fewer));
  }

 private:
  std::vector<std::shared_ptr<const RowSource>> sources_;
  std::int64_t count_ = 0;
};

class ZipCursor final : public Cursor {
 public:
  ZipCursor(std::vector<std::unique_ptr<Cursor>> sources, std::shared_ptr<MemoryResource> memory) noexcept
      : sources_(std::move(sources)), memory_(std::move(memory)) {}
  bool advance() override {
    return std::ranges::all_of(sources_, [](const auto& source) { return source->advance(); });
  }
  void read(Leaves& element) override {
    element.clear();
    for (const auto& source : sources_) {
      Leaves part;
      source->read(part);
      append(element, std::move(part));
    }
  }
  std::int64_t rows() override {
    Leaves element;
    read(element);
    return common_rows(element);
  }
  [[nodiscard]] std::int64_t full_rows() const override {
    const std::int64_t full = sources_.front()->full_rows();
    bool agree = true;
    for (const auto& source : sources_) {
      if (source->full_rows() == not_a_batch) return not_a_batch;
      agree = agree && source->full_rows() == full;
    }
    return agree ? full : own_rows;
  }
  void read_rows(std::int64_t first, std::int64_t count, Leaves& element) override {
    element.clear();
    for (const auto& source : sources_) {
      Leaves part;
      source->read_rows(first, count, part);
      append(element, std::move(part));
    }
  }

 private:
  std::vector<std::unique_ptr<Cursor>> sources_;
  std::shared_ptr<MemoryResource> memory_;
};

class ZipNode final : public SeveralNode {
 public:
  using SeveralNode::SeveralNode;
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    std::vector<std::unique_ptr<Cursor>> cursors;
    cursors.reserve(sources_.size());
    for (const NodePointer& source : sources_) cursors.push_back(source->open(options));
    return std::make_unique<ZipCursor>(std::move(cursors), options.memory);
  }
  [[nodiscard]] Cardinality cardinality() const override {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    bool all_infinite = true;
    for (const NodePointer& source : sources_) {
      const Cardinality part = source->cardinality();
      if (part.is_unknown()) return part;
      all_infinite = all_infinite && part.is_infinite();
      if (part.is_known()) least = std::min(least, part.count());
    }
    return all_infinite ? Cardinality::infinite() : Cardinality::known(least);
  }

 private:
  [[nodiscard]] NodePointer with_source(std::vector<NodePointer> sources) const override {
    return zip_node(std::move(sources));
  }
};

/// Zips sources by row number if all of them have random access in sequential order; otherwise returns null.
NodePointer indexed_zip(const std::vector<NodePointer>& sources) {
  std::vector<std::shared_ptr<const RowSource>> rows;
  for (const NodePointer& source : sources) {
    const IndexedRows* const indexed = source->indexed();
    if (indexed == nullptr || !indexed->order->is_sequential()) return nullptr;
    rows.push_back(indexed->source);
  }
  auto zipped = std::make_shared<const ZippedRows>(std::move(rows));
  const std::int64_t count = zipped->count();
  return indexed_node({std::move(zipped), sequential_order(count)});
}

}  // namespace

NodePointer zip_node(std::vector<NodePointer> sources) {
  if (NodePointer node = indexed_zip(sources)) return node;
  return std::make_shared<ZipNode>(std::move(sources));
}

}  // namespace lockstep::input
