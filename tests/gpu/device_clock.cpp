// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "gpu/device_clock.hpp"

#include "device/cuda/backend.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <vector>

namespace lockstep::test {

using detail::cuda::Backend;
using detail::cuda::CurrentDevice;
using detail::cuda::Status;
using Clock = std::chrono::steady_clock;

namespace {

/// Limit of launches that wait for each other: CUDA blocks a caller with more than a thousand launches on a stream.
constexpr int most_launches = 500;

}  // namespace

void DeviceClock::run(const Launch& launch, int launches) const {
  const CurrentDevice current(0);
  detail::cuda::Api& api = Backend::of_this_process().api();
  for (int i = 0; i < launches; ++i) detail::cuda::check(api, launch(stream_.get(), i), "a launch");
  const Clock::time_point end = Clock::now() + std::chrono::minutes(1);
  Status status = Status::not_ready;
  while ((status = api.stream_query(stream_.get())) == Status::not_ready) {
    if (Clock::now() > end) throw std::runtime_error("a launch has not finished after a minute");
  }
  detail::cuda::check(api, status, "a launch");
}

double DeviceClock::seconds_of(const Launch& launch, int launches) const {
  const Clock::time_point start = Clock::now();
  run(launch, launches);
  return std::chrono::duration<double>(Clock::now() - start).count() / launches;
}

double DeviceClock::us_of(const Launch& launch) const {
  run(launch, 2);
  const double one = std::min(seconds_of(launch, 1), seconds_of(launch, 8));
  const int launches = std::clamp(static_cast<int>(effort_.round_seconds / one), 1, most_launches);
  std::vector<double> seconds;
  for (int round = 0; round < effort_.rounds; ++round) seconds.push_back(seconds_of(launch, launches));
  return median(seconds) * 1e6;
}

double DeviceClock::latency_us_of(const Launch& launch) const {
  run(launch, 2);
  std::vector<double> seconds;
  for (int round = 0; round < 20 * effort_.rounds; ++round) seconds.push_back(seconds_of(launch, 1));
  return median(seconds) * 1e6;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace lockstep::test
