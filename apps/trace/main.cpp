// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-trace: merges the trace files of the ranks of a job.

#include "apps/options/version.hpp"

#include <lockstep/base/exit_code.hpp>
#include <lockstep/cluster/trace.hpp>

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace exit_code = lockstep::exit_code;

constexpr const char* help =
    "usage: lockstep-trace [--job NAME] DIRECTORY\n"
    "\n"
    "Merges the files that the ranks of a job have written to DIRECTORY (LOCKSTEP_TRACE=DIRECTORY) into\n"
    "lockstep-JOB.trace.json, which Perfetto (https://ui.perfetto.dev) and chrome://tracing show, and\n"
    "lockstep-JOB.summary.txt. Prints the summary. If the hosts have directories of their own, copy the files\n"
    "lockstep-JOB-rankN.trace to one directory first.\n"
    "\n"
    "  --job NAME   the job, as in the names of the files; default: the one that was written last\n"
    "  --version    show the versions of lockstep and MPI, the kernels, and the GPUs\n"
    "  --help       this text\n"
    "\n"
    "Exit code: 0 if the files were merged, 1 if they cannot be used, 2 for a wrong command line.\n";

struct CommandLine {
  std::optional<std::string> job;
  std::optional<std::string> directory;
  std::string error;
  bool wants_help = false;
  bool wants_version = false;
};

CommandLine parse(const std::vector<std::string>& arguments) {
  constexpr std::string_view job = "--job=";
  CommandLine result;
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    const std::string& each = arguments[k];
    if (each == "--help" || each == "-h") {
      result.wants_help = true;
    } else if (each == "--version") {
      result.wants_version = true;
    } else if (each == "--job") {
      if (k + 1 == arguments.size()) {
        result.error = "--job: expected the name of a job after it";
      } else {
        result.job = arguments[++k];
      }
    } else if (each.starts_with(job)) {
      result.job = each.substr(job.size());
    } else if (each.size() > 1 && each.front() == '-') {
      result.error = each + ": unknown option";
    } else if (result.directory) {
      result.error = each + ": expected one directory, but " + *result.directory + " is given, too";
    } else {
      result.directory = each;
    }
  }
  if (result.error.empty() && !result.directory) result.error = "expected a directory";
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const CommandLine line = parse({argv + 1, argv + argc});
    if (line.wants_help) {
      std::fputs(help, stdout);
      return exit_code::success;
    }
    if (line.wants_version) {
      std::fputs(options::version_text("lockstep-trace").c_str(), stdout);
      return exit_code::success;
    }
    if (!line.error.empty()) {
      std::fprintf(stderr, "lockstep-trace: %s; see lockstep-trace --help\n", line.error.c_str());
      return exit_code::usage;
    }
    const lockstep::MergedTrace merged = lockstep::merge_trace(*line.directory, line.job);
    std::printf("%s\ntrace: %s\n", merged.summary.c_str(), merged.trace_path.c_str());
    return std::fflush(stdout) == 0 ? exit_code::success : exit_code::failure;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep-trace: %s\n", error.what());
    return exit_code::failure;
  }
}
