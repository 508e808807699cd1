// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "variables/elementwise.hpp"

#include "base/check.hpp"
#include "core/visit_dtype.hpp"
#include "device/elementwise.hpp"
#include "device/host/host_elements.hpp"

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lockstep::detail {
namespace {

void refuse_bool(DType dtype) {
  if (dtype != DType::boolean) return;
  throw_error(Code::invalid_argument, "assign_add, assign_sub: bool values cannot be added or subtracted; use assign");
}

/// The share of replica `replica`: total / replicas, truncated towards zero. The first |remainder| replicas get 1 more
/// (1 less if the remainder is negative), so that all shares add up to `total`.
template <class T>
T integer_share(T total, int replica, int replicas) {
  // i64 holds every signed type, and u64 every unsigned type
  using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  const Wide wide = total;
  const Wide quotient = wide / static_cast<Wide>(replicas);
  const Wide remainder = wide % static_cast<Wide>(replicas);
  const auto id = static_cast<Wide>(replica);
  if constexpr (std::is_signed_v<T>) {
    if (remainder < 0) return static_cast<T>(quotient - (id < -remainder ? 1 : 0));
  }
  return static_cast<T>(quotient + (id < remainder ? 1 : 0));
}

}  // namespace

void add_to(TensorView target, ConstTensorView value) {
  refuse_bool(target.dtype);
  combine_in_place(ElementOp::add, target, value);
}

void subtract_from(TensorView target, ConstTensorView value) {
  refuse_bool(target.dtype);
  combine_in_place(ElementOp::sub, target, value);
}

void write_share(TensorView target, ConstTensorView total, int replica, int replicas) {
  HostEdit edit(target);
  const HostElements elements(total);
  visit_dtype(target.dtype, [&]<class T>() {
    if constexpr (std::same_as<T, bool>) {
      throw_error(Code::invalid_argument, "assign: bool values cannot be divided among replicas as shares of a sum");
    } else {
      using Sum = sum_t<T>;
      T* const to = static_cast<T*>(edit.view().data);
      const T* const from = static_cast<const T*>(elements.view().data);
      const std::int64_t count = target.element_count();
      for (std::int64_t i = 0; i < count; ++i) {
        if constexpr (std::integral<T>) {
          to[i] = integer_share(from[i], replica, replicas);
        } else {
          to[i] = static_cast<T>(static_cast<Sum>(from[i]) / static_cast<Sum>(replicas));
        }
      }
    }
  });
  edit.finish();
}

}  // namespace lockstep::detail
