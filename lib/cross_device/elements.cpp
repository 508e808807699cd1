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

#include <cmath>
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

Tensor converted_to_f64(ConstTensorView view) {
  const detail::HostElements elements(view);
  Tensor converted = Tensor::uninitialized(DType::f64, view.shape);
  const std::span<double> to = converted.elements<double>();
  detail::visit_dtype(view.dtype, [&]<class T>() {
    using Wide = std::conditional_t<std::is_arithmetic_v<T>, T, float>;
    const std::span<const T> from = elements.elements<T>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<double>(static_cast<Wide>(from[i]));
  });
  if (detail::is_on_host(view.device)) return converted;
  Tensor result = Tensor::uninitialized(DType::f64, view.shape, nullptr, view.device);
  copy(result.view(), converted.view());
  return result;
}

Tensor rounded_to(const Tensor& value, DType dtype) {
  if (value.dtype() == dtype) return value;
  return dtype == DType::f16 ? round_to<Float16>(value) : round_to<BFloat16>(value);
}

}  // namespace lockstep
