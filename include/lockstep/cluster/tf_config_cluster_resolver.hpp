// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cluster/cluster_resolver.hpp>

#include <optional>
#include <string>

namespace lockstep {

struct TFConfigOptions {
  /// Replaces the task type in TF_CONFIG.
  std::optional<std::string> task_type = std::nullopt;
  /// Replaces the task index in TF_CONFIG.
  std::optional<int> task_id = std::nullopt;
  Accelerators accelerators = {};
};

/// The cluster that the environment variable TF_CONFIG describes:
///
///   {"cluster": {"chief": ["c:1"], "worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
///
/// A job is a list of addresses. If the task numbers have gaps, a job is an object that maps task numbers to addresses:
/// `{"0": "a:1", "2": "b:1"}`. If the variable is not set, is empty, or has no member "cluster", the cluster is empty.
/// Unknown members are ignored, because systems that write TF_CONFIG add members of their own.
///
/// To train on such a cluster under mpirun, pass the resolver to MultiWorkerMirroredStrategy, which compares the
/// cluster with the ranks of the job.
class LOCKSTEP_API TFConfigClusterResolver : public ClusterResolver {
 public:
  /// Local.
  /// Throws Error(invalid_argument), with the position in the document, for invalid JSON, a member of the wrong type, a
  /// duplicate member, an empty name or address, a task number below 0 or above 2147483647, a task without type or
  /// without index, and a task that is not in the cluster (an evaluator need not be in the cluster).
  explicit TFConfigClusterResolver(const TFConfigOptions& options = {});
  /// Reads `text` instead of the environment variable.
  [[nodiscard]] static TFConfigClusterResolver from_text(const std::string& text, const TFConfigOptions& options = {});

 private:
  TFConfigClusterResolver(const std::string& text, const TFConfigOptions& options);
};

}  // namespace lockstep
