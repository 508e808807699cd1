// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The kinds of memory that buffers can be of. A new kind is a row of the table in memory.cpp.

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
  std::string_view name;  ///< as --memory has it
  std::string_view peer;  ///< name of the kind that MPI's buffers are of beside ours, unless they are chosen
  bool is_on_gpus;
  /// "malloc": what the header says that buffers come from. Local.
  std::string (*text)();
  /// Of `device`, which is a GPU where the kind is on GPUs.
  std::shared_ptr<lockstep::MemoryResource> (*make)(lockstep::Device device);
};

[[nodiscard]] std::span<const MemoryKind> memory_kinds() noexcept;
/// `name` must be that of a kind.
[[nodiscard]] const MemoryKind& memory_kind(std::string_view name);

/// What the buffers of one side of a comparison are of, and where each replica of this rank has its own.
struct Memory {
  const MemoryKind& kind;
  std::vector<lockstep::Device> devices;
};
/// Of a kind that is not on GPUs. Local.
[[nodiscard]] Memory host_memory(std::string_view name, int replicas);

}  // namespace perf
