// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/check.hpp"
#include "input/stream_nodes.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lockstep::input {
namespace {

/// Reads blocks of elements from the open inputs in `slots_` in rotation, as in TensorFlow. If an input ends, its slot
/// stays empty until the rotation reaches this slot again; then the next input is opened in the slot.
class InterleaveCursor final : public Cursor {
 public:
  InterleaveCursor(NextInput next, const InterleaveOptions& options)
      : next_(std::move(next)),
        slots_(static_cast<std::size_t>(options.cycle_length)),
        block_length_(options.block_length) {}
  bool advance() override {
    for (;;) {
      if (taken_ == block_length_) move_on();
      if (std::unique_ptr<Cursor>& slot = slots_[at_]) {
        if (slot->advance()) {
          ++taken_;
          return true;
        }
        slot.reset();
        --open_;
        move_on();
      } else if (std::unique_ptr<Cursor> input = last_ ? nullptr : next_()) {
        slot = std::move(input);
        ++open_;
      } else {
        last_ = true;
        if (open_ == 0) return false;
        move_on();
      }
    }
  }
  void read(Leaves& element) override { slots_[at_]->read(element); }
  std::int64_t rows() override { return slots_[at_]->rows(); }
  [[nodiscard]] std::int64_t full_rows() const override { return slots_[at_]->full_rows(); }
  void read_rows(std::int64_t first, std::int64_t count, Leaves& element) override {
    slots_[at_]->read_rows(first, count, element);
  }

 private:
  void move_on() noexcept {
    taken_ = 0;
    at_ = (at_ + 1) % slots_.size();
  }

  NextInput next_;
  std::vector<std::unique_ptr<Cursor>> slots_;
  int block_length_;
  int taken_ = 0;  // number of elements taken from the current block
  std::size_t at_ = 0;
  int open_ = 0;       // number of open inputs
  bool last_ = false;  // there is no further input to open
};

class InterleaveNode final : public TransformNode {
 public:
  InterleaveNode(NodePointer source, Pipeline::Expand expand, const InterleaveOptions& options) noexcept
      : TransformNode(std::move(source)), expand_(std::move(expand)), options_(options) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    std::shared_ptr<Cursor> outer = source_->open(options);
    auto next = [outer = std::move(outer), expand = expand_, options]() -> std::unique_ptr<Cursor> {
      if (!outer->advance()) return nullptr;
      Leaves element;
      outer->read(element);
      return expand(std::move(element)).node()->open(options);
    };
    return interleaved(std::move(next), options_);
  }
  [[nodiscard]] Cardinality cardinality() const override { return Cardinality::unknown(); }
  [[nodiscard]] Batched batched() const override { return Batched::unknown; }
  [[nodiscard]] std::int64_t batch_size() const override { return 0; }
  [[nodiscard]] bool keeps_rows() const override { return false; }

 private:
  [[nodiscard]] NodePointer with_source(NodePointer source) const override {
    return std::make_shared<InterleaveNode>(std::move(source), expand_, options_);
  }
  Pipeline::Expand expand_;
  InterleaveOptions options_;
};

class ConcatenateNode final : public SeveralNode {
 public:
  using SeveralNode::SeveralNode;
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    auto next = [sources = sources_, options, i = std::size_t{0}]() mutable -> std::unique_ptr<Cursor> {
      return i < sources.size() ? sources[i++]->open(options) : nullptr;
    };
    return interleaved(std::move(next), {});
  }
  [[nodiscard]] bool reads_single_rows() const override {
    return std::ranges::all_of(sources_, [](const auto& source) { return source->reads_single_rows(); });
  }
  [[nodiscard]] Cardinality cardinality() const override {
    bool is_known = true;
    std::int64_t sum = 0;
    for (const NodePointer& source : sources_) {
      const Cardinality part = source->cardinality();
      if (part.is_infinite()) return part;
      is_known = is_known && part.is_known() && !__builtin_add_overflow(sum, part.count(), &sum);
    }
    return is_known ? Cardinality::known(sum) : Cardinality::unknown();
  }

 private:
  [[nodiscard]] NodePointer with_source(std::vector<NodePointer> sources) const override {
    return concatenate_node(std::move(sources));
  }
};

}  // namespace

std::unique_ptr<Cursor> interleaved(NextInput next, const InterleaveOptions& options) {
  return std::make_unique<InterleaveCursor>(std::move(next), options);
}

void check_options(const char* call, const InterleaveOptions& options) {
  constexpr int most = 1 << 16;
  const auto check = [call, most](const char* name, int value) {
    if (value >= 1 && value <= most) return;
    detail::throw_error(Code::invalid_argument, "{}: {} is {}; it must be in 1 to {}", call, name, value, most);
  };
  check("cycle_length", options.cycle_length);
  check("block_length", options.block_length);
}

NodePointer interleave_node(NodePointer source, Pipeline::Expand expand, const InterleaveOptions& options) {
  check_options("interleave", options);
  return std::make_shared<InterleaveNode>(std::move(source), std::move(expand), options);
}

NodePointer concatenate_node(std::vector<NodePointer> sources) {
  return std::make_shared<ConcatenateNode>(std::move(sources));
}

}  // namespace lockstep::input
