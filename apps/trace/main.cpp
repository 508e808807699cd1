// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-trace: merges the trace files of the ranks of a job.

#include "apps/options/job_arguments.hpp"
#include "apps/options/version.hpp"
#include "base/printable.hpp"

#include <lockstep/base/exit_code.hpp>
#include <lockstep/cluster/trace.hpp>

#include <cstdio>
#include <exception>

namespace {

namespace exit_code = lockstep::exit_code;
using lockstep::detail::printable;

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

}  // namespace

int main(int argc, char** argv) {
  try {
    auto line = options::parse_job_arguments({argv + 1, argv + argc}, "a directory");
    if (line.error.empty() && line.paths.size() > 1)
      line.error = line.paths[1] + ": expected one directory, but " + line.paths[0] + " is given, too";
    if (line.wants_help) {
      std::fputs(help, stdout);
      return exit_code::success;
    }
    if (line.wants_version) {
      std::fputs(options::version_text("lockstep-trace").c_str(), stdout);
      return exit_code::success;
    }
    if (!line.error.empty()) {
      std::fprintf(stderr, "lockstep-trace: %s; see lockstep-trace --help\n", printable(line.error).c_str());
      return exit_code::usage;
    }
    const lockstep::MergedTrace merged = lockstep::merge_trace(line.paths.front(), line.job);
    std::printf("%s\ntrace: %s\n", merged.summary.c_str(), merged.trace_path.c_str());
    return std::fflush(stdout) == 0 ? exit_code::success : exit_code::failure;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep-trace: %s\n", printable(error.what()).c_str());
    return exit_code::failure;
  }
}
