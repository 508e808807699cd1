// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
//   cut_link FOLDER SECONDS
//
// Reduces until FOLDER/stop exists, with a deadline of SECONDS. Each rank writes FOLDER/ready.RANK after its first
// steps, and FOLDER/report.RANK at the end: on one line "ok" or the error's code, the seconds since the last successful
// step, the rank that the error names, and the error's text.

#include <lockstep/base/error.hpp>
#include <lockstep/cluster/environment.hpp>
#include <lockstep/interop/mpi.hpp>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) {
  const fs::path part = file.string() + ".part";
  std::ofstream(part) << text << '\n';
  fs::rename(part, file);
}

std::string line(std::string_view what, Clock::time_point since, int rank, std::string_view text) {
  const std::chrono::duration<double> waited = Clock::now() - since;
  return std::string(what) + " " + std::to_string(waited.count()) + " " + std::to_string(rank) + " " +
         std::string(text);
}

void reduce_until_told(const lockstep::Environment& environment, const fs::path& folder, double seconds) {
  const std::string rank = std::to_string(environment.rank());
  lockstep::CommunicatorOptions options;
  options.fail_after = std::chrono::milliseconds(static_cast<int>(seconds * 1000));
  lockstep::Communicator comm = lockstep::world_communicator(options);
  Clock::time_point last = Clock::now();
  std::vector<float> values(50'000);
  try {
    for (int step = 0; values[0] == 0; ++step) {
      values.assign(values.size(), static_cast<float>(comm.rank()));
      values[0] = comm.rank() == 0 && fs::exists(folder / "stop") ? 1.0f : 0.0f;
      comm.all_reduce(std::span(values), lockstep::ReduceOp::sum);
      const auto ranks = static_cast<float>(comm.size());
      if (values[1] != ranks * (ranks - 1) / 2 || values.back() != values[1]) throw std::runtime_error("wrong sum");
      last = Clock::now();
      if (step == 3) write(folder / ("ready." + rank), "ready");
    }
    write(folder / ("report." + rank), line("ok", last, -1, ""));
  } catch (const lockstep::Error& error) {
    write(folder / ("report." + rank), line(to_string(error.code()), last, error.context().rank, error.what()));
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const lockstep::Environment environment(argc, argv);
    reduce_until_told(environment, argv[1], std::stod(argv[2]));
  } catch (const lockstep::Error&) {
    return 3;
  }
  return 0;
}
