// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-explain: what happened to a job, from the flight records of its ranks.

#include "apps/options/job_arguments.hpp"
#include "base/printable.hpp"
#include "explain/explanation.hpp"
#include "explain/records.hpp"

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace {

using lockstep::detail::printable;

constexpr const char* help =
    "usage: lockstep-explain [--job NAME] DIRECTORY|FILE...\n"
    "\n"
    "Compares the flight records of the ranks of a job (lockstep-JOB-rankN.json) and says which rank is missing or\n"
    "called something else first, in which operation each rank is, and where in its source. lockstep programs write\n"
    "these files after a failure, on SIGQUIT and on request: into the directory of LOCKSTEP_RECORDER, else into\n"
    "TMPDIR or /tmp. If each host has its own directory, give all of them.\n"
    "\n"
    "  --job NAME   the run to explain; default: the one that was written last. all: all files are of one run\n"
    "  --help       this text\n"
    "  --version    the version of lockstep\n"
    "\n"
    "Exit code: 0 if records were read, 1 if a file, or all files of a directory, cannot be used,\n"
    "2 for a wrong command line. Of a directory, files that cannot be used are skipped with a warning.\n";

/// Appends the records of the file or directory `path`. In a directory, which may have files of other jobs, files that
/// cannot be used are skipped with a warning, unless none can be used.
void append_records(const std::string& path, std::vector<explain::Record>& records) {
  const std::vector<std::string> files = explain::find_records(path);
  const std::size_t before = records.size();
  std::vector<std::string> errors;
  for (const std::string& file : files) {
    try {
      records.push_back(explain::read_record(file));
    } catch (const explain::InputError& error) {
      if (file == path) throw;
      errors.emplace_back(error.what());
    }
  }
  if (records.size() == before) throw explain::InputError(errors.front());
  for (const std::string& error : errors)
    std::fprintf(stderr, "lockstep-explain: skipped %s\n", printable(error).c_str());
}

int run(const options::JobArguments& line) {
  std::vector<explain::Record> records;
  for (const std::string& path : line.paths) append_records(path, records);
  std::fputs(explain::explain(explain::select_job(std::move(records), line.job)).c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto line = options::parse_job_arguments({argv + 1, argv + argc}, "a directory or files");
    if (line.wants_help) {
      std::fputs(help, stdout);
      return 0;
    }
    if (line.wants_version) {
      std::puts("lockstep-explain " LOCKSTEP_VERSION);
      return 0;
    }
    if (!line.error.empty()) {
      std::fprintf(stderr, "lockstep-explain: %s; see lockstep-explain --help\n", printable(line.error).c_str());
      return 2;
    }
    return run(line);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep-explain: %s\n", printable(error.what()).c_str());
    return 1;
  }
}
