// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "apps/options/version.hpp"

#include "apps/options/launcher_rank.hpp"

#include <lockstep/base/exit_code.hpp>
#include <lockstep/cluster/build_info.hpp>
#include <lockstep/device/gpu.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

namespace options {

std::string version_text(std::string_view program) {
  const lockstep::BuildInfo build = lockstep::build_info();
  return fmt::format("{} {}\nMPI      {}\nkernels  {}, compiled for {}\nGPUs     {}\n", program, build.version,
                     build.mpi_version, build.kernel_target, fmt::join(build.compiled_targets, ", "),
                     lockstep::gpu_status());
}

std::optional<int> end_by_arguments(int argc, const char* const* argv, std::string_view program,
                                    std::string_view usage) {
  if (argc < 2) return std::nullopt;
  const bool speaks = launcher_rank() <= 0;
  const std::string_view first = argv[1];
  if (argc == 2 && (first == "--help" || first == "-h")) {
    if (speaks) fmt::print("{}\n  -h, --help   show this text\n  --version    {}\n", usage, version_help);
    return lockstep::exit_code::success;
  }
  if (argc == 2 && first == "--version") {
    if (speaks) fmt::print("{}", version_text(program));
    return lockstep::exit_code::success;
  }
  // the launcher ends the other ranks as soon as one has failed, so only the rank that prints the error fails
  if (!speaks) return lockstep::exit_code::success;
  const bool is_known = first == "--help" || first == "-h" || first == "--version";
  fmt::print(stderr, "{}: unexpected argument \"{}\"; give no argument, or --help or --version alone\n", program,
             is_known ? argv[2] : argv[1]);
  return lockstep::exit_code::usage;
}

}  // namespace options
