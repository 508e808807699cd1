// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/call/check_items.hpp"

#include "base/check.hpp"
#include "base/phrases.hpp"
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
  TensorName name;
  bool is_output;
};

class Checker {
 public:
  Checker(const Call& call, const ReplicaLayout& layout, int rank, std::size_t items)
      : call_(call),
        kind_(call.traits()),
        layout_(layout),
        rank_(rank),
        words_(call.kind, items),
        places_(call.kind, items) {}

  std::vector<HostItem> check(std::span<const Item> items) {
    if (kind_.is_message()) check_peer();
    if (call_.root >= layout_.ranks() || (kind_.has_root() && call_.root < 0)) {
      refuse("root is {}, but the ranks are 0 to {}", call_.root, layout_.ranks() - 1);
    }
    if (kind_.reduces() && static_cast<int>(call_.op) >= reduce_op_count) {
      refuse("op is ReduceOp({}), which does not exist; the values are 0 to {}", static_cast<int>(call_.op),
             reduce_op_count - 1);
    }
    read_rows(items.size());
    std::vector<HostItem> checked;
    checked.reserve(items.size());
    for (item_ = 0; item_ < items.size(); ++item_) checked.push_back(check_item(items[item_]));
    places_.finish();
    check_overlaps(checked);
    return checked;
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    throw_error(Code::invalid_argument, "{}: {}", kind_.name, fmt::format(text, std::forward<Args>(args)...));
  }
  /// Refuses the current item.
  template <class... Args>
  [[noreturn]] void refuse_item(fmt::format_string<Args...> text, Args&&... args) const {
    refuse("{}{}", words_.prefix(item_), fmt::format(text, std::forward<Args>(args)...));
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
      rows_.emplace(argument("rows"), "replica", call_.rows, replicas, items);
      return;
    }
    const std::string each =
        fmt::format("pair of a replica of this rank ({}) and any replica ({})", local_replicas(), replicas);
    rows_.emplace(argument("send_rows"), each, call_.rows, local_replicas() * replicas, items);
    receive_rows_.emplace(argument("receive_rows"), each, call_.receive_rows, local_replicas() * replicas, items);
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
      refuse_item("{}", refusal(call_.op, result.dtype));
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
    if (result.shape.rank() == 0)
      refuse_item("the tensor is a scalar, which has no rows; pass shapes of rank 1 or more");
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
        refuse_item(
            "replica {0} sends {1} to replica {2} by its send_rows, but replica {2} receives {3} from it by its "
            "receive_rows",
            first_replica() + i, counted(count, "row"), first_replica() + j, expected);
      }
    }
  }

  /// Number of elements in one of the R parts of a tensor.
  [[nodiscard]] std::int64_t part_count(const HostItem& result) const {
    const std::int64_t replicas = layout_.replicas();
    if (result.shape.rank() == 0 || result.shape[0] % replicas != 0) {
      refuse_item("the input has shape {}; the size of its first axis must be a multiple of the number of replicas, {}",
                  to_string(result.shape), replicas);
    }
    return result.count() / replicas;
  }

  [[nodiscard]] std::size_t first_replica() const { return static_cast<std::size_t>(layout_.first(rank_)); }
  [[nodiscard]] int replica_of(std::size_t index) const { return static_cast<int>(first_replica() + index); }

  void check_numbers(const Item& item) const {
    if (kind_.is_message()) return;
    const std::size_t local = local_replicas();
    const auto owner = [this] { return words_.owner(item_); };
    if (kind_.inputs == Place::root) {
      if (item.inputs.size() != (is_root() ? 1 : 0)) {
        refuse(
            "{} has {} on rank {}, which is {}the root (root is {}); only the root passes an input, and it passes one",
            owner(), counted(item.inputs.size(), "input"), rank_, is_root() ? "" : "not ", call_.root);
      }
    } else if (item.inputs.size() != local) {
      refuse("{} has {}, but rank {} has {}; pass one input for each replica", owner(),
             counted(item.inputs.size(), "input"), rank_, counted(local, "replica"));
    }
    if (kind_.pattern == Pattern::broadcast && !is_root() && item.outputs.empty())
      refuse("{} has no output on rank {}; every rank but the root, rank {}, passes at least one", owner(), rank_,
             call_.root);
    if (kind_.has_own_outputs() && item.outputs.size() != local) {
      refuse("{} has {}, but rank {} has {}; pass one output for each replica", owner(),
             counted(item.outputs.size(), "output"), rank_, counted(local, "replica"));
    }
    if (kind_.outputs == Place::root && !is_root() && !item.outputs.empty()) {
      refuse("{} has {} on rank {}; only the root, rank {}, gets the result", owner(),
             counted(item.outputs.size(), "output"), rank_, call_.root);
    }
  }

  void check_input(const ConstTensorView& view, std::size_t index, HostItem& result) {
    if (kind_.scatters()) {
      check_whole(view, result);
    } else if (kind_.has_rows()) {
      const std::size_t replica = first_replica() + index;
      const std::int64_t rows = kind_.gathers() ? result.result_parts[replica + 1] - result.result_parts[replica]
                                                : result.input_parts[index].back();
      check_rows(view, {"input", index, item_}, rows, result);
    } else if (view.dtype != result.dtype || view.shape != result.shape) {
      refuse_item(
          "the input is {} {} on replica {} but {} {} on replica {}; all replicas must have one dtype and shape",
          to_string(view.dtype), to_string(view.shape), first_replica() + index, to_string(result.dtype),
          to_string(result.shape), first_replica());
    }
    places_.add(view, kind_.inputs == Place::replicas ? replica_of(index) : -1, {"input", index, item_});
    if (view.device.kind == DeviceKind::gpu) result.input_places.push_back({view.device, view.byte_count()});
    add_extent(view, {"input", index, item_}, false);
    result.inputs.push_back(view.data);
  }

  /// Checks the input of the root of a scatter.
  void check_whole(const ConstTensorView& view, const HostItem& result) const {
    const std::int64_t count = result.input_parts[0].back() * result.row_elements;
    if (view.dtype == result.dtype && view.element_count() == count) return;
    refuse_item(
        "the input is {} {} on the root, rank {}; it must have {} of {}, those of the outputs of all replicas ({})",
        to_string(view.dtype), to_string(view.shape), call_.root, counted(count, "element"), to_string(result.dtype),
        layout_.replicas());
  }

  /// Checks a view that must have `rows` rows.
  void check_rows(const ConstTensorView& view, const TensorName& name, std::int64_t rows,
                  const HostItem& result) const {
    const Shape expected = with_rows(rows, row_);
    if (view.dtype == result.dtype && view.shape == expected) return;
    const std::string_view argument = !kind_.is_all_to_all() ? "rows"
                                      : name.role == "input" ? "send_rows"
                                                             : "receive_rows";
    const bool is_row_equal = view.dtype == result.dtype && view.shape.rank() != 0 && row_shape(view.shape) == row_;
    const std::string other_rule =
        is_row_equal ? ""
                     : fmt::format("; the dtype and the shape of a row must be those of the {} of replica {}",
                                   kind_.scatters() ? "output" : "input", first_replica());
    refuse_item("the {} is {} {} on replica {}, but must be {} {}, because the argument {} gives it {}{}", name.role,
                to_string(view.dtype), to_string(view.shape), first_replica() + name.index, to_string(result.dtype),
                to_string(expected), argument, counted(rows, "row"), other_rule);
  }

  void check_output(const TensorView& view, std::size_t index, HostItem& result) {
    const DType dtype = kind_.reduces() ? result_dtype(call_.op, result.dtype) : result.dtype;
    if (view.dtype != dtype) {
      refuse("{} is {}, but the {} of {} is {}; pass an output of {}", words_.name({"output", index, item_}),
             to_string(view.dtype), kind_.reduces() ? to_string(call_.op) : kind_.name, to_string(result.dtype),
             to_string(dtype), to_string(dtype));
    }
    check_output_shape(view, index, result);
    places_.add(view, kind_.has_own_outputs() ? replica_of(index) : -1, {"output", index, item_});
    if (view.device.kind == DeviceKind::gpu) result.output_places.push_back({view.device, view.byte_count()});
    add_extent(view, {"output", index, item_}, true);
    result.outputs.push_back(view.data);
  }

  void check_output_shape(const TensorView& view, std::size_t index, const HostItem& result) const {
    if (kind_.has_rows() && !kind_.gathers()) {
      check_rows(view, {"output", index, item_}, result.output_parts[index].back(), result);
      return;
    }
    const std::int64_t replicas = layout_.replicas();
    const auto name = [&] { return words_.name({"output", index, item_}); };
    std::int64_t count = result.count();
    if (kind_.gathers()) {
      count = result.part_begin(layout_.replicas());
    } else if (kind_.reduces() && kind_.has_own_outputs()) {
      count = part_count(result);
    } else if (!kind_.is_all_to_all() && view.shape != result.shape) {
      refuse("{} has shape {}, but {} {}", name(), to_string(view.shape),
             kind_.scatters() ? "the first one has" : "the inputs have", to_string(result.shape));
    }
    if (kind_.has_rows() && view.element_count() != count) {
      refuse("{} has {}, but the inputs of all replicas ({}) have {} in total (shape {})", name(),
             counted(view.element_count(), "element"), replicas, count, to_string(result.shape));
    }
    if (view.element_count() != count) {
      refuse("{} has {}, but must have {} for inputs of shape {} from {}", name(),
             counted(view.element_count(), "element"), count, to_string(result.shape), counted(replicas, "replica"));
    }
  }

  void add_extent(const ConstTensorView& view, const TensorName& name, bool is_output) {
    if (view.element_count() == 0) return;
    if (view.data == nullptr) {
      refuse("{} has {}, but its address is null", words_.name(name), counted(view.element_count(), "element"));
    }
    const auto* const begin = static_cast<const std::byte*>(view.data);
    extents_.push_back({begin, begin + view.byte_count(), name, is_output});
  }

  /// An output may be the same view as an input of its item, or as another output of its item with the same content. An
  /// input or output of a replica may be its part of a larger tensor of the item; see is_own_part. Any other overlap
  /// with an output is an error.
  void check_overlaps(std::span<const HostItem> items) {
    std::sort(extents_.begin(), extents_.end(), [](const Extent& a, const Extent& b) {
      // at equal addresses, outputs precede inputs, so that each input is compared with the output that ends last
      return std::tuple(a.begin, !a.is_output, a.end, a.name.item) <
             std::tuple(b.begin, !b.is_output, b.end, b.name.item);
    });
    const Extent* furthest = nullptr;         // of all extents so far, the one that ends last
    const Extent* furthest_output = nullptr;  // of all outputs so far, the one that ends last
    for (const Extent& extent : extents_) {
      const HostItem& item = items[extent.name.item];
      if (extent.is_output) require_apart(furthest, extent, item);
      require_apart(furthest_output, extent, item);
      if (furthest == nullptr || extent.end > furthest->end) furthest = &extent;
      if (extent.is_output && (furthest_output == nullptr || extent.end > furthest_output->end))
        furthest_output = &extent;
    }
  }

  /// `item` is the item of `later`.
  void require_apart(const Extent* earlier, const Extent& later, const HostItem& item) const {
    if (earlier == nullptr || earlier->end <= later.begin) return;
    const bool is_same_view =
        earlier->begin == later.begin && earlier->end == later.end && earlier->name.item == later.name.item;
    if (is_same_view && !(earlier->is_output && later.is_output && kind_.has_own_outputs())) return;
    if (is_own_part(*earlier, later, item)) return;
    refuse("{} overlaps {} by {}; {}", words_.name(later.name), words_.name(earlier->name),
           counted(std::min(earlier->end, later.end) - later.begin, "byte"), overlap_rule());
  }

  /// Whether one of the two views is the part of its replica in the other one, in host memory. The output of a
  /// reduce_scatter may also be at the beginning of the input, where MPI_IN_PLACE has it.
  [[nodiscard]] bool is_own_part(const Extent& earlier, const Extent& later, const HostItem& item) const {
    if (!kind_.has_own_parts() || earlier.is_output == later.is_output || earlier.name.item != later.name.item ||
        item.is_on_gpus()) {
      return false;
    }
    const Extent& part = later.is_output == kind_.gathers() ? earlier : later;
    const Extent& whole = later.is_output == kind_.gathers() ? later : earlier;
    if (kind_.reduces() && part.name.index != whole.name.index) return false;
    const std::int64_t begin = item.part_of(kind_, replica_of(part.name.index), layout_.replicas()).begin;
    const auto offset = static_cast<std::size_t>(part.begin - whole.begin);
    if (kind_.reduces() && result_dtype(call_.op, item.dtype) != item.dtype) return false;
    return offset == static_cast<std::size_t>(begin) * size_of(item.dtype) || (kind_.reduces() && offset == 0);
  }

  [[nodiscard]] std::string overlap_rule() const {
    if (kind_.is_message()) return "the tensors of a recv must not overlap";
    const std::string_view of_item = words_.of_its_item();
    if (kind_.gathers()) {
      return fmt::format(
          "an input in host memory may be its replica's part of an output{}, but must not overlap it otherwise",
          of_item);
    }
    if (kind_.has_own_parts()) {
      return fmt::format(
          "an output in host memory may be its replica's part of the input{}, but must not overlap it otherwise",
          of_item);
    }
    return fmt::format("an output may have exactly the memory of an input{}, but must not overlap it otherwise",
                       of_item);
  }

  const Call& call_;
  const Traits& kind_;
  const ReplicaLayout& layout_;
  const int rank_;
  const CallWords words_;
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
  return Checker(call, layout, rank, items.size()).check(items);
}

}  // namespace lockstep::detail
