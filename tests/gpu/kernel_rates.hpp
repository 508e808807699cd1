// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What is measured of the kernels on the first GPU, and how it is shown.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::test {

struct KernelRow {
  std::string what;  ///< "reduce", "reduce in place", "pack", "unpack"
  std::string dtype;
  int replicas = 1;
  std::int64_t bytes = 0;  ///< of one replica
  std::string alignment;
  std::int64_t wrong = 0;          ///< elements, or tensors, that are not the host's
  double us = 0;                   ///< of a launch among many
  double latency_us = 0;           ///< from a launch until the host sees its end
  std::optional<double> graph_us;  ///< of a launch in a CUDA graph
  double of_copy = 0;              ///< bytes read and written per time, as a part of what a copy reads and writes
};

struct KernelRates {
  std::string gpu;
  double launch_us = 0;          ///< of a kernel that writes 4 bytes, among many
  double launch_latency_us = 0;  ///< the same until the host sees its end
  std::optional<double> graph_launch_us;
  double copy_gbs = 0;         ///< cudaMemcpyAsync in the GPU's memory: bytes read and written
  double kernel_copy_gbs = 0;  ///< lockstep's kernel for the same
  double to_device_gbs = 0;    ///< from and to page-locked memory: bytes
  double to_host_gbs = 0;
  std::vector<KernelRow> rows;

  [[nodiscard]] std::int64_t wrong() const;
};

/// What the kernels are meant to reach.
struct KernelGoal {
  std::string text;
  bool is_least = true;  ///< else it is the most
  double wanted = 0;
  std::optional<double> found;  ///< the worst row's; none where nothing of the kind was measured

  [[nodiscard]] bool is_met() const { return found && (is_least ? *found >= wanted : *found <= wanted); }
};
[[nodiscard]] std::vector<KernelGoal> goals_of(const KernelRates& rates);

/// Measures everything, and prints each row when it is there; `quick`: little, for tests of this program. There must be
/// a GPU. Throws when CUDA fails.
[[nodiscard]] KernelRates measure_kernels(bool quick);

void print_heading();
void print(const KernelRow& row);
void print_rest(const KernelRates& rates);
[[nodiscard]] nlohmann::ordered_json to_json(const KernelRates& rates);

/// The program kernel-rates [--quick] [FILE]: measures, checks, prints, and writes all figures to FILE as JSON. Its
/// exit code: 0 all is well, 1 a result was wrong or CUDA failed, 2 the arguments cannot be, 77 there is no GPU.
[[nodiscard]] int run_kernel_rates(int argc, char** argv);

}  // namespace lockstep::test
