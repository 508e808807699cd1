// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/input_context.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"

namespace lockstep {

InputContext::InputContext(int num_input_pipelines, int input_pipeline_id, int num_replicas_in_sync)
    : num_input_pipelines_(num_input_pipelines),
      input_pipeline_id_(input_pipeline_id),
      num_replicas_in_sync_(num_replicas_in_sync) {
  if (num_input_pipelines < 1 || input_pipeline_id < 0 || input_pipeline_id >= num_input_pipelines) {
    detail::throw_error(Code::invalid_argument,
                        "InputContext: input_pipeline_id {} with num_input_pipelines {}; the id must be in 0 to "
                        "num_input_pipelines - 1",
                        input_pipeline_id, num_input_pipelines);
  }
  if (num_replicas_in_sync < 1) {
    detail::throw_error(Code::invalid_argument, "InputContext: num_replicas_in_sync is {}; it must be at least 1",
                        num_replicas_in_sync);
  }
}

std::int64_t InputContext::get_per_replica_batch_size(std::int64_t global_batch_size) const {
  if (global_batch_size < 0 || global_batch_size % num_replicas_in_sync_ != 0) {
    detail::throw_error(Code::invalid_argument,
                        "get_per_replica_batch_size: global_batch_size is {}; it must be at least 0 and a multiple of "
                        "the number of replicas, {}",
                        global_batch_size, num_replicas_in_sync_);
  }
  return global_batch_size / num_replicas_in_sync_;
}

}  // namespace lockstep
