// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/prefetch_queue.hpp"
#include "input/stream_nodes.hpp"

#include <utility>

namespace lockstep::input {
namespace {

class PrefetchCursor final : public WholeCursor {
 public:
  PrefetchCursor(std::unique_ptr<Cursor> source, int depth, std::shared_ptr<MemoryResource> memory)
      : WholeCursor(std::move(memory)),
        source_(std::move(source)),
        queue_(static_cast<std::size_t>(depth), [this](BufferedElement& element) {
          if (!source_->advance()) return false;
          source_->read(element.tensors);
          element.full_rows = source_->full_rows();
          return true;
        }) {}
  bool advance() override {
    BufferedElement element;
    if (!queue_.pop(element)) return false;
    set_present(std::move(element));
    return true;
  }

 private:
  std::unique_ptr<Cursor> source_;  // used by the queue's thread only
  PrefetchQueue<BufferedElement> queue_;
};

class PrefetchNode final : public TransformNode {
 public:
  PrefetchNode(NodePointer source, int depth) noexcept : TransformNode(std::move(source)), depth_(depth) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    return std::make_unique<PrefetchCursor>(source_->open(options), depth_, options.memory);
  }
  [[nodiscard]] Cardinality row_count() const override { return source_->row_count(); }
  [[nodiscard]] NodePointer reads_ahead_of() const override { return source_; }

 private:
  [[nodiscard]] NodePointer with_source(NodePointer source) const override {
    return std::make_shared<PrefetchNode>(std::move(source), depth_);
  }
  int depth_;
};

}  // namespace

NodePointer prefetch_node(NodePointer source, int depth) {
  return std::make_shared<PrefetchNode>(std::move(source), depth);
}

}  // namespace lockstep::input
