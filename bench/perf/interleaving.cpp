// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/interleaving.hpp"

#include "bench/harness/statistics.hpp"

#include <mpi.h>

#include <chrono>

namespace perf {

/// The times of one implementation on one rank.
struct Interleaving::Record {
  std::vector<double> seconds;
  std::vector<double> posted_seconds;
  std::int64_t wrong = 0;
};

std::vector<Outcome> Interleaving::run(std::span<Implementation* const> implementations) {
  std::vector<Record> records(implementations.size());
  for (std::int64_t i = -options_.warmup_iterations; i < options_.iterations; ++i) {
    // every call has its own inputs, since implementations may share buffers that still contain the last one's results
    for (std::size_t k = 0; k < implementations.size(); ++k, ++calls_) round(*implementations[k], records[k], i >= 0);
  }
  std::vector<Outcome> outcomes;
  for (const Record& record : records) outcomes.push_back(outcome(record));
  return outcomes;
}

void Interleaving::round(Implementation& implementation, Record& record, bool is_timed) const {
  using Clock = std::chrono::steady_clock;
  implementation.write(calls_);
  MPI_Barrier(control_.get());
  const Clock::time_point start = Clock::now();
  implementation.run();
  const Clock::time_point end = Clock::now();
  if (is_timed) {
    record.seconds.push_back(std::chrono::duration<double>(end - start).count());
    if (const auto posted = implementation.posted_seconds()) record.posted_seconds.push_back(*posted);
  }
  if (options_.check) {
    record.wrong += implementation.count_wrong(calls_);
  } else {
    implementation.touch_outputs();
  }
}

Outcome Interleaving::outcome(const Record& record) const {
  Outcome result;
  const std::vector<double> us = slowest_us(record.seconds);
  result.times_us = {percentile(us, 0.1), percentile(us, 0.5), percentile(us, 0.9), percentile(us, 0.99)};
  if (!record.posted_seconds.empty()) result.posted_us = percentile(slowest_us(record.posted_seconds), 0.5);
  std::int64_t wrong = 0;
  MPI_Allreduce(&record.wrong, &wrong, 1, MPI_INT64_T, MPI_SUM, control_.get());
  if (options_.check) result.wrong = wrong;
  return result;
}

std::vector<double> Interleaving::slowest_us(const std::vector<double>& seconds) const {
  std::vector<double> slowest(seconds.size());
  MPI_Reduce(seconds.data(), slowest.data(), static_cast<int>(seconds.size()), MPI_DOUBLE, MPI_MAX, 0, control_.get());
  for (double& value : slowest) value *= 1e6;
  return slowest;
}

}  // namespace perf
