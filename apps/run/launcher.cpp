// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "run/launcher.hpp"

#include "apps/options/option_error.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

namespace run {
namespace {

using ::options::refuse;

constexpr std::string_view built_with = LOCKSTEP_RUN_MPI;         // openmpi or mpich
constexpr std::string_view mpi_prefix = LOCKSTEP_RUN_MPI_PREFIX;  // of the MPI library, may be empty

bool is_program(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

/// The path of a program: `name` itself if it has a slash, otherwise the first one in PATH.
std::optional<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_program(name) ? std::optional(name) : std::nullopt;
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path candidate = std::filesystem::path(folder.empty() ? "." : folder) / name;
    if (is_program(candidate)) return candidate.string();
  }
  return std::nullopt;
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%^";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// What a program prints, at most 64 KiB; empty if it does not end within 10 s.
std::string output_of(const std::string& path, const std::string& option) {
  const std::string line = "timeout 10 " + shell_word(path) + " " + option + " 2>&1 </dev/null";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(line.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> part{};
  while (pipe != nullptr && text.size() < 65536) {
    const std::size_t count = std::fread(part.data(), 1, part.size(), pipe.get());
    if (count == 0) break;
    text.append(part.data(), count);
  }
  return text;
}

/// The kind of a launcher, from its name and what it says about itself.
std::optional<LauncherKind> kind_of(const std::string& path) {
  if (std::filesystem::path(path).filename().string().find("srun") != std::string::npos) return LauncherKind::srun;
  const std::string text = output_of(path, "--version");
  const auto says = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  if (says("HYDRA") || says("Hydra") || says("Intel(R) MPI")) return LauncherKind::hydra;
  if (says("Open MPI") || says("OpenRTE") || says("PRRTE")) return LauncherKind::openmpi;
  return std::nullopt;
}

bool suits(LauncherKind kind) {
  return kind == LauncherKind::srun || (kind == LauncherKind::openmpi) == (built_with == "openmpi");
}

std::string_view name_of_library() { return built_with == "openmpi" ? "Open MPI" : "MPICH"; }

/// The launcher that the user names. `source` names the option or variable.
Launcher given_launcher(const std::string& source, const std::string& name) {
  const std::optional<std::string> path = find_program(name);
  if (!path) throw LauncherError(fmt::format("{} \"{}\": no such program", source, name));
  const std::optional<LauncherKind> kind = kind_of(*path);
  if (!kind) {
    throw LauncherError(fmt::format(
        "{} \"{}\": it is not a launcher of Open MPI, MPICH or Slurm: its --version names none of them", source, name));
  }
  if (!suits(*kind)) {
    throw LauncherError(
        fmt::format("{} \"{}\": it belongs to another MPI library; lockstep was built with {}, and each rank would be "
                    "a job of its own",
                    source, name, name_of_library()));
  }
  return {*path, *kind};
}

std::vector<std::string> names_of_launchers() {
  if (built_with == "openmpi") return {"mpirun.openmpi", "mpirun", "mpiexec"};
  return {"mpiexec.mpich", "mpiexec.hydra", "mpiexec", "mpirun"};
}

/// The hosts as "a:2,b:2".
std::string list_of(const std::vector<Host>& hosts) {
  std::string list;
  for (const Host& host : hosts) list += fmt::format("{}{}:{}", list.empty() ? "" : ",", host.name, host.slots);
  return list;
}

/// The names of the variables LOCKSTEP_* of the ranks.
std::set<std::string> lockstep_variables(const std::map<std::string, std::string>& added) {
  std::set<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (name.starts_with("LOCKSTEP_") && !name.starts_with("LOCKSTEP_RUN_") && name != "LOCKSTEP_LAUNCHER")
      names.insert(name);
  }
  for (const auto& [name, _] : added) names.insert(name);
  return names;
}

using Words = std::vector<std::string>;

void add(Words& words, std::initializer_list<std::string> more) { words.insert(words.end(), more); }

Words openmpi_options(const Allocation& allocation, const Options& options,
                      const std::map<std::string, std::string>& variables) {
  Words words;
  const bool has_few_slots = allocation.ranks > allocation.slots;
  if (!allocation.hosts.empty()) add(words, {"--host", list_of(allocation.hosts)});
  if (has_few_slots) add(words, {"--oversubscribe"});
  if (options.ranks_per_host != 0) add(words, {"--map-by", fmt::format("ppr:{}:node", options.ranks_per_host)});
  // Open MPI refuses to bind two ranks to one core unless it is told that this is intended
  if (!options.bind.empty())
    add(words, {"--bind-to", options.bind + (has_few_slots && options.bind != "none" ? ":overload-allowed" : "")});
  for (const std::string& name : lockstep_variables(variables)) add(words, {"-x", name});
  return words;
}

/// Hydra passes the whole environment unless it is told otherwise, and permits more ranks than cores.
Words hydra_options(const Allocation& allocation, const Options& options) {
  Words words;
  if (!allocation.hosts.empty()) add(words, {"-hosts", list_of(allocation.hosts)});
  if (options.ranks_per_host != 0) add(words, {"-ppn", std::to_string(options.ranks_per_host)});
  if (!options.bind.empty()) add(words, {"-bind-to", options.bind});
  return words;
}

Words srun_options(const Allocation& allocation, const Options& options) {
  static const std::map<std::string, std::string> bindings{
      {"none", "none"}, {"core", "cores"}, {"socket", "sockets"}, {"numa", "ldoms"}};
  if (!allocation.hosts.empty())
    refuse("--hosts and --hostfile: srun takes the hosts from Slurm; give --launcher with an mpirun to choose them");
  Words words;
  add(words, {built_with == "openmpi" ? "--mpi=pmix" : "--mpi=pmi2", "--kill-on-bad-exit=1"});
  if (allocation.ranks > allocation.slots) add(words, {"--overcommit"});
  if (options.ranks_per_host != 0) add(words, {fmt::format("--ntasks-per-node={}", options.ranks_per_host)});
  if (!options.bind.empty()) add(words, {"--cpu-bind=" + bindings.at(options.bind)});
  if (options.gpus != 0) add(words, {fmt::format("--gpus-per-task={}", options.gpus)});
  return words;
}

}  // namespace

Launcher find_launcher(const Options& options, const Allocation& allocation) {
  if (!options.launcher.empty()) return given_launcher("--launcher", options.launcher);
  if (const char* const name = std::getenv("LOCKSTEP_LAUNCHER"); name != nullptr && *name != '\0')
    return given_launcher("environment variable LOCKSTEP_LAUNCHER", name);
  if (allocation.in_slurm && built_with == "openmpi") {
    const std::optional<std::string> srun = find_program("srun");
    if (srun && output_of(*srun, "--mpi=list").find("pmix") != std::string::npos) return {*srun, LauncherKind::srun};
  }
  Words candidates;
  for (const std::string& name : names_of_launchers())
    if (!mpi_prefix.empty()) candidates.push_back((std::filesystem::path(mpi_prefix) / "bin" / name).string());
  for (const std::string& name : names_of_launchers()) candidates.push_back(name);
  for (const std::string& candidate : candidates) {
    const std::optional<std::string> path = find_program(candidate);
    const std::optional<LauncherKind> kind = path ? kind_of(*path) : std::nullopt;
    if (kind && *kind != LauncherKind::srun && suits(*kind)) return {*path, *kind};
  }
  throw LauncherError(fmt::format(
      "found no mpirun of {}, with which lockstep was built, in \"{}/bin\" or PATH; install its programs, add their "
      "folder to PATH, or give --launcher PATH or environment variable LOCKSTEP_LAUNCHER",
      name_of_library(), mpi_prefix));
}

Command make_command(const Launcher& launcher, const Allocation& allocation, const Options& options,
                     const std::map<std::string, std::string>& variables) {
  if (options.gpus != 0 && launcher.kind != LauncherKind::srun)
    refuse("--gpus {}: only srun divides GPUs, and the launcher is {}", options.gpus, launcher.path);
  Command command;
  command.variables = variables;
  command.words = {launcher.path, "-n", std::to_string(allocation.ranks)};
  Words more;
  switch (launcher.kind) {
    case LauncherKind::openmpi: more = openmpi_options(allocation, options, variables); break;
    case LauncherKind::hydra: more = hydra_options(allocation, options); break;
    case LauncherKind::srun: more = srun_options(allocation, options); break;
  }
  if (launcher.kind == LauncherKind::openmpi && geteuid() == 0) {
    // Open MPI 4 reads the first two, Open MPI 5 the others
    for (const char* const name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "PRTE_ALLOW_RUN_AS_ROOT",
                                   "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"})
      if (std::getenv(name) == nullptr) command.variables[name] = "1";
  }
  command.words.insert(command.words.end(), more.begin(), more.end());
  command.words.insert(command.words.end(), options.command.begin(), options.command.end());
  return command;
}

std::string quoted(const Command& command) {
  std::string line;
  for (const auto& [name, value] : command.variables) line += name + "=" + shell_word(value) + " ";
  for (const std::string& word : command.words) line += shell_word(word) + " ";
  line.pop_back();
  return line;
}

}  // namespace run
