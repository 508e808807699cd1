// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cluster/cluster_resolver.hpp>

#include <optional>
#include <string>

namespace lockstep {

struct TFConfigOptions {
  /// Goes before what TF_CONFIG says.
  std::optional<std::string> task_type = std::nullopt;
  std::optional<int> task_id = std::nullopt;
  Accelerators accelerators = {};
};

/// The cluster that the variable TF_CONFIG describes:
///
///   {"cluster": {"chief": ["c:1"], "worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
///
/// A job is a list of addresses, or an object of addresses by number where numbers have gaps: {"0": "a:1", "2": "b:1"}.
/// Without the variable, or when it is empty, or without "cluster", the cluster is empty. Other members than these are
/// left alone: systems that write TF_CONFIG add their own.
///
/// To train on such a cluster under mpirun, give the resolver to MultiWorkerMirroredStrategy, which compares it with
/// the ranks.
class LOCKSTEP_API TFConfigClusterResolver : public ClusterResolver {
 public:
  /// Local. Throws Error(invalid_argument) that says where and what: for text that is no JSON, a member of the wrong
  /// type, one that is there twice, an empty name or address, a number below 0 or above 2147483647, half a task, and
  /// a task that is not in the cluster (an evaluator need not be).
  explicit TFConfigClusterResolver(const TFConfigOptions& options = {});
  /// The same from `text` in place of the variable.
  [[nodiscard]] static TFConfigClusterResolver from_text(const std::string& text, const TFConfigOptions& options = {});

 private:
  TFConfigClusterResolver(const std::string& text, const TFConfigOptions& options);
};

}  // namespace lockstep
