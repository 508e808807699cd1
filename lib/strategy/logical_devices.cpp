// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The checks of annotations for logical devices. Each replica has one logical device, number 0.

#include "base/check.hpp"
#include "base/phrases.hpp"

#include <lockstep/strategy/strategy.hpp>

#include <cstddef>
#include <cstdint>

namespace lockstep::detail {
namespace {

constexpr std::int64_t logical_devices = 1;  // per replica

}  // namespace

void check_logical_device(int id) {
  if (id < 0 || id >= logical_devices) {
    throw_error(
        Code::invalid_argument,
        "experimental_assign_to_logical_device: logical_device_id {} does not exist; each replica has {} logical "
        "device, number 0",
        id, logical_devices);
  }
}

void check_logical_split(const Shape& shape, std::span<const int> parts) {
  constexpr const char* call = "experimental_split_to_logical_devices";
  if (parts.size() != static_cast<std::size_t>(shape.rank())) {
    throw_error(Code::invalid_argument,
                "{}: partition_dimensions has {} numbers, but the tensor has shape {}; give one number for each axis",
                call, parts.size(), to_string(shape));
  }
  std::int64_t product = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int count = parts[static_cast<std::size_t>(axis)];
    if (count < 1 || shape[axis] % count != 0) {
      throw_error(
          Code::invalid_argument,
          "{}: axis {} of a tensor of shape {} cannot be cut into {} equal parts; partition_dimensions[{}] must "
          "divide {}",
          call, axis, to_string(shape), count, axis, shape[axis]);
    }
    product *= count;
  }
  if (product != logical_devices) {
    throw_error(Code::invalid_argument,
                "{}: partition_dimensions makes {}, but each replica has {}; the product of "
                "partition_dimensions must be {}",
                call, counted(product, "part"), counted(logical_devices, "logical device"), logical_devices);
  }
}

}  // namespace lockstep::detail
