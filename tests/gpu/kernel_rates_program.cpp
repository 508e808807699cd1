// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "gpu/kernel_rates.hpp"

#include <lockstep/device/gpu.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <exception>
#include <fstream>
#include <string_view>

namespace lockstep::test {
namespace {

enum ExitCode { done = 0, wrong_result = 1, bad_argument = 2, no_gpu = 77 };

bool write_json(const std::string& name, const nlohmann::ordered_json& json) {
  if (name.empty()) return true;
  std::ofstream file(name);
  file << json.dump(2) << '\n';
  if (file.flush()) return true;
  fmt::print(stderr, "kernel-rates: \"{}\": the file cannot be written\n", name);
  return false;
}

}  // namespace

int run_kernel_rates(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--status") {
    fmt::print("{}\n", gpu_status());
    return gpu_count() == 0 ? no_gpu : done;
  }
  bool quick = false;
  std::string file;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--quick") {
      quick = true;
    } else if (!argument.starts_with("-") && file.empty()) {
      file = argument;
    } else {
      fmt::print(stderr, "kernel-rates: \"{}\": give --quick and the name of one file, --status, or nothing\n",
                 argument);
      return bad_argument;
    }
  }
  fmt::print("# kernel-rates, {}\n", gpu_status());
  if (gpu_count() == 0) return write_json(file, {{"gpu", gpu_status()}}) ? no_gpu : bad_argument;
  print_heading();
  try {
    const KernelRates rates = measure_kernels(quick);
    print_rest(rates);
    if (!write_json(file, to_json(rates))) return bad_argument;
    return rates.wrong() == 0 ? done : wrong_result;
  } catch (const std::exception& error) {
    fmt::print(stderr, "kernel-rates: {}\n", error.what());
    return wrong_result;
  }
}

}  // namespace lockstep::test
