// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The kinds of memory that buffers can be of. A new kind is a row of the table in memory.cpp.

#pragma once

#include <lockstep/device/memory_resource.hpp>

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace perf {

struct MemoryKind {
  std::string_view name;  ///< as --memory has it
  std::string_view peer;  ///< name of the kind that MPI's buffers are of beside ours, unless they are chosen
  /// "malloc": what the header says that buffers come from. Local.
  std::string (*text)();
  std::shared_ptr<lockstep::MemoryResource> (*make)();
};

[[nodiscard]] std::span<const MemoryKind> memory_kinds() noexcept;
/// `name` must be that of a kind.
[[nodiscard]] const MemoryKind& memory_kind(std::string_view name);

}  // namespace perf
