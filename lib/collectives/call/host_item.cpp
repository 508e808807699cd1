// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/call/host_item.hpp"

#include "base/check.hpp"
#include "collectives/call/places.hpp"
#include "collectives/call/row_counts.hpp"
#include "core/refusal.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>

namespace lockstep::detail {
namespace {

/// Bytes [begin, end) of one view of the call.
struct Extent {
  const std::byte* begin;
  const std::byte* end;
  std::size_t item;
  bool is_output;
};

class Checker {
 public:
  Checker(const Call& call, const ReplicaLayout& layout, int rank)
      : call_(call), kind_(call.traits()), layout_(layout), rank_(rank), places_(call.kind) {}

  std::vector<HostItem> check(std::span<const Item> items) {
    if (kind_.is_message()) check_peer();
    if (call_.root >= layout_.ranks() || (kind_.has_root() && call_.root < 0)) {
      refuse("root is {}, but the ranks are 0 to {}", call_.root, layout_.ranks() - 1);
    }
    read_rows(items.size());
    std::vector<HostItem> checked;
    checked.reserve(items.size());
    for (item_ = 0; item_ < items.size(); ++item_) checked.push_back(check_item(items[item_]));
    places_.finish();
    check_overlaps();
    return checked;
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    throw_error(Code::invalid_argument, "{}: {}", kind_.name, fmt::format(text, std::forward<Args>(args)...));
  }

  [[nodiscard]] bool is_root() const { return rank_ == call_.root; }
  [[nodiscard]] std::size_t local_replicas() const { return static_cast<std::size_t>(layout_.count(rank_)); }
  [[nodiscard]] std::string argument(std::string_view name) const { return fmt::format("{}: {}", kind_.name, name); }

  void check_peer() const {
    const std::string_view name = kind_.inputs == Place::ranks ? "target" : "source";
    if (call_.root < 0 || call_.root >= layout_.ranks())
      refuse("{} is {}, but the ranks are 0 to {}", name, call_.root, layout_.ranks() - 1);
    if (call_.root == rank_) refuse("{} is {}, which is this rank; pass another rank", name, call_.root);
  }

  void read_rows(std::size_t items) {
    if (!kind_.has_rows()) return;
    const auto replicas = static_cast<std::size_t>(layout_.replicas());
    if (!kind_.is_all_to_all()) {
      rows_.emplace(argument("rows"), call_.rows, replicas, items);
      return;
    }
    rows_.emplace(argument("send_rows"), call_.rows, local_replicas() * replicas, items);
    receive_rows_.emplace(argument("receive_rows"), call_.receive_rows, local_replicas() * replicas, items);
  }

  HostItem check_item(const Item& item) {
    check_numbers(item);
    HostItem result;
    // a scatter uses the shape of the outputs, since every rank has outputs
    const bool is_from_output = item.inputs.empty() || kind_.scatters();
    const ConstTensorView first = is_from_output ? ConstTensorView(item.outputs.front()) : item.inputs.front();
    result.dtype = first.dtype;
    result.shape = first.shape;
    if (kind_.has_rows() || kind_.has_parts()) lay_out_parts(result);
    if (kind_.reduces() && !supports(call_.op, result.dtype)) {
      refuse("item {}: {}", item_, refusal(call_.op, result.dtype));
    }
    for (std::size_t i = 0; i < item.inputs.size(); ++i) check_input(item.inputs[i], i, result);
    for (std::size_t i = 0; i < item.outputs.size(); ++i) check_output(item.outputs[i], i, result);
    return result;
  }

  /// Sets the parts of `result`, and sets its shape to the shape on which all ranks must agree.
  void lay_out_parts(HostItem& result) {
    const int replicas = layout_.replicas();
    if (!kind_.has_rows()) {  // each part counts as one row
      result.row_elements = kind_.is_all_to_all() ? part_count(result) : result.count();
      result.input_parts.assign(kind_.scatters() ? 1 : local_replicas(), even_begins(replicas));
      result.output_parts.assign(local_replicas(), even_begins(kind_.scatters() ? 1 : replicas));
      return;
    }
    if (result.shape.rank() == 0) refuse("item {} is a scalar, which has no rows; pass a shape of rank 1", item_);
    row_ = row_shape(result.shape);
    result.row_elements = row_.element_count();
    if (kind_.is_all_to_all()) {
      lay_out_rows_of_pairs(result);
      result.shape = row_;
      return;
    }
    const auto rows = rows_->of_item(item_);
    PartBegins begins = begins_of(argument("rows"), rows);
    result.shape = with_rows(begins.back(), row_);
    if (kind_.gathers()) {
      result.result_parts = std::move(begins);
      return;
    }
    result.input_parts.push_back(std::move(begins));
    for (const std::int64_t count : rows.subspan(first_replica(), local_replicas()))
      result.output_parts.push_back({0, count});
  }

  void lay_out_rows_of_pairs(HostItem& result) const {
    const auto replicas = static_cast<std::size_t>(layout_.replicas());
    const auto sent = rows_->of_item(item_);
    const auto received = receive_rows_->of_item(item_);
    for (std::size_t i = 0; i < local_replicas(); ++i) {
      result.input_parts.push_back(begins_of(argument("send_rows"), sent.subspan(i * replicas, replicas)));
      result.output_parts.push_back(begins_of(argument("receive_rows"), received.subspan(i * replicas, replicas)));
    }
    for (std::size_t i = 0; i < local_replicas(); ++i) {
      for (std::size_t j = 0; j < local_replicas(); ++j) {
        const std::int64_t count = sent[i * replicas + first_replica() + j];
        const std::int64_t expected = received[j * replicas + first_replica() + i];
        if (count == expected) continue;
        refuse("item {}: replica {} sends {} rows to replica {}, whose receive_rows say {}", item_, first_replica() + i,
               count, first_replica() + j, expected);
      }
    }
  }

  /// Number of elements in one of the R parts of a tensor.
  [[nodiscard]] std::int64_t part_count(const HostItem& result) const {
    const std::int64_t replicas = layout_.replicas();
    if (result.shape.rank() == 0 || result.shape[0] % replicas != 0) {
      refuse("item {} has shape {}; its first extent must be divisible by the {} replicas", item_,
             to_string(result.shape), replicas);
    }
    return result.count() / replicas;
  }

  [[nodiscard]] std::size_t first_replica() const { return static_cast<std::size_t>(layout_.first(rank_)); }
  [[nodiscard]] int replica_of(std::size_t index) const { return static_cast<int>(first_replica() + index); }

  void check_numbers(const Item& item) const {
    if (kind_.is_message()) return;
    const std::size_t local = local_replicas();
    if (kind_.inputs == Place::root) {
      const std::size_t inputs = is_root() ? 1 : 0;
      if (item.inputs.size() != inputs) {
        refuse("item {} has {} inputs; rank {} must pass {} (only root {} passes one)", item_, item.inputs.size(),
               rank_, inputs, call_.root);
      }
    } else if (item.inputs.size() != local) {
      refuse("item {} has {} inputs, but rank {} has {} replicas; pass one for each", item_, item.inputs.size(), rank_,
             local);
    }
    if (kind_.pattern == Pattern::broadcast && !is_root() && item.outputs.empty())
      refuse("item {} has no output on rank {}, which is not the root", item_, rank_);
    if (kind_.has_own_outputs() && item.outputs.size() != local) {
      refuse("item {} has {} outputs, but rank {} has {} replicas; pass one for each", item_, item.outputs.size(),
             rank_, local);
    }
    if (kind_.outputs == Place::root && !is_root() && !item.outputs.empty()) {
      refuse("item {} has {} outputs on rank {}; only root {} gets the result", item_, item.outputs.size(), rank_,
             call_.root);
    }
  }

  void check_input(const ConstTensorView& view, std::size_t index, HostItem& result) {
    if (kind_.scatters()) {
      check_whole(view, result);
    } else if (kind_.has_rows()) {
      const std::size_t replica = first_replica() + index;
      const std::int64_t rows = kind_.gathers() ? result.result_parts[replica + 1] - result.result_parts[replica]
                                                : result.input_parts[index].back();
      check_rows(view, "input", index, rows, result);
    } else if (view.dtype != result.dtype || view.shape != result.shape) {
      refuse("item {} is {} {} on replica {} but {} {} on replica {}; all replicas must have one dtype and shape",
             item_, to_string(view.dtype), to_string(view.shape), first_replica() + index, to_string(result.dtype),
             to_string(result.shape), first_replica());
    }
    places_.add(view, kind_.inputs == Place::replicas ? replica_of(index) : -1, {"input", index, item_});
    if (view.device.kind == DeviceKind::gpu) result.input_places.push_back({view.device, view.byte_count()});
    add_extent(view, false);
    result.inputs.push_back(view.data);
  }

  /// Checks the input of the root of a scatter.
  void check_whole(const ConstTensorView& view, const HostItem& result) const {
    const std::int64_t count = result.input_parts[0].back() * result.row_elements;
    if (view.dtype == result.dtype && view.element_count() == count) return;
    refuse("item {} is {} {} on root {}; the parts of {} replicas are {} elements of {} in all", item_,
           to_string(view.dtype), to_string(view.shape), call_.root, layout_.replicas(), count,
           to_string(result.dtype));
  }

  /// Checks a view that must have `rows` rows.
  void check_rows(const ConstTensorView& view, std::string_view what, std::size_t index, std::int64_t rows,
                  const HostItem& result) const {
    const Shape expected = with_rows(rows, row_);
    if (view.dtype == result.dtype && view.shape == expected) return;
    refuse(
        "{} of item {} is {} {} on replica {}, but must be {} {} according to the number of rows and the item's first "
        "tensor",
        what, item_, to_string(view.dtype), to_string(view.shape), first_replica() + index, to_string(result.dtype),
        to_string(expected));
  }

  void check_output(const TensorView& view, std::size_t index, HostItem& result) {
    const DType dtype = kind_.reduces() ? result_dtype(call_.op, result.dtype) : result.dtype;
    if (view.dtype != dtype) {
      refuse("output {} of item {} is {}; {} of {} gives {}", index, item_, to_string(view.dtype),
             kind_.reduces() ? to_string(call_.op) : kind_.name, to_string(result.dtype), to_string(dtype));
    }
    check_output_shape(view, index, result);
    places_.add(view, kind_.has_own_outputs() ? replica_of(index) : -1, {"output", index, item_});
    if (view.device.kind == DeviceKind::gpu) result.output_places.push_back({view.device, view.byte_count()});
    add_extent(view, true);
    result.outputs.push_back(view.data);
  }

  void check_output_shape(const TensorView& view, std::size_t index, const HostItem& result) const {
    if (kind_.has_rows() && !kind_.gathers()) {
      check_rows(view, "output", index, result.output_parts[index].back(), result);
      return;
    }
    const std::int64_t replicas = layout_.replicas();
    std::int64_t count = result.count();
    if (kind_.gathers()) {
      count = result.part_begin(layout_.replicas());
    } else if (kind_.reduces() && kind_.has_own_outputs()) {
      count = part_count(result);
    } else if (!kind_.is_all_to_all() && view.shape != result.shape) {
      refuse("output {} of item {} has shape {}, but {} {}", index, item_, to_string(view.shape),
             kind_.scatters() ? "the first one has" : "the inputs have", to_string(result.shape));
    }
    if (kind_.has_rows() && view.element_count() != count) {
      refuse("output {} of item {} has {} elements; the parts of {} replicas make {}, which is {}", index, item_,
             view.element_count(), replicas, to_string(result.shape), count);
    }
    if (view.element_count() != count) {
      refuse("output {} of item {} has {} elements; inputs of shape {} from {} replicas make {}", index, item_,
             view.element_count(), to_string(result.shape), replicas, count);
    }
  }

  void add_extent(const ConstTensorView& view, bool is_output) {
    if (view.element_count() == 0) return;
    if (view.data == nullptr) refuse("item {} has {} elements at a null address", item_, view.element_count());
    const auto* const begin = static_cast<const std::byte*>(view.data);
    extents_.push_back({begin, begin + view.byte_count(), item_, is_output});
  }

  /// An output may be the same view as an input of its item, or as another output of its item with the same content.
  /// Any other overlap with an output is an error.
  void check_overlaps() {
    std::sort(extents_.begin(), extents_.end(), [](const Extent& a, const Extent& b) {
      // at equal addresses, outputs precede inputs, so that each input is compared with the output that ends last
      return std::tuple(a.begin, !a.is_output, a.end, a.item) < std::tuple(b.begin, !b.is_output, b.end, b.item);
    });
    const Extent* furthest = nullptr;         // of all extents so far, the one that ends last
    const Extent* furthest_output = nullptr;  // of all outputs so far, the one that ends last
    for (const Extent& extent : extents_) {
      if (extent.is_output) require_apart(furthest, extent);
      require_apart(furthest_output, extent);
      if (furthest == nullptr || extent.end > furthest->end) furthest = &extent;
      if (extent.is_output && (furthest_output == nullptr || extent.end > furthest_output->end))
        furthest_output = &extent;
    }
  }

  void require_apart(const Extent* earlier, const Extent& later) const {
    if (earlier == nullptr || earlier->end <= later.begin) return;
    const bool is_same_view = earlier->begin == later.begin && earlier->end == later.end && earlier->item == later.item;
    if (is_same_view && !(earlier->is_output && later.is_output && kind_.has_own_outputs())) return;
    refuse(
        "{} of item {} overlaps {} of item {} by {} bytes; an output may be the same view as an input of its item, but "
        "not overlap another",
        later.is_output ? "an output" : "an input", later.item, earlier->is_output ? "an output" : "an input",
        earlier->item, std::min(earlier->end, later.end) - later.begin);
  }

  const Call& call_;
  const Traits& kind_;
  const ReplicaLayout& layout_;
  const int rank_;
  std::optional<RowCounts> rows_;          // numbers of rows of the call; in an all_to_all_v, numbers of rows to send
  std::optional<RowCounts> receive_rows_;  // only in an all_to_all_v: numbers of rows to receive
  std::size_t item_ = 0;
  Shape row_;  // shape of one row of the current item, if it has rows
  std::vector<Extent> extents_;
  Places places_;
};

}  // namespace

std::vector<HostItem> check_items(const Call& call, const ReplicaLayout& layout, int rank,
                                  std::span<const Item> items) {
  return Checker(call, layout, rank).check(items);
}

}  // namespace lockstep::detail
