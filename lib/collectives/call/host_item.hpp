// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One item of a collective, after its arguments have been checked.

#pragma once

#include <lockstep/core/device.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/shape.hpp>

#include "collectives/call/call.hpp"
#include "schedule/mixed_radix.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::detail {

/// The first row of each part of a tensor, then the end of the last part.
using PartBegins = std::vector<std::int64_t>;

/// Device and size of one tensor on a GPU.
struct GpuPlace {
  Device device;
  std::size_t bytes = 0;
};

struct HostItem {
  DType dtype = DType::f32;         ///< element type of the inputs
  Shape shape;                      ///< shape of one input or, if inputs may differ, the shape on which ranks agree
  std::vector<const void*> inputs;  ///< addresses of the inputs of this rank
  std::vector<void*> outputs;       ///< addresses of the outputs of this rank

  std::int64_t row_elements = 0;         ///< elements of one row, if the tensors have parts
  PartBegins result_parts;               ///< all_gather_v, gather_v: parts of the result, by replica
  std::vector<PartBegins> input_parts;   ///< scatter, all_to_all: parts of each input, by receiving replica
  std::vector<PartBegins> output_parts;  ///< scatter, all_to_all: parts of each output, by sending replica

  std::vector<GpuPlace> input_places;   ///< device of each input; empty if inputs are in host memory
  std::vector<GpuPlace> output_places;  ///< device of each output; empty if outputs are in host memory

  [[nodiscard]] bool is_on_gpus() const noexcept { return !input_places.empty() || !output_places.empty(); }
  [[nodiscard]] std::int64_t count() const noexcept { return shape.element_count(); }
  /// The first element of the part of `replica` in the result of a gather.
  [[nodiscard]] std::int64_t part_begin(int replica) const {
    return result_parts.empty() ? replica * count() : result_parts[static_cast<std::size_t>(replica)] * row_elements;
  }
  /// The part of `replica` in the larger tensors of a call of `kind`, which has own parts among `replicas` replicas;
  /// see Traits::has_own_parts.
  [[nodiscard]] ElementRange part_of(const Traits& kind, int replica, int replicas) const;
  /// Elements of one of the larger tensors of such a call.
  [[nodiscard]] std::int64_t whole_count(const Traits& kind, int replicas) const {
    return first_of_part(kind, replicas, replicas);
  }

 private:
  [[nodiscard]] std::int64_t first_of_part(const Traits& kind, int replica, int replicas) const;
};

/// The buffers that other ranks may access if every rank writes only its own outputs.
[[nodiscard]] std::vector<HostItem> without_outputs(std::vector<HostItem> items);

/// The address of element number `element` of a tensor that begins at `base` and has the type `dtype`.
[[nodiscard]] inline const std::byte* at(const void* base, std::int64_t element, DType dtype) noexcept {
  return static_cast<const std::byte*>(base) + static_cast<std::size_t>(element) * size_of(dtype);
}
[[nodiscard]] inline std::byte* at(void* base, std::int64_t element, DType dtype) noexcept {
  return static_cast<std::byte*>(base) + static_cast<std::size_t>(element) * size_of(dtype);
}

}  // namespace lockstep::detail
