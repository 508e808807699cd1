// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "run/options.hpp"

#include "apps/options/number.hpp"
#include "apps/options/option_error.hpp"
#include "apps/options/program_options.hpp"
#include "apps/options/version.hpp"

#include <boost/program_options.hpp>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <system_error>

namespace run {
namespace {

namespace po = boost::program_options;

using ::options::refuse;

po::options_description description() {
  const auto text = [] { return po::value<std::string>(); };
  po::options_description all(
      "Usage: lockstep-run -n N [options] PROGRAM [ARGUMENT...]\n"
      "Starts PROGRAM on N ranks with the mpirun or srun of the MPI library of lockstep");
  auto add = all.add_options();
  add("ranks,n", text()->value_name("N"), "number of ranks (default: that of the allocation or of the hosts)");
  add("hosts,H", text()->value_name("LIST"), "hosts with their numbers of ranks, such as a:2,b:2");
  add("hostfile", text()->value_name("FILE"), "the same, one per line: \"a slots=2\", \"a:2\" or \"a\"");
  add("ranks-per-host", text()->value_name("N"), "number of ranks on each host");
  add("bind", text()->value_name("NAME"), "none, core, socket or numa: what each rank is bound to");
  add("gpus", text()->value_name("N"), "GPUs per rank, with srun");
  add("launcher", text()->value_name("PATH"),
      "the mpirun, mpiexec or srun (default: variable LOCKSTEP_LAUNCHER; then a suitable one is searched)");
  add("progress", text()->value_name("NAME"), "auto, never, lines or live (default: auto, live on a terminal)");
  add("progress-every", text()->value_name("S"), "seconds between two lines of progress (default: 10)");
  add("drop-in", po::bool_switch(),
      "preload liblockstep_mpi.so, which serves the collectives of a program of MPI that does not use lockstep");
  add("drop-in-memory", po::bool_switch(),
      "the same, and preload liblockstep_malloc.so: large blocks of memory of the program are shared, so that "
      "collectives need no copies of them");
  add("dry-run", po::bool_switch(), "print the command and its additional variables, and exit");
  add("version", po::bool_switch(), ::options::version_help);
  add("help", po::bool_switch(), "show this text");
  return all;
}

/// The index of the first word that is neither an option nor the value of one.
int end_of_options(int argc, const char* const* argv, const po::options_description& all) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.size() < 2 || word[0] != '-' || word == "--") return i;
    const bool is_long = word[1] == '-';
    const std::string name = is_long ? word.substr(2) : word.substr(0, 2);
    const bool has_value = is_long ? name.find('=') != std::string::npos : word.size() > 2;
    const po::option_description* const option = all.find_nothrow(name, false);
    if (option != nullptr && !has_value && option->semantic()->max_tokens() > 0) ++i;
  }
  return argc;
}

/// Reads "HOST" or "HOST:N".
Host host_of(const std::string& what, const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const auto is_allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_'; };
  if (name.empty() || name.front() == '-' || !std::all_of(name.begin(), name.end(), is_allowed))
    refuse("{}: \"{}\" is not HOST or HOST:N with a name of alphanumeric characters, '.', '-' and '_'", what, text);
  return {name, colon == std::string::npos ? 1 : positive_number(what + ": " + name, text.substr(colon + 1))};
}

std::vector<Host> hosts_of(const std::string& text) {
  std::vector<Host> hosts;
  std::istringstream list(text + ",");
  const std::string what = "--hosts \"" + options::printable(text) + "\"";
  for (std::string part; std::getline(list, part, ',');) add_host(hosts, host_of(what, part), what);
  return hosts;
}

template <class T>
T choice(const std::string& option, const std::string& text, const std::vector<std::pair<std::string, T>>& choices) {
  std::string names;
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
    names += (names.empty() ? "" : ", ") + name;
  }
  refuse("--{} \"{}\": give one of {}", option, options::printable(text), names);
}

double seconds(const std::string& text) {
  const auto value = options::number_of<double>(text);
  if (!value || !(*value >= 0.1) || !(*value <= 86400))
    refuse("--progress-every \"{}\": give a number of seconds from 0.1 to 86400", options::printable(text));
  return *value;
}

}  // namespace

int positive_number(const std::string& what, const std::string& text, int most) {
  const auto value = options::number_of<int>(text);
  if (!value || *value < 1 || *value > most)
    refuse("{} \"{}\": give a whole number from 1 to {}", what, options::printable(text), most);
  return *value;
}

void add_host(std::vector<Host>& hosts, const Host& host, const std::string& what) {
  const int ranks =
      std::accumulate(hosts.begin(), hosts.end(), 0, [](int sum, const Host& h) { return sum + h.slots; });
  if (ranks > most_ranks - host.slots) refuse("{}: the hosts have room for more than {} ranks", what, most_ranks);
  const auto same = std::find_if(hosts.begin(), hosts.end(), [&](const Host& h) { return h.name == host.name; });
  if (same == hosts.end()) {
    hosts.push_back(host);
  } else {
    same->slots += host.slots;
  }
}

std::vector<Host> read_host_file(const std::string& what, const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) refuse("{}: the file cannot be read: it is a directory", what);
  std::ifstream file(path);
  if (!file) refuse("{}: the file cannot be read: {}", what, std::generic_category().message(errno));
  std::vector<Host> hosts;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string place = what + ", line " + std::to_string(++number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    Host host = host_of(place, word);
    while (words >> word) {
      if (!word.starts_with("slots=")) refuse("{}: \"{}\" is not slots=N", place, options::printable(word));
      host.slots = positive_number(place + ": slots", word.substr(6));
    }
    add_host(hosts, host, place);
  }
  if (hosts.empty()) refuse("{}: the file names no host", what);
  return hosts;
}

Options read_options(int argc, const char* const* argv) {
  const po::options_description all = description();
  const int end = end_of_options(argc, argv, all);
  options::Sources sources;
  const po::variables_map values = options::read(std::min(end, argc), argv, all, "LOCKSTEP_RUN_", sources);
  Options read;
  read.help = values["help"].as<bool>();
  read.version = values["version"].as<bool>();
  read.drop_in_memory = values["drop-in-memory"].as<bool>();
  read.drop_in = values["drop-in"].as<bool>() || read.drop_in_memory;
  read.dry_run = values["dry-run"].as<bool>();
  const auto given = [&](const char* name) { return values.count(name) != 0; };
  const auto text = [&](const char* name) { return values[name].as<std::string>(); };
  if (given("ranks")) read.ranks = positive_number("-n/--ranks", text("ranks"));
  if (given("hosts") && given("hostfile")) refuse("--hosts and --hostfile: give one of them");
  if (given("hosts")) read.hosts = hosts_of(text("hosts"));
  if (given("hostfile"))
    read.hosts = read_host_file("--hostfile \"" + options::printable(text("hostfile")) + "\"", text("hostfile"));
  if (given("ranks-per-host")) read.ranks_per_host = positive_number("--ranks-per-host", text("ranks-per-host"));
  if (given("gpus")) read.gpus = positive_number("--gpus", text("gpus"), 1024);
  if (given("launcher")) read.launcher = text("launcher");
  if (given("launcher") && read.launcher.empty())
    refuse("--launcher \"\": give the path of an mpirun, mpiexec or srun");
  if (given("bind")) {
    read.bind = choice<std::string>("bind", text("bind"),
                                    {{"none", "none"}, {"core", "core"}, {"socket", "socket"}, {"numa", "numa"}});
  }
  if (given("progress")) {
    read.progress = choice<ProgressMode>("progress", text("progress"),
                                         {{"auto", ProgressMode::automatic},
                                          {"never", ProgressMode::never},
                                          {"lines", ProgressMode::lines},
                                          {"live", ProgressMode::live}});
  }
  if (given("progress-every")) read.progress_every_s = seconds(text("progress-every"));
  const int program = end < argc && std::string(argv[end]) == "--" ? end + 1 : end;
  for (int i = program; i < argc; ++i) read.command.emplace_back(argv[i]);
  if (read.command.empty() && !read.help && !read.version)
    refuse("the program is missing: lockstep-run -n N [options] PROGRAM [ARGUMENT...]; --help lists the options");
  return read;
}

std::string help() {
  std::ostringstream text;
  text << description();
  return text.str();
}

}  // namespace run
