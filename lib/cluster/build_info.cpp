// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/build_info.hpp>

#include "bindings/mpi/mpi.hpp"
#include "kernels/target.hpp"

namespace lockstep {

BuildInfo build_info() {
  BuildInfo info{.version = LOCKSTEP_VERSION, .mpi_version = detail::mpi::library_version()};
  for (const std::string_view target : detail::compiled_kernel_targets()) info.compiled_targets.emplace_back(target);
  info.kernel_target = detail::kernel_target();
  return info;
}

}  // namespace lockstep
