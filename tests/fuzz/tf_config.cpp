// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// TF_CONFIG: every input is a cluster, which is unchanged after writing and reading it again, or throws
// Error(invalid_argument).

#include "target.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/cluster/tf_config_cluster_resolver.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using lockstep::TFConfigClusterResolver;
  try {
    const auto resolver = TFConfigClusterResolver::from_text(std::string(reinterpret_cast<const char*>(data), size));
    const auto again = TFConfigClusterResolver::from_text(to_tf_config(resolver));
    if (again.cluster_spec() != resolver.cluster_spec() || again.task() != resolver.task()) std::abort();
  } catch (const lockstep::Error& error) {
    if (error.code() != lockstep::Code::invalid_argument) std::abort();
  }
  return 0;
}
