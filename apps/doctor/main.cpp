// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-doctor: what is wrong with a set-up, before a job fails or is slow.

#include "doctor/checks.hpp"
#include "doctor/host_facts.hpp"
#include "doctor/job.hpp"
#include "doctor/report.hpp"
#include "doctor/supervise.hpp"

#include "apps/options/launcher_rank.hpp"
#include "apps/options/number.hpp"
#include "apps/options/placeholder.hpp"
#include "apps/options/terminal.hpp"
#include "apps/options/version.hpp"
#include "base/printable.hpp"

#include <lockstep/base/exit_code.hpp>
#include <lockstep/cluster/build_info.hpp>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

namespace po = boost::program_options;
using lockstep::detail::printable;

constexpr const char* about =
    "usage: [mpirun -n N] lockstep-doctor [--json] [--quick] [--seconds S]\n"
    "\n"
    "Checks how the job starts, its environment, processors, memory, network and GPUs on all ranks, and measures\n"
    "pairs of ranks. Start it as the job that it shall check: the same launcher, hosts, ranks and variables.\n";

constexpr const char* rules =
    "\n"
    "Pairs: one rank of each host with one of each other host, then pairs inside hosts; neighbours first, as many as\n"
    "fit into --seconds, each for up to 1 s: latency of 8 B, bandwidth of 1 MiB, all_reduce of 64 KiB.\n"
    "Slow: a link whose latency or time per byte is above 3 times the median of its kind (inside or between hosts; of\n"
    "at least 3 links); a link between hosts below 1 Gbit/s; a rank all of whose two or more links are slow, or that\n"
    "takes above 3 times the median for a fixed computation (of two ranks: 3 times the faster one).\n"
    "\n"
    "error: a job will fail. warning: it will be slow, or may fail. MPI_Init, and each answer of a rank, may take 60 "
    "s,\n"
    "or less if LOCKSTEP_TIMEOUT is less. If MPI does not start, the checks of this process alone are reported.\n"
    "Exit code: 0 without errors, 3 with errors, 2 for wrong options. Colors: only on a terminal, without a launcher,\n"
    "and if NO_COLOR is not set.\n";

struct Options {
  bool is_json = false;
  doctor::JobOptions job;
};

/// The time after which operations fail by LOCKSTEP_TIMEOUT, at most 60 s. What is malformed is reported by the
/// library.
double start_seconds() {
  const char* const text = std::getenv("LOCKSTEP_TIMEOUT");
  if (text == nullptr) return 60;
  const std::string_view all(text);
  const std::size_t comma = all.find(',');
  const double seconds = std::strtod(comma == std::string_view::npos ? text : text + comma + 1, nullptr);
  return seconds > 0 ? std::clamp(seconds, 1.0, 60.0) : 60;
}

/// The value of --seconds. Throws std::runtime_error.
double seconds_of(const std::string& text) {
  const auto seconds = options::number_of<double>(text);
  if (!seconds || !(*seconds >= 0.1) || !(*seconds <= 3600))
    throw std::runtime_error(fmt::format("--seconds={}: expected a number of seconds from 0.1 to 3600", text));
  return *seconds;
}

/// Returns false if the text of an option such as --help has been printed. Throws po::error or std::runtime_error.
bool parse(int argc, char** argv, Options& options) {
  po::options_description all("options");
  all.add_options()("json", "print findings, facts and measurements as JSON")("quick", "do not measure pairs of ranks")(
      "seconds", po::value<std::string>()->default_value("10"), "time for all pairs, from 0.1 to 3600")(
      "help,h", "print this text")("version", options::version_help);
  for (int k = 1; k < argc; ++k) {
    if (const std::string_view word = options::placeholder_in(argv[k]); !word.empty())
      throw std::runtime_error("options must not have \"" + std::string(word) + "\", a word between percent signs");
  }
  po::variables_map values;
  constexpr int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  po::store(po::command_line_parser(argc, argv).options(all).style(style).positional({}).run(), values);
  po::notify(values);
  if (values.contains("help")) {
    std::cout << about << "\n" << all << rules;
    return false;
  }
  if (values.contains("version")) {
    std::cout << options::version_text("lockstep-doctor");
    return false;
  }
  options.job.seconds = seconds_of(values["seconds"].as<std::string>());
  options.is_json = values.contains("json");
  options.job.is_quick = values.contains("quick");
  options.job.start_seconds = start_seconds();
  return true;
}

int report(const doctor::JobFacts& job, bool is_json) {
  const auto findings = doctor::check_all(job);
  const char* const terminal = std::getenv("TERM");
  // a launcher gives its ranks terminals although its own output may be a file
  const bool has_colors = options::launcher_rank() < 0 && isatty(STDOUT_FILENO) == 1 && options::permits_colors() &&
                          (terminal == nullptr || std::string_view(terminal) != "dumb");
  const std::string text = is_json ? doctor::to_json(job, findings, lockstep::build_info().version)
                                   : doctor::to_text(findings, has_colors ? doctor::Colors::on : doctor::Colors::off);
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  return doctor::exit_code_of(findings);
}

int run(const Options& options) {
  const doctor::Outcome outcome = doctor::supervise([&](const doctor::Progress& progress) {
    doctor::run_job(options.job, progress, [&](const doctor::JobFacts& job) { return report(job, options.is_json); });
  });
  if (outcome.is_reported) return outcome.code;
  const int rank = options::launcher_rank();
  if (rank > 0) {  // rank 0 reports; its output would be the same
    std::fprintf(stderr, "lockstep-doctor: rank %d: %s\n", rank, outcome.failure.c_str());
    return lockstep::exit_code::unfit;
  }
  doctor::JobFacts job;
  job.ranks.push_back(doctor::host_facts());
  job.start_error = outcome.failure;
  job.not_measured = "since the job did not start";
  return report(job, options.is_json);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  try {
    if (!parse(argc, argv, options)) return lockstep::exit_code::success;
  } catch (const std::exception& error) {
    if (options::launcher_rank() <= 0)
      std::fprintf(stderr, "lockstep-doctor: %s; see lockstep-doctor --help\n", printable(error.what()).c_str());
    return lockstep::exit_code::usage;
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep-doctor: %s\n", printable(error.what()).c_str());
    return lockstep::exit_code::failure;
  }
}
