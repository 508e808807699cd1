// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The kinds of memory for buffers. A new kind is a row of the table in memory.cpp.

#pragma once

#include <lockstep/core/device.hpp>
#include <lockstep/device/memory_resource.hpp>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perf {

struct MemoryKind {
  std::string_view name;  ///< value of --memory
  std::string_view peer;  ///< default kind of MPI's buffers beside this one
  bool is_on_gpus;
  /// Text for the header, such as "malloc". Local.
  std::string (*text)();
  /// The resource for `device`, which is a GPU if `is_on_gpus`.
  std::shared_ptr<lockstep::MemoryResource> (*make)(lockstep::Device device);
};

[[nodiscard]] std::span<const MemoryKind> memory_kinds() noexcept;
/// `name` must name a kind.
[[nodiscard]] const MemoryKind& memory_kind(std::string_view name);

/// The kind of memory of one side of a comparison, and the device of each replica of this rank.
struct Memory {
  const MemoryKind& kind;
  std::vector<lockstep::Device> devices;
};
/// `name` must name a kind of host memory. Local.
[[nodiscard]] Memory host_memory(std::string_view name, int replicas);

}  // namespace perf
