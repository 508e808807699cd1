// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The time of a launch in a CUDA graph, without the host's part.

#include "gpu/device_clock.hpp"

#include "device/cuda/backend.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <vector>

namespace lockstep::test {
namespace {

void require(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw std::runtime_error(fmt::format("{}: {}", call, cudaGetErrorString(error)));
}

/// A graph of `launches` consecutive launches. Pinned.
class Graph {
 public:
  Graph(const Launch& launch, int launches) : stream_(0) {
    const auto stream = static_cast<cudaStream_t>(stream_.get());
    cudaGraph_t graph = nullptr;
    require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    for (int i = 0; i < launches; ++i) {
      detail::cuda::check(detail::cuda::Backend::of_this_process().api(), launch(stream, i), "a launch in a graph");
    }
    require(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    const cudaError_t error = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    require(error, "cudaGraphInstantiate");
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { cudaGraphExecDestroy(executable_); }

  [[nodiscard]] double seconds_of(int replays) const {
    using Clock = std::chrono::steady_clock;
    const auto stream = static_cast<cudaStream_t>(stream_.get());
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < replays; ++i) require(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
    require(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return std::chrono::duration<double>(Clock::now() - start).count() / replays;
  }

 private:
  detail::cuda::OwnedStream stream_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

std::optional<double> graph_us_of(const Launch& launch, int launches, const Effort& effort) {
  const detail::cuda::CurrentDevice current(0);
  const Graph graph(launch, launches);
  static_cast<void>(graph.seconds_of(2));
  const int replays = std::clamp(static_cast<int>(effort.round_seconds / graph.seconds_of(1)), 1, 100);
  std::vector<double> seconds;
  for (int round = 0; round < effort.rounds; ++round) seconds.push_back(graph.seconds_of(replays) / launches);
  return median(seconds) * 1e6;
}

}  // namespace lockstep::test
