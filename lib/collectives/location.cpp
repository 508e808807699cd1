// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/collectives/location.hpp>

#include <lockstep/collectives/detail/propagate.hpp>
#include <lockstep/collectives/item.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>

#include "base/check.hpp"
#include "core/visit_dtype.hpp"
#include "kernels/reduce.hpp"
#include "schedule/canonical_tree.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lockstep {
namespace {

using detail::throw_error;

/// Values and indices of all ranks up to which they are gathered: the time of one call is then that of its latency.
constexpr std::size_t most_gathered_bytes = 4096;

bool is_index(DType dtype) {
  switch (dtype) {
    case DType::i32:
    case DType::i64:
    case DType::u32:
    case DType::u64:
    case DType::f32:
    case DType::f64: return true;
    default: return false;
  }
}

/// Calls `fn.template operator()<T>()` for the C++ type of an index.
template <class Fn>
void visit_index(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::i32: return fn.template operator()<std::int32_t>();
    case DType::i64: return fn.template operator()<std::int64_t>();
    case DType::u32: return fn.template operator()<std::uint32_t>();
    case DType::u64: return fn.template operator()<std::uint64_t>();
    case DType::f32: return fn.template operator()<float>();
    default: return fn.template operator()<double>();
  }
}

/// The arguments as one-dimensional views.
struct Operands {
  std::string_view call;
  ReduceOp op;
  TensorView values;
  TensorView indices;

  Operands(std::string_view name, ReduceOp extreme, const TensorView& all_values, const TensorView& all_indices)
      : call(name), op(extreme), values(all_values), indices(all_indices) {
    values.shape = Shape{all_values.element_count()};
    indices.shape = Shape{all_indices.element_count()};
  }
  [[nodiscard]] std::int64_t count() const { return values.element_count(); }
  [[nodiscard]] std::size_t bytes() const { return values.byte_count() + indices.byte_count(); }
};

/// What all ranks find alike.
void check_layout(const ReplicaLayout& layout, std::string_view call) {
  if (layout.replicas() == layout.ranks()) return;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    if (layout.count(rank) == 1) continue;
    throw_error(Code::invalid_argument, "{}: rank {} has {} replicas; the call requires one replica per rank", call,
                rank, layout.count(rank));
  }
}

void check(const Operands& what) {
  if (what.values.element_count() != what.indices.element_count()) {
    throw_error(Code::invalid_argument, "{}: there are {} values, but {} indices; there must be one index per value",
                what.call, what.values.element_count(), what.indices.element_count());
  }
  if (!is_index(what.indices.dtype)) {
    throw_error(Code::invalid_argument, "{}: the indices are {}; they must be i32, i64, u32, u64, f32 or f64",
                what.call, to_string(what.indices.dtype));
  }
  for (const TensorView* const view : {&what.values, &what.indices}) {
    if (view->device.kind == DeviceKind::cpu) continue;
    throw_error(Code::invalid_argument, "{}: the {} are on {}; they must be in host memory", what.call,
                view == &what.values ? "values" : "indices", to_string(view->device));
  }
}

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else {
    return !(value == value);
  }
}

/// Replaces the index of every value that is not the extreme one by the highest index, which is not below any other.
void exclude(const Operands& what, const void* values, const void* extremes, void* indices) {
  detail::visit_dtype(what.values.dtype, [&]<class Value>() {
    visit_index(what.indices.dtype, [&]<class Index>() {
      using Limits = std::numeric_limits<Index>;
      const Index highest = Limits::has_infinity ? Limits::infinity() : Limits::max();
      const auto* const value = static_cast<const Value*>(values);
      const auto* const extreme = static_cast<const Value*>(extremes);
      auto* const index = static_cast<Index*>(indices);
      for (std::int64_t i = 0; i < what.count(); ++i) {
        const bool is_extreme = value[i] == extreme[i] || (is_nan(value[i]) && is_nan(extreme[i]));
        if (!is_extreme) index[i] = highest;
      }
    });
  });
}

/// Reduces the rows of all ranks, which follow one another from `rows` on, to `output`.
void reduce_rows(ReduceOp op, int ranks, const std::byte* rows, const TensorView& output) {
  std::vector<detail::FoldInput> inputs;
  for (int rank = 0; rank < ranks; ++rank)
    inputs.push_back({rows + static_cast<std::size_t>(rank) * output.byte_count(), false});
  const auto merges = detail::fold_merges_of_leaves({0, ranks});
  void* const outputs[] = {output.data};
  detail::reduce({op, output.dtype, inputs, merges, outputs, detail::FoldResult::finished, ranks},
                 output.element_count());
}

void gather(const Communicator& communicator, const Operands& what, const ReduceOptions& how) {
  alignas(16) std::array<std::byte, most_gathered_bytes> gathered;
  const int ranks = communicator.size();
  const Shape all{ranks * what.count()};
  // the indices come first if they are longer, so that both are aligned
  const bool has_long_indices = size_of(what.indices.dtype) > size_of(what.values.dtype);
  const std::size_t first =
      static_cast<std::size_t>(ranks) * (has_long_indices ? what.indices.byte_count() : what.values.byte_count());
  std::byte* const values = gathered.data() + (has_long_indices ? first : 0);
  std::byte* const indices = gathered.data() + (has_long_indices ? 0 : first);
  const std::array<ConstTensorView, 2> inputs{what.values, what.indices};
  const std::array<TensorView, 2> outputs{TensorView{values, what.values.dtype, all, {}},
                                          TensorView{indices, what.indices.dtype, all, {}}};
  const std::array<Item, 2> items{Item{{&inputs[0], 1}, {&outputs[0], 1}}, Item{{&inputs[1], 1}, {&outputs[1], 1}}};
  communicator.all_gather(items, how);
  if (what.count() == 0) return;
  reduce_rows(what.op, ranks, values, what.values);
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    exclude(what, values + rank * what.values.byte_count(), what.values.data,
            indices + rank * what.indices.byte_count());
  }
  reduce_rows(ReduceOp::min, ranks, indices, what.indices);
}

void reduce_twice(const Communicator& communicator, const Operands& what, const ReduceOptions& how) {
  Tensor extremes(what.values.dtype, what.values.shape);
  communicator.all_reduce(what.values, extremes.view(), what.op, how);
  Tensor candidates(what.indices.dtype, what.indices.shape);
  std::memcpy(candidates.view().data, what.indices.data, what.indices.byte_count());
  exclude(what, what.values.data, extremes.view().data, candidates.view().data);
  communicator.all_reduce(candidates.view(), what.indices, ReduceOp::min, how);
  std::memcpy(what.values.data, extremes.view().data, what.values.byte_count());
}

void locate(const Communicator& communicator, const Operands& what, const ReduceOptions& options) {
  detail::propagate(communicator, [&] { check_layout(communicator.layout(), what.call); }, detail::FoundBy::all_ranks);
  detail::propagate(communicator, [&] { check(what); });
  // the name is compared between the ranks, and so tells a minimum from a maximum
  const std::string name =
      options.name.empty() ? std::string(what.call) : fmt::format("{} ({})", options.name, what.call);
  ReduceOptions how = options;
  how.order.reset();
  how.name = name;
  if (static_cast<std::size_t>(communicator.size()) * what.bytes() <= most_gathered_bytes) {
    gather(communicator, what, how);
  } else {
    reduce_twice(communicator, what, how);
  }
}

}  // namespace

void minloc(const Communicator& communicator, Elements values, Elements indices, const ReduceOptions& options) {
  locate(communicator, {"minloc", ReduceOp::min, values.view(), indices.view()}, options);
}

void maxloc(const Communicator& communicator, Elements values, Elements indices, const ReduceOptions& options) {
  locate(communicator, {"maxloc", ReduceOp::max, values.view(), indices.view()}, options);
}

}  // namespace lockstep
