// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// EnvironmentOptions::nccl_library takes precedence over LOCKSTEP_NCCL, and is refused after NCCL has been opened.

#include <lockstep/cluster/environment.hpp>

#include "device/cuda/backend.hpp"
#include "support/errors.hpp"

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

using lockstep::Environment;
using lockstep::EnvironmentOptions;

bool says(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  std::fprintf(stderr, "\"%s\" is missing in: %s\n", part.c_str(), text.c_str());
  return false;
}

bool names_its_file() {
  const Environment environment({.nccl_library = "/nowhere/of-the-option"});
  lockstep::detail::cuda::Backend backend({});
  return says(backend.nccl().why, "EnvironmentOptions::nccl_library is \"/nowhere/of-the-option\"");
}

bool is_refused_afterwards() {
  const std::string error =
      lockstep::test::error_of([] { const Environment environment({.nccl_library = "/nowhere/too-late"}); });
  const Environment without({.nccl_library = {}});  // the refused one has no effect
  return says(error, "failed_precondition") && says(error, "nccl_library is \"/nowhere/too-late\"") &&
         says(error, "before the first use of a GPU");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  ::setenv("LOCKSTEP_NCCL", "/nowhere/of-the-variable", 1);
  const bool is_right = names_its_file() && is_refused_afterwards();
  MPI_Finalize();
  return is_right ? 0 : 1;
}
