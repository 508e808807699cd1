// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a job in tf.distribute's words: a cluster of tasks, each with a type and a number.

#pragma once

#include <lockstep/base/export.hpp>

#include <map>
#include <string>
#include <vector>

namespace lockstep {

/// The tasks of each type, by number, each with a name to be shown.
using ClusterSpec = std::map<std::string, std::vector<std::string>>;

/// Which task of which cluster this process is. A view to read: nothing is configured by it. A value.
class LOCKSTEP_API ClusterResolver {
 public:
  /// Rank `rank` of `ranks`: every rank is a task of type "worker", whose number is its rank and whose name is
  /// "rank:<number>". Throws Error(invalid_argument) for a rank that does not exist.
  ClusterResolver(int rank, int ranks);

  [[nodiscard]] const std::string& task_type() const noexcept { return task_type_; }
  [[nodiscard]] int task_id() const noexcept { return task_id_; }
  [[nodiscard]] const ClusterSpec& cluster_spec() const noexcept { return cluster_spec_; }

 private:
  std::string task_type_ = "worker";
  int task_id_;
  ClusterSpec cluster_spec_;
};

}  // namespace lockstep
