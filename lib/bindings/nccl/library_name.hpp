// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The file that this process opens as NCCL: the one that its Environment names, otherwise the one that LOCKSTEP_NCCL
// names.

#pragma once

#include <string>
#include <string_view>

namespace lockstep::detail::nccl {

struct LibraryName {
  std::string file;     ///< empty if no file is named
  std::string_view by;  ///< "EnvironmentOptions::nccl_library" or "LOCKSTEP_NCCL"
};

/// Names a file; "" stands for none. Returns false, and changes nothing, if NCCL has been opened already. Thread-safe.
[[nodiscard]] bool name_library(const std::string& file);

/// The file to open as NCCL. It cannot be named any more after this call. Thread-safe.
[[nodiscard]] LibraryName take_library_name();

}  // namespace lockstep::detail::nccl
