// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/host/host_elements.hpp"

#include <lockstep/device/gpu.hpp>

#include <memory>
#include <utility>

namespace lockstep::detail {
namespace {

Tensor host_copy(ConstTensorView source, std::shared_ptr<MemoryResource> memory) {
  Tensor result = Tensor::uninitialized(source.dtype, source.shape, std::move(memory));
  copy(result.view(), source);
  return result;
}

}  // namespace

Tensor host_tensor(const Tensor& tensor) {
  return is_on_host(tensor.device()) ? tensor : host_copy(tensor.view(), nullptr);
}

HostElements::HostElements(ConstTensorView source) : view_(source) {
  if (is_on_host(view_.device)) return;
  copy_ = host_copy(view_, pinned_memory_resource());
  view_ = std::as_const(*copy_).view();
}

HostEdit::HostEdit(TensorView target) : target_(target), view_(target) {
  if (is_on_host(target_.device)) return;
  copy_ = host_copy(target_, pinned_memory_resource());
  view_ = copy_->view();
}

void HostEdit::finish() {
  if (copy_) copy(target_, view_);
}

}  // namespace lockstep::detail
