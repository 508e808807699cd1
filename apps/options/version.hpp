// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// --version of all programs, and the command line of programs that have no options of their own.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace options {

/// The description of --version in help texts.
inline constexpr const char* version_help = "show the versions of lockstep and MPI, the kernels, and the GPUs";

/// The text of --version: the name of the program and lockstep's version; the MPI library; the kernels that are
/// compiled and the one that this processor uses; the GPUs, CUDA and NCCL. Ends with a newline. Needs no MPI_Init.
/// Local.
[[nodiscard]] std::string version_text(std::string_view program);

/// For programs without options of their own, before MPI is initialized. `usage` is the first part of the help text,
/// without a list of options. Returns the exit code if the program ends here: success after --help or --version, usage
/// after any other argument; nothing if there are no arguments. Under a launcher only the first rank prints, and only
/// that rank returns usage. Local.
[[nodiscard]] std::optional<int> end_by_arguments(int argc, const char* const* argv, std::string_view program,
                                                  std::string_view usage);

}  // namespace options
