// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// checkpoint-cost DIRECTORY [MIB [ROUNDS]]: measures the time of a checkpoint, alternating with `cp` and fsync of the
// same bytes. Runs under mpirun; all ranks write. Checks the checkpoint by restoring it.

#include "bench/harness/statistics.hpp"

#include <lockstep/lockstep.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace {

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Writes back what earlier rounds left in the page cache, so that it does not slow down the next one.
void settle(lockstep::Communicator& ranks) {
  if (ranks.rank() == 0) ::sync();
  ranks.barrier();
}

void run_cp(const std::filesystem::path& from, const std::filesystem::path& to) {
  const std::string command = "cp --reflink=never '" + from.string() + "' '" + to.string() + "'";
  const int file = std::system(command.c_str()) == 0 ? ::open(to.c_str(), O_RDONLY) : -1;
  if (file < 0 || ::fsync(file) != 0) throw std::runtime_error("this command failed: " + command);
  ::close(file);
}

/// Peak resident memory of this process, in MiB.
double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / 1024;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  if (argc < 2) {
    std::fputs("usage: mpirun -n P checkpoint-cost DIRECTORY [MIB [ROUNDS]]\n", stderr);
    return lockstep::exit_code::usage;
  }
  const std::filesystem::path directory(argv[1]);
  const std::int64_t mib = argc > 2 ? std::atoll(argv[2]) : 2048;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 3;

  lockstep::MultiWorkerMirroredStrategy strategy;
  lockstep::Communicator ranks = strategy.communicator();
  std::vector<lockstep::Variable> variables;  // many variables, as in a model
  for (std::int64_t done = 0; done < mib; done += 64) {
    std::vector<float> values(std::size_t{std::min<std::uint64_t>(64, static_cast<std::uint64_t>(mib - done))} << 18);
    std::iota(values.begin(), values.end(), static_cast<float>(done));
    variables.push_back(strategy.variable<float>(values, {.name = "v" + std::to_string(done)}));
  }
  lockstep::Checkpoint checkpoint(strategy, {.keep_last = 1});
  checkpoint.track("model", variables);
  const double before = peak_mib();

  std::vector<double> saves;
  std::vector<double> copies;
  std::filesystem::path folder;
  for (int round = 0; round < rounds; ++round) {
    settle(ranks);
    saves.push_back(seconds_of([&] { folder = checkpoint.save(directory, round); }));
    settle(ranks);
    if (ranks.rank() == 0) {
      const auto copy = directory / "copy";
      copies.push_back(seconds_of([&] { run_cp(folder / "state.safetensors", copy); }));
      std::filesystem::remove(copy);
    }
  }
  const double saving = peak_mib() - before;
  double blocked = 0;
  const double whole = seconds_of([&] {
    lockstep::PendingSave pending = [&] {
      const auto start = std::chrono::steady_clock::now();
      auto result = checkpoint.save_async(directory, rounds);
      blocked = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      return result;
    }();
    folder = pending.wait();
  });
  const double in_background = peak_mib() - before;
  const double restore = seconds_of([&] { checkpoint.restore(folder); });
  if (ranks.rank() == 0) {
    std::printf("%lld MiB, %d ranks, %d rounds\n", static_cast<long long>(mib), ranks.size(), rounds);
    std::printf("save %.2f s, cp and fsync %.2f s, ratio %.2f (medians)\n", perf::median(saves), perf::median(copies),
                perf::median(saves) / perf::median(copies));
    std::printf("save_async: blocked %.3f s of %.2f s\nrestore %.2f s\n", blocked, whole, restore);
    std::printf("memory of rank 0: variables %.0f MiB, save +%.0f, save_async +%.0f, restore +%.0f\n", before, saving,
                in_background, peak_mib() - before);
    std::filesystem::remove_all(folder);
  }
  return 0;
}
