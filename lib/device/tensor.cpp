// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/device/tensor.hpp>

#include <lockstep/device/gpu.hpp>

#include "base/check.hpp"
#include "base/leak.hpp"
#include "base/phrases.hpp"
#include "device/cuda/memory.hpp"
#include "device/host/host_elements.hpp"
#include "device/host/memory_use.hpp"
#include "device/numbers.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

/// Keeps the owner of shared elements until nothing of lockstep uses them.
class SharedElements {
 public:
  SharedElements(const TensorView& view, std::shared_ptr<void> owner) : view_(view), owner_(std::move(owner)) {}
  SharedElements(const SharedElements&) = delete;
  SharedElements& operator=(const SharedElements&) = delete;
  ~SharedElements() {
    if (!detail::has_no_user(view_.data, view_.byte_count())) {
      detail::leak(new std::shared_ptr<void>(std::move(owner_)));
    } else if (view_.device.kind == DeviceKind::gpu) {
      detail::cuda::release_after_work(view_.device, std::move(owner_));
    }
  }

 private:
  TensorView view_;
  std::shared_ptr<void> owner_;
};

}  // namespace

Tensor::Tensor() : Tensor(DType::f32, Shape{0}) {}

Tensor::Tensor(DType dtype, const Shape& shape, std::shared_ptr<MemoryResource> resource, Device device)
    : Tensor(uninitialized(dtype, shape, std::move(resource), device)) {
  if (byte_count() == 0) return;
  if (device.kind == DeviceKind::cpu) {
    std::memset(view_.data, 0, byte_count());
  } else {
    detail::cuda::zero_bytes(view_.data, device, byte_count());
  }
}

Tensor Tensor::uninitialized(DType dtype, const Shape& shape, std::shared_ptr<MemoryResource> resource, Device device) {
  Tensor result{TensorView{nullptr, dtype, shape, device}};
  if (!resource) {
    resource = device.kind == DeviceKind::cpu ? default_memory_resource() : gpu_memory_resource(device);
  }
  const std::size_t bytes = result.byte_count();
  void* const block = resource->allocate(bytes);
  result.view_.data = block;
  result.owner_ = std::shared_ptr<void>(
      block, [resource = std::move(resource), bytes](void* freed) { resource->deallocate(freed, bytes); });
  return result;
}

Tensor Tensor::sharing(const TensorView& view, std::shared_ptr<void> owner) {
  Tensor result(view);
  if (view.device.kind == DeviceKind::gpu) detail::cuda::release_completed();
  if (owner != nullptr) result.owner_ = std::make_shared<SharedElements>(view, std::move(owner));
  return result;
}

Tensor Tensor::clone() const {
  Tensor result = uninitialized(dtype(), shape(), nullptr, device());
  result.copy_from(view());
  return result;
}

Tensor Tensor::to(Device device) const {
  if (device == view_.device) return *this;
  Tensor result = uninitialized(dtype(), shape(), nullptr, device);
  result.copy_from(view());
  return result;
}

Tensor Tensor::reshaped(const Shape& shape) const {
  if (shape.element_count() != element_count()) {
    detail::throw_error(Code::invalid_argument,
                        "reshaped: shape {} has {}, but the tensor of shape {} has {}; they must have the same number",
                        to_string(shape), detail::counted(shape.element_count(), "element"), to_string(view_.shape),
                        element_count());
  }
  Tensor result(*this);
  result.view_.shape = shape;
  return result;
}

void Tensor::copy_from(ConstTensorView source) {
  if (source.dtype != view_.dtype) {
    detail::throw_error(Code::invalid_argument,
                        "copy_from: the source is {}, but the tensor is {}; the dtypes must be equal",
                        to_string(source.dtype), to_string(view_.dtype));
  }
  if (source.element_count() != element_count()) {
    detail::throw_error(Code::invalid_argument,
                        "copy_from: the source of shape {} has {}, but the tensor of shape {} has {}; they "
                        "must have the same number",
                        to_string(source.shape), detail::counted(source.element_count(), "element"), to_string(shape()),
                        element_count());
  }
  copy(view_, source);
}

void Tensor::require_host_elements(DType dtype) const {
  if (dtype != view_.dtype) {
    detail::throw_error(Code::invalid_argument, "elements: the tensor is {}, but its elements are read as {}",
                        to_string(view_.dtype), to_string(dtype));
  }
  if (view_.device.kind != DeviceKind::cpu) {
    detail::throw_error(Code::failed_precondition,
                        "elements: the tensor is on {}, but must be in host memory; copy it with to(Device{{}})",
                        to_string(view_.device));
  }
}

void Tensor::copy_number_to(DType dtype, void* number) const {
  const auto name = [](DType type) { return to_string(type); };
  if (element_count() != 1) {
    detail::throw_error(Code::invalid_argument,
                        "a tensor of shape {} is converted to a number of type {}; it must have exactly one element",
                        to_string(shape()), name(dtype));
  }
  const detail::HostElements element(view());
  switch (detail::convert_number(dtype, number, view_.dtype, element.view().data)) {
    case detail::NumberConversion::done: return;
    case detail::NumberConversion::wrong_kind:
      detail::throw_error(Code::invalid_argument,
                          "a tensor of {} is converted to a number of type {}; a floating-point number is not "
                          "converted to an integer, nor bool from or to another type",
                          name(view_.dtype), name(dtype));
    case detail::NumberConversion::out_of_range:
      detail::throw_error(Code::invalid_argument,
                          "a tensor of {} is converted to a number of type {}, which does not "
                          "have the value of its element",
                          name(view_.dtype), name(dtype));
  }
}

namespace detail {

void throw_number_out_of_range(DType dtype) {
  throw_error(Code::invalid_argument, "a list in braces: a number is out of the range of {}", to_string(dtype));
}

Tensor stacked(const std::vector<Tensor>& parts) {
  const Tensor& first = parts.front();
  std::vector<std::int64_t> extents{static_cast<std::int64_t>(parts.size())};
  extents.insert(extents.end(), first.shape().extents().begin(), first.shape().extents().end());
  Tensor result = Tensor::uninitialized(first.dtype(), Shape(extents));
  auto* target = static_cast<std::byte*>(result.data());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].shape() != first.shape()) {
      throw_error(Code::invalid_argument,
                  "a list in braces: part {} has shape {}, but part 0 has shape {}; the parts must have the same shape",
                  i, to_string(parts[i].shape()), to_string(first.shape()));
    }
    copy({target + i * first.byte_count(), first.dtype(), first.shape(), {}}, parts[i].view());
  }
  return result;
}

}  // namespace detail

void detail::set_cpu(Tensor& tensor, Device device) noexcept {
  const bool is_possible = tensor.device().kind == DeviceKind::cpu && device.kind == DeviceKind::cpu;
  if (is_possible) tensor.view_.device = device;
}

void copy(TensorView target, ConstTensorView source) {
  if (target.dtype != source.dtype) {
    detail::throw_error(Code::invalid_argument,
                        "copy: the source is {}, but the target is {}; the dtypes must be equal",
                        to_string(source.dtype), to_string(target.dtype));
  }
  if (target.element_count() != source.element_count()) {
    detail::throw_error(Code::invalid_argument,
                        "copy: the source of shape {} has {}, but the target of shape {} has {}; they must "
                        "have the same number",
                        to_string(source.shape), detail::counted(source.element_count(), "element"),
                        to_string(target.shape), target.element_count());
  }
  const std::size_t bytes = source.byte_count();
  if (bytes == 0) return;
  if (target.device.kind == DeviceKind::cpu && source.device.kind == DeviceKind::cpu) {
    std::memmove(target.data, source.data, bytes);
  } else {
    detail::cuda::copy_bytes(target.data, target.device, source.data, source.device, bytes);
  }
}

}  // namespace lockstep
