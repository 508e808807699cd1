// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-diff: the first operation in which two runs of a program differ.

#include "base/printable.hpp"
#include "diff/comparison.hpp"
#include "diff/logs.hpp"

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace {

using lockstep::detail::printable;

constexpr const char* help =
    "usage: lockstep-diff A B\n"
    "\n"
    "Compares two runs of a program and names the first operation, tensor, replica and rank in which they differ, "
    "with\n"
    "file and line. The ranks of each run have written hashes of the inputs and outputs of their operations to a\n"
    "directory: LOCKSTEP_HASH_LOG=DIRECTORY mpirun ... A and B are such directories or, if a directory has the logs\n"
    "of several jobs, DIRECTORY/lockstep-JOB. The runs may have different numbers of ranks, but must have the same\n"
    "number of replicas: tensors are compared by global replica id.\n"
    "\n"
    "  --help       this text\n"
    "  --version    the version of lockstep\n"
    "\n"
    "Exit code: 0 if the runs are equal, 1 if they differ, 2 if they cannot be compared, or for a wrong command "
    "line.\n";

int refuse(const std::string& text) {
  std::fprintf(stderr, "lockstep-diff: %s; see lockstep-diff --help\n", printable(text).c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths;
  for (const std::string_view argument : std::vector<std::string_view>(argv + 1, argv + argc)) {
    if (argument == "--help" || argument == "-h") {
      std::fputs(help, stdout);
      return 0;
    }
    if (argument == "--version") {
      std::puts("lockstep-diff " LOCKSTEP_VERSION);
      return 0;
    }
    if (argument.starts_with('-')) return refuse(std::string(argument) + ": unknown option");
    paths.emplace_back(argument);
  }
  if (paths.size() != 2) return refuse("expected the directories of two runs");
  try {
    const diff::Comparison comparison = diff::compare(diff::read_run(paths[0]), diff::read_run(paths[1]));
    std::fputs(comparison.text.c_str(), stdout);
    if (std::fflush(stdout) != 0) return 2;
    return comparison.are_equal ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep-diff: %s\n", printable(error.what()).c_str());
    return 2;
  }
}
