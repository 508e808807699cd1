// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cross_device/gather.hpp"

#include "base/check.hpp"
#include "core/with_extent.hpp"
#include "cross_device/distributed_items.hpp"
#include "device/host/host_elements.hpp"

#include <lockstep/collectives/detail/propagate.hpp>
#include <lockstep/core/axes.hpp>
#include <lockstep/device/gpu.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace lockstep {
namespace {

/// The gather of one value. If `axis` is the first axis, the gathered elements are the result. Otherwise each component
/// is sent as a flat list of elements, and afterwards copied to its position in the result.
struct Gathering {
  int axis = 0;
  std::vector<std::int64_t> extents;  // extent along `axis`, by replica
  std::int64_t outer = 1;             // number of elements in the axes before `axis`
  std::size_t inner_bytes = 1;        // bytes per index along `axis`
  std::vector<Tensor> copies;
  Tensor parts;  // the components, one after the other; unused if `axis` is the first axis
  std::vector<ConstTensorView> inputs;
  std::vector<TensorView> outputs;

  [[nodiscard]] bool in_place() const noexcept { return axis == 0; }
};

/// Allocates the tensors for the gathered value.
std::vector<Tensor> copies_for(std::span<const ConstTensorView> mine, GatherTo to, DType dtype, const Shape& shape) {
  std::vector<Tensor> copies;
  if (to == GatherTo::host) {
    copies.push_back(Tensor::uninitialized(dtype, shape));
    return copies;
  }
  for (const ConstTensorView& component : mine) {
    const Device place = detail::is_on_host(component.device) ? Device{} : component.device;
    copies.push_back(Tensor::uninitialized(dtype, shape, nullptr, place));
  }
  return copies;
}

/// `axis` counted from 0; unchanged if `shape` does not have it.
int counted_from_zero(int axis, const Shape& shape) {
  return axis < 0 && axis + shape.rank() >= 0 ? axis + shape.rank() : axis;
}

Gathering prepare(std::span<const ComponentShape> components, std::span<const ConstTensorView> mine, GatherTo to,
                  std::string_view call) {
  const ComponentShape& first = components.front();
  if (first.shape.rank() == 0) {
    detail::throw_error(Code::invalid_argument,
                        "{}: the value is a scalar, which cannot be concatenated along axis {}; pass a tensor of shape "
                        "[1]",
                        call, first.axis);
  }
  check_axes_match(components, call);
  Gathering result;
  result.axis = resolve_axis(first.axis, first.shape, call);
  check_shapes_match(components, result.axis, call);
  std::int64_t total = 0;
  for (const ComponentShape& component : components) {
    result.extents.push_back(component.shape[result.axis]);
    total += component.shape[result.axis];
  }
  result.inner_bytes = size_of(first.dtype);
  for (int i = 0; i < first.shape.rank(); ++i) {
    if (i < result.axis) result.outer *= first.shape[i];
    if (i > result.axis) result.inner_bytes *= static_cast<std::size_t>(first.shape[i]);
  }
  const Shape shape = detail::with_extent(first.shape, result.axis, total);
  result.copies = copies_for(mine, to, first.dtype, shape);
  if (result.in_place()) {
    result.inputs.assign(mine.begin(), mine.end());
    for (Tensor& copy : result.copies) result.outputs.push_back(copy.view());
  } else {
    for (const ConstTensorView& view : mine)
      result.inputs.emplace_back(view.data, view.dtype, Shape{view.element_count()}, view.device);
    result.parts = Tensor::uninitialized(first.dtype, Shape{shape.element_count()});
    result.outputs.push_back(result.parts.view());
  }
  return result;
}

/// In host memory: copies the components, which are stored one after the other, side by side along the axis.
void put_in_place(const Gathering& gathering, Tensor& copy) {
  const auto* from = static_cast<const std::byte*>(gathering.parts.data());
  auto* const to = static_cast<std::byte*>(copy.data());
  const auto outer = static_cast<std::size_t>(gathering.outer);
  const std::size_t stride = outer == 0 ? 0 : copy.byte_count() / outer;
  std::size_t offset = 0;
  for (const std::int64_t extent : gathering.extents) {
    const std::size_t bytes = static_cast<std::size_t>(extent) * gathering.inner_bytes;
    for (std::size_t o = 0; o < outer && bytes > 0; ++o) {
      std::memcpy(to + o * stride + offset, from, bytes);
      from += bytes;
    }
    offset += bytes;
  }
}

void put_in_place(Gathering& gathering) {
  for (Tensor& result : gathering.copies) {
    if (detail::is_on_host(result.device())) {
      put_in_place(gathering, result);
    } else {
      Tensor here = Tensor::uninitialized(result.dtype(), result.shape(), pinned_memory_resource());
      put_in_place(gathering, here);
      copy(result.view(), here.view());
    }
  }
}

}  // namespace

std::vector<std::vector<Tensor>> gather_values(CrossDeviceOps& ops, Communicator& communicator, std::string_view call,
                                               std::span<const std::vector<ConstTensorView>> values,
                                               std::span<const int> axes, GatherTo to,
                                               const CommunicationOptions& options) {
  std::vector<std::vector<ComponentShape>> mine;
  for (const auto& components : values) {
    auto& shapes = mine.emplace_back();
    for (std::size_t i = 0; i < components.size(); ++i) {
      const ConstTensorView& view = components[i];
      shapes.push_back({view.dtype, view.shape, 0, counted_from_zero(axes[i], view.shape)});
    }
  }
  const auto shapes =
      exchange_shapes(communicator, call, mine, ReduceOp::sum,
                      {.order = {}, .name = call, .fail_after = options.deadline(), .where = options.where});
  std::vector<Gathering> gatherings;
  gatherings.reserve(values.size());
  std::vector<Item> items;
  std::vector<std::int64_t> rows;
  for (std::size_t k = 0; k < values.size(); ++k) {
    const Gathering& added = gatherings.emplace_back(detail::propagate(
        communicator, [&] { return prepare(shapes[k], values[k], to, call); }, detail::FoundBy::all_ranks));
    items.push_back({added.inputs, added.outputs});
    for (const ComponentShape& component : shapes[k])
      rows.push_back(added.in_place() ? component.shape[0] : component.shape.element_count());
  }
  ops.gather(communicator, items, rows, options);
  std::vector<std::vector<Tensor>> results;
  detail::propagate(communicator, [&] {
    for (Gathering& gathering : gatherings) {
      if (!gathering.in_place()) put_in_place(gathering);
      results.push_back(std::move(gathering.copies));
    }
  });
  return results;
}

}  // namespace lockstep
