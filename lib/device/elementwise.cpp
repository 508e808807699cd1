// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/elementwise.hpp"

#include "core/visit_dtype.hpp"
#include "device/cuda/backend.hpp"
#include "device/cuda/streams.hpp"
#include "device/host/host_elements.hpp"

#include <lockstep/device/gpu.hpp>
#include <lockstep/device/tensor.hpp>

#include <algorithm>
#include <concepts>
#include <optional>
#include <span>

namespace lockstep::detail {

void compute_on(Device place, const Elementwise& what) {
  if (what.count == 0) return;
  if (is_on_host(place)) return compute_elementwise(what);
  const cuda::CurrentDevice current(place.index);
  cuda::Backend& backend = cuda::Backend::of_this_process();
  cuda::check(backend.api(), backend.kernels().compute_elementwise(what, cuda::stream_of(place)),
              "arithmetic: the kernel");
}

void combine_in_place(ElementOp op, TensorView target, ConstTensorView value) {
  std::optional<HostElements> here;
  std::optional<Tensor> there;
  if (is_on_host(target.device)) {
    value = here.emplace(value).view();
  } else if (value.device != target.device) {
    there = Tensor::uninitialized(value.dtype, value.shape, nullptr, target.device);
    copy(there->view(), value);
    value = there->view();
  }
  compute_on(target.device, {.op = op,
                             .dtype = target.dtype,
                             .target = target.data,
                             .left = {target.data},
                             .right = {value.data},
                             .count = target.element_count()});
}

bool has_integer_zero(ConstTensorView values) {
  if (!is_integer(values.dtype)) return false;
  const HostElements here(values);
  return visit_dtype(values.dtype, [&]<class T>() {
    if constexpr (std::integral<T>) {
      const std::span<const T> elements = here.elements<T>();
      return std::find(elements.begin(), elements.end(), T{0}) != elements.end();
    } else {
      return false;
    }
  });
}

}  // namespace lockstep::detail
