// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/collectives/location.hpp>

#include <lockstep/collectives/detail/propagate.hpp>
#include <lockstep/collectives/item.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>

#include "base/check.hpp"
#include "collectives/internal_call.hpp"
#include "core/visit_dtype.hpp"
#include "kernels/arithmetic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace lockstep {
namespace {

using detail::throw_error;

/// Bytes of the values and indices of all ranks up to which they are gathered; then two reductions take less time
/// (measured on 2 and 4 ranks of a node).
constexpr std::size_t most_gathered_bytes = 2048;

/// Calls `fn.template operator()<T>()` for the C++ type of an index; returns false for any other dtype.
template <class Fn>
bool visit_index(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::i32: fn.template operator()<std::int32_t>(); return true;
    case DType::i64: fn.template operator()<std::int64_t>(); return true;
    case DType::u32: fn.template operator()<std::uint32_t>(); return true;
    case DType::u64: fn.template operator()<std::uint64_t>(); return true;
    case DType::f32: fn.template operator()<float>(); return true;
    case DType::f64: fn.template operator()<double>(); return true;
    default: return false;
  }
}

/// The arguments as one-dimensional views.
struct Operands {
  std::string_view call;  ///< for error texts
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

void check(const Operands& what) {
  if (what.values.element_count() != what.indices.element_count()) {
    throw_error(Code::invalid_argument, "{}: the numbers of values ({}) and of indices ({}) differ", what.call,
                what.values.element_count(), what.indices.element_count());
  }
  if (!visit_index(what.indices.dtype, []<class>() {})) {
    throw_error(Code::invalid_argument, "{}: the indices are {}; they must be i32, i64, u32, u64, f32 or f64",
                what.call, to_string(what.indices.dtype));
  }
  for (const TensorView* const view : {&what.values, &what.indices}) {
    const std::string_view which = view == &what.values ? "values" : "indices";
    if (view->device.kind != DeviceKind::cpu) {
      throw_error(Code::invalid_argument, "{}: the {} are on {}; they must be in host memory", what.call, which,
                  to_string(view->device));
    }
    if (view->data == nullptr && view->element_count() > 0)
      throw_error(Code::invalid_argument, "{}: the address of the {} is null", what.call, which);
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

/// Calls `fn.template operator()<Value, Index>()` for the C++ types of the operands.
template <class Fn>
void visit_types(const Operands& what, const Fn& fn) {
  detail::visit_dtype(what.values.dtype, [&]<class Value>() {
    visit_index(what.indices.dtype, [&]<class Index>() { fn.template operator()<Value, Index>(); });
  });
}

/// Replaces the index of every value that is not the extreme one by the highest index, which is not below any other.
void exclude(const Operands& what, const void* extremes, void* indices) {
  visit_types(what, [&]<class Value, class Index>() {
    using Limits = std::numeric_limits<Index>;
    const Index highest = Limits::has_infinity ? Limits::infinity() : Limits::max();
    const auto* const value = static_cast<const Value*>(what.values.data);
    const auto* const extreme = static_cast<const Value*>(extremes);
    auto* const index = static_cast<Index*>(indices);
    for (std::int64_t i = 0; i < what.count(); ++i) {
      const bool is_extreme = value[i] == extreme[i] || (is_nan(value[i]) && is_nan(extreme[i]));
      if (!is_extreme) index[i] = highest;
    }
  });
}

/// The type in which values are compared.
template <class T>
using comparable_t = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

/// Reduces one element: `values[k * stride]` and `indices[k * stride]` are those of rank k.
template <ReduceOp op, class Value, class Index>
void reduce_element(int ranks, std::int64_t stride, const Value* values, const Index* indices, Value& result,
                    Index& index) {
  using Number = comparable_t<Value>;
  auto best = detail::widen<Number>(values[0]);
  index = indices[0];
  for (int rank = 1; rank < ranks; ++rank) {
    const auto number = detail::widen<Number>(values[rank * stride]);
    const Index other = indices[rank * stride];
    if (number == best || (is_nan(number) && is_nan(best))) {
      index = std::min(index, other);
    } else if (is_nan(number) || (op == ReduceOp::min ? number < best : number > best)) {
      index = other;
    }
    best = detail::combine<op>(best, number);
  }
  result = detail::finish<Value>(best);
}

/// Reduces the rows of all ranks, which follow one another.
void reduce_rows(const Operands& what, int ranks, const std::byte* all_values, const std::byte* all_indices) {
  visit_types(what, [&]<class Value, class Index>() {
    const auto* const values = reinterpret_cast<const Value*>(all_values);
    const auto* const indices = reinterpret_cast<const Index*>(all_indices);
    auto* const results = static_cast<Value*>(what.values.data);
    auto* const result_indices = static_cast<Index*>(what.indices.data);
    const auto reduce = what.op == ReduceOp::min ? reduce_element<ReduceOp::min, Value, Index>
                                                 : reduce_element<ReduceOp::max, Value, Index>;
    const std::int64_t count = what.count();
    for (std::int64_t i = 0; i < count; ++i)
      reduce(ranks, count, values + i, indices + i, results[i], result_indices[i]);
  });
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
  reduce_rows(what, ranks, values, indices);
}

void reduce_twice(const Communicator& communicator, const Operands& what, const ReduceOptions& how) {
  auto [extremes, candidates] = detail::propagate(communicator, [&] {
    return std::pair(Tensor(what.values.dtype, what.values.shape), Tensor(what.indices.dtype, what.indices.shape));
  });
  communicator.all_reduce(what.values, extremes.view(), what.op, how);
  std::memcpy(candidates.view().data, what.indices.data, what.indices.byte_count());
  exclude(what, extremes.view().data, candidates.view().data);
  communicator.all_reduce(candidates.view(), what.indices, ReduceOp::min, how);
  std::memcpy(what.values.data, extremes.view().data, what.values.byte_count());
}

void locate(const Communicator& communicator, std::string_view call, ReduceOp op, const Elements& values,
            const Elements& indices, const ReduceOptions& options) {
  // the name is compared between the ranks, and so tells a minimum from a maximum
  fmt::memory_buffer text;
  std::string_view name = call;
  if (!options.name.empty()) {
    detail::propagate(communicator, [&] { fmt::format_to(std::back_inserter(text), "{} ({})", options.name, call); });
    name = {text.data(), text.size()};
  }
  const Operands what(name, op, values.view(), indices.view());
  detail::require_one_replica_per_rank(communicator, what.call);
  detail::propagate(communicator, [&] { check(what); });
  ReduceOptions how = options;
  how.order.reset();
  how.name = what.call;
  if (static_cast<std::size_t>(communicator.size()) * what.bytes() <= most_gathered_bytes) {
    gather(communicator, what, how);
  } else {
    reduce_twice(communicator, what, how);
  }
}

}  // namespace

void minloc(const Communicator& communicator, Elements values, Elements indices, const ReduceOptions& options) {
  locate(communicator, "minloc", ReduceOp::min, values, indices, options);
}

void maxloc(const Communicator& communicator, Elements values, Elements indices, const ReduceOptions& options) {
  locate(communicator, "maxloc", ReduceOp::max, values, indices, options);
}

}  // namespace lockstep
