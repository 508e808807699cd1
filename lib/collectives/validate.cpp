// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/validate.hpp"

#include "base/check.hpp"
#include "core/refusal.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>

namespace lockstep::detail {
namespace {

/// Bytes [begin, end) that one view of the call covers.
struct Extent {
  const std::byte* begin;
  const std::byte* end;
  std::size_t item;
  bool is_output;
};

class Checker {
 public:
  Checker(const Call& call, const ReplicaLayout& layout) : call_(call), layout_(layout) {}

  std::vector<HostItem> check(std::span<const Item> items) {
    if (call_.root >= layout_.ranks() || (needs_root() && call_.root < 0)) {
      refuse("root is {}, but the ranks are 0 to {}", call_.root, layout_.ranks() - 1);
    }
    std::vector<HostItem> checked;
    checked.reserve(items.size());
    for (item_ = 0; item_ < items.size(); ++item_) checked.push_back(check_item(items[item_]));
    check_overlaps();
    return checked;
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    throw_error(Code::invalid_argument, "{}: {}", to_string(call_.kind),
                fmt::format(text, std::forward<Args>(args)...));
  }

  [[nodiscard]] bool needs_root() const {
    return call_.kind == OperationKind::reduce || call_.kind == OperationKind::gather ||
           call_.kind == OperationKind::broadcast;
  }
  [[nodiscard]] bool is_root() const { return call_.rank == call_.root; }
  [[nodiscard]] bool is_reduction() const {
    return call_.kind == OperationKind::all_reduce || call_.kind == OperationKind::reduce ||
           call_.kind == OperationKind::reduce_scatter;
  }

  HostItem check_item(const Item& item) {
    check_numbers(item);
    HostItem result;
    const ConstTensorView first = item.inputs.empty() ? ConstTensorView(item.outputs.front()) : item.inputs.front();
    result.dtype = first.dtype;
    result.shape = first.shape;
    if (is_reduction() && !supports(call_.op, result.dtype)) {
      refuse("item {}: {}", item_, refusal(call_.op, result.dtype));
    }
    for (std::size_t i = 0; i < item.inputs.size(); ++i) check_input(item.inputs[i], i, result);
    for (std::size_t i = 0; i < item.outputs.size(); ++i) check_output(item.outputs[i], i, result);
    return result;
  }

  void check_numbers(const Item& item) const {
    const auto local = static_cast<std::size_t>(layout_.count(call_.rank));
    if (call_.kind == OperationKind::broadcast) {
      const std::size_t inputs = is_root() ? 1 : 0;
      if (item.inputs.size() != inputs) {
        refuse("item {} has {} inputs; rank {} gives {} (only root {} gives one)", item_, item.inputs.size(),
               call_.rank, inputs, call_.root);
      }
      if (!is_root() && item.outputs.empty())
        refuse("item {} has no output on rank {}, which is not the root", item_, call_.rank);
      return;
    }
    if (item.inputs.size() != local) {
      refuse("item {} has {} inputs, but rank {} has {} replicas; each replica gives one", item_, item.inputs.size(),
             call_.rank, local);
    }
    if (call_.kind == OperationKind::reduce_scatter && item.outputs.size() != local) {
      refuse("item {} has {} outputs, but rank {} has {} replicas; each replica gets one", item_, item.outputs.size(),
             call_.rank, local);
    }
    if (needs_root() && !is_root() && !item.outputs.empty()) {
      refuse("item {} has {} outputs on rank {}; only root {} gets the result", item_, item.outputs.size(), call_.rank,
             call_.root);
    }
  }

  void check_input(const ConstTensorView& view, std::size_t index, HostItem& result) {
    const int replica = layout_.first(call_.rank) + static_cast<int>(index);
    if (view.dtype != result.dtype || view.shape != result.shape) {
      refuse("item {} is {} {} on replica {} but {} {} on replica {}; all replicas give one dtype and shape", item_,
             to_string(view.dtype), to_string(view.shape), replica, to_string(result.dtype), to_string(result.shape),
             layout_.first(call_.rank));
    }
    add_extent(view, false);
    result.inputs.push_back(view.data);
  }

  void check_output(const TensorView& view, std::size_t index, HostItem& result) {
    const DType dtype = is_reduction() ? result_dtype(call_.op, result.dtype) : result.dtype;
    if (view.dtype != dtype) {
      refuse("output {} of item {} is {}; {} of {} gives {}", index, item_, to_string(view.dtype),
             is_reduction() ? to_string(call_.op) : to_string(call_.kind), to_string(result.dtype), to_string(dtype));
    }
    check_output_shape(view, index, result);
    add_extent(view, true);
    result.outputs.push_back(view.data);
  }

  void check_output_shape(const TensorView& view, std::size_t index, const HostItem& result) const {
    const std::int64_t replicas = layout_.replicas();
    std::int64_t count = result.count();
    if (call_.kind == OperationKind::all_gather || call_.kind == OperationKind::gather) {
      count *= replicas;
    } else if (call_.kind == OperationKind::reduce_scatter) {
      if (result.shape.rank() == 0 || result.shape[0] % replicas != 0) {
        refuse("item {} has shape {}; its first extent must be divisible by the {} replicas", item_,
               to_string(result.shape), replicas);
      }
      count /= replicas;
    } else if (view.shape != result.shape) {
      refuse("output {} of item {} has shape {}, but the inputs have {}", index, item_, to_string(view.shape),
             to_string(result.shape));
    }
    if (view.element_count() != count) {
      refuse("output {} of item {} has {} elements; inputs of shape {} from {} replicas make {}", index, item_,
             view.element_count(), to_string(result.shape), replicas, count);
    }
  }

  void add_extent(const ConstTensorView& view, bool is_output) {
    if (view.device.kind != DeviceKind::cpu)
      refuse("item {} lies on {}; this communicator moves host memory", item_, to_string(view.device));
    if (view.element_count() == 0) return;
    if (view.data == nullptr) refuse("item {} has {} elements at a null address", item_, view.element_count());
    const auto* const begin = static_cast<const std::byte*>(view.data);
    extents_.push_back({begin, begin + view.byte_count(), item_, is_output});
  }

  /// An output may be the very view of an input or output of its item; any other overlap with an output is wrong.
  void check_overlaps() {
    std::sort(extents_.begin(), extents_.end(), [](const Extent& a, const Extent& b) {
      // outputs first among those that begin together, so that every input there meets the furthest of them
      return std::tuple(a.begin, !a.is_output, a.end, a.item) < std::tuple(b.begin, !b.is_output, b.end, b.item);
    });
    const Extent* furthest = nullptr;         // of all extents so far, the one that ends last
    const Extent* furthest_output = nullptr;  // of all outputs so far
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
    if (earlier->begin == later.begin && earlier->end == later.end && earlier->item == later.item) return;
    refuse(
        "{} of item {} overlaps {} of item {} by {} bytes; an output may be the same view as an input of its item, but "
        "not overlap another",
        later.is_output ? "an output" : "an input", later.item, earlier->is_output ? "an output" : "an input",
        earlier->item, std::min(earlier->end, later.end) - later.begin);
  }

  const Call& call_;
  const ReplicaLayout& layout_;
  std::size_t item_ = 0;
  std::vector<Extent> extents_;
};

}  // namespace

std::vector<HostItem> check_items(const Call& call, const ReplicaLayout& layout, std::span<const Item> items) {
  return Checker(call, layout).check(items);
}

}  // namespace lockstep::detail
