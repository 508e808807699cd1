// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Which file this process is to open as NCCL: what its Environment names, before what LOCKSTEP_NCCL does.

#pragma once

#include <string>
#include <string_view>

namespace lockstep::detail::nccl {

struct LibraryName {
  std::string file;     ///< empty: nobody names one
  std::string_view by;  ///< "EnvironmentOptions::nccl_library" or "LOCKSTEP_NCCL"
};

/// Names a file, or none. False when NCCL has been looked for already: then nothing changes. Thread-safe.
[[nodiscard]] bool name_library(const std::string& file);

/// What NCCL is looked for by; from now on it has been. Thread-safe.
[[nodiscard]] LibraryName take_library_name();

}  // namespace lockstep::detail::nccl
