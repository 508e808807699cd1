// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint/shares.hpp"

#include "core/visit_dtype.hpp"
#include "device/host/host_elements.hpp"
#include "variables/elementwise.hpp"

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>

namespace lockstep::detail {
namespace {

/// The canonical sum of `count` equal values: the largest power of two below it is the left half.
template <class Sum>
Sum sum_of_equal(Sum value, unsigned count) {
  if (count == 1) return value;
  const unsigned left = std::bit_ceil(count) / 2;
  return value * static_cast<Sum>(left) + sum_of_equal(value, count - left);
}

}  // namespace

void write_exact_share(TensorView target, ConstTensorView total, int replica, int replicas) {
  HostEdit edit(target);
  write_share(edit.view(), total, replica, replicas);
  visit_dtype(target.dtype, [&]<class T>() {
    if constexpr (!std::integral<T>) {
      using Sum = sum_t<T>;
      T* const to = static_cast<T*>(edit.view().data);
      const T* const from = static_cast<const T*>(total.data);
      for (std::int64_t i = 0; i < target.element_count(); ++i) {
        const auto wanted = static_cast<Sum>(from[i]);
        const auto share = static_cast<Sum>(static_cast<T>(wanted / static_cast<Sum>(replicas)));
        const auto sum = static_cast<Sum>(static_cast<T>(sum_of_equal(share, static_cast<unsigned>(replicas))));
        if (sum == wanted || std::isnan(wanted)) continue;
        to[i] = replica == 0 ? from[i] : T{};
      }
    }
  });
  edit.finish();
}

}  // namespace lockstep::detail
