// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>

#include <cstdint>

namespace lockstep {

/// The argument of a dataset function. The function creates input pipeline `input_pipeline_id` of `num_input_pipelines`
/// pipelines. There is one pipeline per rank or, with InputReplicationMode::per_replica, one pipeline per replica.
class LOCKSTEP_API InputContext {
 public:
  /// Throws Error(invalid_argument) unless 0 <= input_pipeline_id < num_input_pipelines and num_replicas_in_sync >= 1.
  explicit InputContext(int num_input_pipelines = 1, int input_pipeline_id = 0, int num_replicas_in_sync = 1);

  [[nodiscard]] int num_input_pipelines() const noexcept { return num_input_pipelines_; }
  [[nodiscard]] int input_pipeline_id() const noexcept { return input_pipeline_id_; }
  [[nodiscard]] int num_replicas_in_sync() const noexcept { return num_replicas_in_sync_; }

  /// Number of rows that one replica gets of a global batch of `global_batch_size` rows. Local. Throws
  /// Error(invalid_argument) if `global_batch_size` is negative or not a multiple of the number of replicas.
  [[nodiscard]] std::int64_t get_per_replica_batch_size(std::int64_t global_batch_size) const;

 private:
  int num_input_pipelines_;
  int input_pipeline_id_;
  int num_replicas_in_sync_;
};

}  // namespace lockstep
