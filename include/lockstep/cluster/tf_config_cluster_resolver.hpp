// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cluster/cluster_resolver.hpp>

#include <optional>
#include <string>

namespace lockstep {

struct TFConfigOptions {
  /// Overrides the type or index in TF_CONFIG.
  std::optional<std::string> task_type = std::nullopt;
  std::optional<int> task_id = std::nullopt;
  Accelerators accelerators = {};
};

/// The cluster that the environment variable TF_CONFIG describes:
///
///   {"cluster": {"chief": ["c:1"], "worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
///
/// A job is a list of addresses, or, if task numbers have gaps, an object of addresses by number: {"0": "a:1", "2":
/// "b:1"}. The cluster is empty if the variable is not set or empty, or has no member "cluster". Other members are
/// ignored: systems that write TF_CONFIG add their own.
///
/// To train on such a cluster under mpirun, pass the resolver to MultiWorkerMirroredStrategy, which compares it with
/// the ranks.
class LOCKSTEP_API TFConfigClusterResolver : public ClusterResolver {
 public:
  /// Local.
  /// Throws Error(invalid_argument), with the place in the document, for invalid JSON, a member of the wrong type, a
  /// duplicate member, an empty name or address, a number below 0 or above 2147483647, a task without type or without
  /// index, and a task that is not in the cluster (an evaluator need not be).
  explicit TFConfigClusterResolver(const TFConfigOptions& options = {});
  /// Reads `text` instead of the environment variable.
  [[nodiscard]] static TFConfigClusterResolver from_text(const std::string& text, const TFConfigOptions& options = {});

 private:
  TFConfigClusterResolver(const std::string& text, const TFConfigOptions& options);
};

}  // namespace lockstep
