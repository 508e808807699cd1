// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/context/gradients.hpp>

#include "base/check.hpp"
#include "core/with_extent.hpp"
#include "device/host/host_elements.hpp"

#include <lockstep/core/axes.hpp>
#include <lockstep/device/gpu.hpp>

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

namespace lockstep::detail {
namespace {

/// Copies the indices [begin, begin + extent) along `axis` of a tensor in host memory.
Tensor part_of(const ConstTensorView& tensor, int axis, std::int64_t begin, std::int64_t extent) {
  const Shape& shape = tensor.shape;
  std::size_t outer = 1;
  std::size_t inner_bytes = size_of(tensor.dtype);
  for (int i = 0; i < shape.rank(); ++i) {
    if (i < axis) outer *= static_cast<std::size_t>(shape[i]);
    if (i > axis) inner_bytes *= static_cast<std::size_t>(shape[i]);
  }
  Tensor result = Tensor::uninitialized(tensor.dtype, with_extent(shape, axis, extent));
  const std::size_t bytes = static_cast<std::size_t>(extent) * inner_bytes;
  const std::size_t stride = static_cast<std::size_t>(shape[axis]) * inner_bytes;
  const auto* from = static_cast<const std::byte*>(tensor.data) + static_cast<std::size_t>(begin) * inner_bytes;
  auto* to = static_cast<std::byte*>(result.data());
  for (std::size_t o = 0; o < outer && bytes > 0; ++o) std::memcpy(to + o * bytes, from + o * stride, bytes);
  return result;
}

}  // namespace

ReduceOp differentiable(ReduceOp op) {
  if (op == ReduceOp::sum || op == ReduceOp::mean) return op;
  throw_error(Code::invalid_argument, "all_reduce_gradient: the gradient of {} is not supported; use sum or mean",
              to_string(op));
}

Tensor own_part(ReplicaContext& replica, ConstTensorView upstream, int axis, std::int64_t extent) {
  const int resolved = resolve_axis(axis, upstream.shape, "all_gather_gradient");
  const std::vector<std::int64_t> extents = replica.all_gather(std::array{extent}, 0);
  std::int64_t begin = 0;
  std::int64_t total = 0;
  for (std::size_t r = 0; r < extents.size(); ++r) {
    if (extents[r] < 0) {
      throw_error(Code::invalid_argument, "all_gather_gradient: the local extent of replica {} is {}; give 0 or more",
                  r, extents[r]);
    }
    if (static_cast<int>(r) < replica.replica_id_in_sync_group()) begin += extents[r];
    total += extents[r];
  }
  if (total != upstream.shape[resolved]) {
    throw_error(
        Code::invalid_argument,
        "all_gather_gradient: the local extents of all replicas add up to {}, but upstream has shape {}, with {} "
        "along axis {}; pass the gradient of the result of all_gather, and the extent of this replica's input",
        total, to_string(upstream.shape), upstream.shape[resolved], axis);
  }
  const Device place = is_on_host(upstream.device) ? Device{} : upstream.device;
  Tensor sum = Tensor::uninitialized(upstream.dtype, upstream.shape, nullptr, place);
  copy(sum.view(), upstream);
  static_cast<void>(replica.all_reduce(ReduceOp::sum, sum.view()));
  const HostElements elements(std::as_const(sum).view());
  Tensor part = part_of(elements.view(), resolved, begin, extent);
  if (is_on_host(place)) {
    set_cpu(part, replica.devices().front());
    return part;
  }
  Tensor result = Tensor::uninitialized(part.dtype(), part.shape(), nullptr, place);
  copy(result.view(), part.view());
  return result;
}

}  // namespace lockstep::detail
