// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cross_device/elements.hpp"

#include "base/check.hpp"
#include "core/visit_dtype.hpp"
#include "device/cuda/backend.hpp"
#include "device/cuda/streams.hpp"
#include "device/host/host_elements.hpp"
#include "kernels/reduce.hpp"

#include <lockstep/device/gpu.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>

namespace lockstep {
namespace {

template <class T>
Tensor round_to(const Tensor& value) {
  Tensor result = Tensor::uninitialized(dtype_of<T>, value.shape());
  const auto from = value.elements<float>();
  const auto to = result.elements<T>();
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = T(from[i]);
  return result;
}

/// Number of binary digits of the numbers that elements of T hold without gaps.
template <class T>
constexpr int digits = std::numeric_limits<T>::digits;
template <>
constexpr int digits<Float16> = 11;
template <>
constexpr int digits<BFloat16> = 8;

template <class T>
constexpr bool is_float = !std::is_integral_v<T>;

/// Whether a To holds every value of a From. Of the 16-bit floats, only for the same type.
template <class To, class From>
constexpr bool holds_all =
    std::same_as<To, From> ||
    (std::is_arithmetic_v<To> && !std::same_as<To, bool> && !std::same_as<From, bool> && digits<From> <= digits<To> &&
     (is_float<To> || (std::is_integral_v<From> && (std::is_signed_v<To> || std::is_unsigned_v<From>))));

template <class To, class From>
To widened(From value) {
  if constexpr (std::is_arithmetic_v<From> || std::same_as<To, From>) {
    return static_cast<To>(value);
  } else {
    return static_cast<To>(static_cast<float>(value));
  }
}

/// Replaces NaN by the canonical NaN, because the sign of 0 / 0 depends on the processor.
template <class T>
T canonical(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

}  // namespace

Tensor divided(ConstTensorView sum, int replicas) {
  Tensor result = Tensor::uninitialized(result_dtype(ReduceOp::mean, sum.dtype), sum.shape, nullptr, sum.device);
  const std::int64_t count = sum.element_count();
  if (count == 0) return result;
  const detail::FoldInput input{sum.data, false};
  constexpr std::uint8_t merges[]{0};
  void* const output = result.data();
  const detail::Fold fold{.op = ReduceOp::mean,
                          .dtype = sum.dtype,
                          .inputs = std::span(&input, 1),
                          .merges = merges,
                          .outputs = std::span(&output, 1),
                          .replicas = replicas};
  if (detail::is_on_host(sum.device)) {
    detail::reduce(fold, count);
  } else {
    const detail::cuda::CurrentDevice current(sum.device.index);
    detail::cuda::Backend& backend = detail::cuda::Backend::of_this_process();
    detail::cuda::check(backend.api(), backend.kernels().reduce(fold, count, detail::cuda::stream_of(sum.device)),
                        "mean of sparse rows: the kernel");
  }
  return result;
}

void divide_elements(TensorView view, std::int64_t count) {
  LOCKSTEP_CHECK(is_floating_point(view.dtype));
  detail::HostEdit edit(view);
  detail::visit_dtype(view.dtype, [&]<class T>() {
    if constexpr (!std::is_integral_v<T>) {
      using Sum = detail::sum_t<T>;
      const auto divisor = static_cast<Sum>(count);
      for (T& element : std::span(static_cast<T*>(edit.view().data), static_cast<std::size_t>(view.element_count())))
        element = static_cast<T>(canonical(static_cast<Sum>(element) / divisor));
    }
  });
  edit.finish();
}

bool holds(DType to, DType from) {
  return detail::visit_dtype(
      to, [from]<class To>() { return detail::visit_dtype(from, []<class From>() { return holds_all<To, From>; }); });
}

Tensor converted_to(ConstTensorView view, DType dtype) {
  LOCKSTEP_CHECK(holds(dtype, view.dtype));
  const detail::HostElements elements(view);
  Tensor converted = Tensor::uninitialized(dtype, view.shape);
  detail::visit_dtype(view.dtype, [&]<class From>() {
    const std::span<const From> from = elements.elements<From>();
    detail::visit_dtype(dtype, [&]<class To>() {
      if constexpr (holds_all<To, From>) {
        std::transform(from.begin(), from.end(), converted.elements<To>().begin(), widened<To, From>);
      }
    });
  });
  if (detail::is_on_host(view.device)) return converted;
  Tensor result = Tensor::uninitialized(dtype, view.shape, nullptr, view.device);
  copy(result.view(), converted.view());
  return result;
}

Tensor rounded_to(const Tensor& value, DType dtype) {
  if (value.dtype() == dtype) return value;
  return dtype == DType::f16 ? round_to<Float16>(value) : round_to<BFloat16>(value);
}

}  // namespace lockstep
