// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One tensor of a collective, checked.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>
#include <lockstep/collectives/item.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/shape.hpp>

#include "collectives/call/call.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Where parts of a tensor begin, in rows; one entry more than there are parts.
using PartBegins = std::vector<std::int64_t>;

/// Where one tensor lies, and how long it is there.
struct GpuPlace {
  Device device;
  std::size_t bytes = 0;
};

struct HostItem {
  DType dtype = DType::f32;         ///< of the inputs
  Shape shape;                      ///< of one input; as all ranks say it, where inputs differ
  std::vector<const void*> inputs;  ///< one per local replica
  std::vector<void*> outputs;

  std::int64_t row_elements = 0;         ///< where there are parts, of their unit
  PartBegins result_parts;               ///< all_gather_v, gather_v: of the result, by replica
  std::vector<PartBegins> input_parts;   ///< scatter, all_to_all: of each input, by replica that gets the part
  std::vector<PartBegins> output_parts;  ///< scatter, all_to_all: of each output, by input that it comes from

  std::vector<GpuPlace> input_places;   ///< on GPUs: of each input; in host memory: none
  std::vector<GpuPlace> output_places;  ///< the same of each output

  [[nodiscard]] bool is_on_gpus() const noexcept { return !input_places.empty() || !output_places.empty(); }
  [[nodiscard]] std::int64_t count() const noexcept { return shape.element_count(); }
  /// Of a gather: the first element of `replica`'s part of the result.
  [[nodiscard]] std::int64_t part_begin(int replica) const {
    return result_parts.empty() ? replica * count() : result_parts[static_cast<std::size_t>(replica)] * row_elements;
  }
};

/// Checks what `rank` alone can see of `call` and its items; throws Error(invalid_argument) that names the operation,
/// the item, the values and the rule.
[[nodiscard]] std::vector<HostItem> check_items(const Call& call, const ReplicaLayout& layout, int rank,
                                                std::span<const Item> items);

}  // namespace lockstep::detail
