// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>

#include <cstdint>

namespace lockstep {

/// What a dataset function is told about its place: it makes input pipeline `input_pipeline_id` of
/// `num_input_pipelines`, one pipeline per rank or, if the options say so, per replica.
class LOCKSTEP_API InputContext {
 public:
  /// Throws Error(invalid_argument) for no pipeline, a pipeline id that does not exist, or no replica.
  explicit InputContext(int num_input_pipelines = 1, int input_pipeline_id = 0, int num_replicas_in_sync = 1);

  [[nodiscard]] int num_input_pipelines() const noexcept { return num_input_pipelines_; }
  [[nodiscard]] int input_pipeline_id() const noexcept { return input_pipeline_id_; }
  [[nodiscard]] int num_replicas_in_sync() const noexcept { return num_replicas_in_sync_; }

  /// Rows of one replica in a global batch of `global_batch_size` rows. Local.
  /// Throws Error(invalid_argument) when the replicas do not divide it, or it is below 1.
  [[nodiscard]] std::int64_t get_per_replica_batch_size(std::int64_t global_batch_size) const;

 private:
  int num_input_pipelines_;
  int input_pipeline_id_;
  int num_replicas_in_sync_;
};

}  // namespace lockstep
