// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "train/staging.hpp"

#include <memory>

namespace train {
namespace {

using lockstep::Device;
using lockstep::DeviceKind;
using lockstep::Tensor;

/// Host memory for copies to and from `device`; null, the default, if the device is a CPU.
std::shared_ptr<lockstep::MemoryResource> host_memory_for(Device device) {
  return device.kind == DeviceKind::gpu ? lockstep::pinned_memory_resource() : nullptr;
}

}  // namespace

const float* HostCopy::read(const lockstep::ConstTensorView& array) {
  if (array.device.kind == DeviceKind::cpu) return static_cast<const float*>(array.data);
  if (!copy_ || copy_->element_count() != array.element_count())
    copy_ = Tensor::uninitialized(array.dtype, array.shape, host_memory_for(array.device));
  copy_->copy_from(array);
  return copy_->elements<float>().data();
}

StagedArray::StagedArray(lockstep::DType dtype, const lockstep::Shape& shape, Device place, Device device)
    : written_(dtype, shape, place.kind == DeviceKind::cpu ? host_memory_for(device) : nullptr, place),
      on_device_(device.kind == place.kind ? written_ : written_.to(device)) {}

void StagedArray::send() {
  if (on_device_.device() != written_.device()) on_device_.copy_from(written_.view());
}

}  // namespace train
