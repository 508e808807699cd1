// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

// lockstep-run: starts a program on several ranks, with the launcher of the MPI library of lockstep.

#include "run/allocation.hpp"
#include "run/job.hpp"
#include "run/launcher.hpp"
#include "run/options.hpp"
#include "run/progress.hpp"

#include "apps/options/option_error.hpp"
#include "apps/options/version.hpp"
#include "base/printable.hpp"

#include <lockstep/base/exit_code.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>

namespace run {
namespace {

using lockstep::detail::printable;

/// A directory that is removed with this object.
class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_((std::filesystem::temp_directory_path() / "lockstep-run-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw std::system_error(errno, std::generic_category(), path_);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }

  [[nodiscard]] std::filesystem::path file(const char* name) const { return std::filesystem::path(path_) / name; }

 private:
  std::string path_;
};

void say_that_root_is_permitted(const Command& command) {
  if (command.variables.contains("OMPI_ALLOW_RUN_AS_ROOT"))
    fmt::print(stderr, "lockstep-run: sets OMPI_ALLOW_RUN_AS_ROOT and PRTE_ALLOW_RUN_AS_ROOT, since this is root\n");
}

/// Shows the metrics in `file`; none if its name is empty.
int run_with_metrics(const Launcher& launcher, const Allocation& allocation, const Options& options,
                     const std::filesystem::path& file, const std::map<std::string, std::string>& variables) {
  const Command command = make_command(launcher, allocation, options, variables);
  say_that_root_is_permitted(command);
  const ProgressMode mode = file.empty() ? ProgressMode::never : resolve(options.progress);
  Progress progress(mode, file, allocation.ranks, options.progress_every_s);
  return run_job(command, progress);
}

/// Whether all ranks are on this host, as far as is known. Only then do they see a temporary file of this process.
bool is_on_this_host(const Allocation& allocation) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return !allocation.in_slurm && std::all_of(allocation.hosts.begin(), allocation.hosts.end(), [&](const Host& host) {
    return host.name == "localhost" || host.name == name.data();
  });
}

/// The path of a library of the drop-in: where it is installed beside this program, or where both were built.
std::string find_drop_in(const char* library) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* const folder : {"../" LOCKSTEP_RUN_LIBDIR, "../drop_in"}) {
    const fs::path file = (here / folder / library).lexically_normal();
    if (fs::exists(file, error)) return file.string();
  }
  options::refuse("--drop-in: {} is not in {}", library,
                  (here / "../" LOCKSTEP_RUN_LIBDIR).lexically_normal().string());
}

/// The variables that the options add to the job.
std::map<std::string, std::string> variables_of(const Options& options) {
  if (!options.drop_in) return {};
  const char* const given = std::getenv("LD_PRELOAD");
  const bool has_others = given != nullptr && *given != '\0';
  std::string files = find_drop_in("liblockstep_mpi.so");
  if (options.drop_in_memory) files += ":" + find_drop_in("liblockstep_malloc.so");
  if (has_others) files += ":" + std::string(given);
  return {{"LD_PRELOAD", files}};
}

int run_program(const Options& options) {
  const Allocation allocation = find_allocation(options);
  const Launcher launcher = find_launcher(options, allocation);
  std::map<std::string, std::string> variables = variables_of(options);
  const char* const given = std::getenv("LOCKSTEP_METRICS");
  const std::string metrics = given == nullptr ? "" : given;
  if (options.dry_run) {
    fmt::print("{}\n", quoted(make_command(launcher, allocation, options, variables)));
    return lockstep::exit_code::success;
  }
  if (options.progress == ProgressMode::never || !metrics.empty() || !is_on_this_host(allocation))
    return run_with_metrics(launcher, allocation, options, metrics, variables);
  const TemporaryDirectory directory;
  const std::string file = directory.file("metrics.jsonl").string();
  variables["LOCKSTEP_METRICS"] = file;
  return run_with_metrics(launcher, allocation, options, file, variables);
}

int run_lockstep_run(int argc, const char* const* argv) {
  try {
    const Options options = read_options(argc, argv);
    if (options.help) {
      fmt::print("{}", help());
      return lockstep::exit_code::success;
    }
    if (options.version) {
      fmt::print("{}", ::options::version_text("lockstep-run"));
      return lockstep::exit_code::success;
    }
    return run_program(options);
  } catch (const options::OptionError& error) {
    fmt::print(stderr, "lockstep-run: {}\n", printable(error.what()));
    return lockstep::exit_code::usage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep-run: {}\n", printable(error.what()));
    return lockstep::exit_code::failure;
  }
}

}  // namespace
}  // namespace run

int main(int argc, char** argv) { return run::run_lockstep_run(argc, argv); }
