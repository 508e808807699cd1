// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>

#include <string>
#include <vector>

namespace lockstep {

/// The build of the library that this program has loaded, and what it uses on this processor.
struct BuildInfo {
  std::string version;                        ///< lockstep's version: "0.1.0"
  std::string mpi_version;                    ///< first line of the text of MPI_Get_library_version
  std::vector<std::string> compiled_targets;  ///< instruction sets that the kernels are compiled for, best first, by
                                              ///< the names that Highway gives to them: "AVX3", "AVX2", "SSE4"
  std::string kernel_target;                  ///< the compiled target that this processor uses
};

/// Unlike an Environment, works before MPI_Init and after MPI_Finalize. Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API BuildInfo build_info();

}  // namespace lockstep
