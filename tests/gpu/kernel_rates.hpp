// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Measurements of the kernels on the first GPU, and their report.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::test {

struct KernelRow {
  /// "reduce", "reduce in place"; "to partial", "from partials": folds with partial results; "pack", "unpack": a list
  /// of tensors; "pack 4 KiB", "unpack 4 KiB": chunks of 4 KiB
  std::string what;
  std::string dtype;
  int replicas = 1;        ///< number of inputs of a fold
  std::int64_t bytes = 0;  ///< bytes of one replica, or of all tensors of a list
  std::string alignment;
  std::int64_t wrong = 0;          ///< number of elements, or tensors, that differ from the host's
  double us = 0;                   ///< time of a launch among many
  double latency_us = 0;           ///< time from a launch until the host sees its end
  std::optional<double> graph_us;  ///< time of a launch in a CUDA graph
  double of_copy = 0;              ///< rate of bytes read and written, as a fraction of the rate of a copy
};

struct KernelRates {
  std::string gpu;
  double launch_us = 0;          ///< time of a kernel that writes 4 bytes, among many
  double launch_latency_us = 0;  ///< time of the same until the host sees its end
  std::optional<double> graph_launch_us;
  double copy_gbs = 0;         ///< cudaMemcpyAsync inside the GPU's memory: bytes read and written
  double kernel_copy_gbs = 0;  ///< lockstep's kernel for the same
  double to_device_gbs = 0;    ///< copies from and to pinned memory: bytes
  double to_host_gbs = 0;
  std::vector<KernelRow> rows;

  [[nodiscard]] std::int64_t wrong() const;
};

/// A goal of the kernels.
struct KernelGoal {
  std::string text;
  bool is_least = true;  ///< `wanted` is a lower bound, else an upper one
  double wanted = 0;
  std::optional<double> found;  ///< value of the worst row; none if there is no such row

  [[nodiscard]] bool is_met() const { return found && (is_least ? *found >= wanted : *found <= wanted); }
};
[[nodiscard]] std::vector<KernelGoal> goals_of(const KernelRates& rates);

/// Measures everything and prints each row when it is complete. `quick` measures little, for tests of this program.
/// Needs a GPU. Throws if CUDA fails.
[[nodiscard]] KernelRates measure_kernels(bool quick);

void print_heading();
void print(const KernelRow& row);
void print_rest(const KernelRates& rates);
[[nodiscard]] nlohmann::ordered_json to_json(const KernelRates& rates);

/// The program kernel-rates [--quick] [FILE]: measures, checks, prints, and writes all figures to FILE as JSON.
/// kernel-rates --status: only prints gpu_status(). Exit code: 0 success, 1 a result was wrong or CUDA failed, 2
/// invalid arguments, 77 there is no GPU.
[[nodiscard]] int run_kernel_rates(int argc, char** argv);

}  // namespace lockstep::test
