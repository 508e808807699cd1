// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/strategy/v1.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"

namespace lockstep::v1 {
namespace detail {

using lockstep::detail::counted;
using lockstep::detail::throw_error;

void throw_not_initialized() {
  throw_error(Code::failed_precondition,
              "get_next: the input iterator has not been initialized; call initialize() before the first step");
}

void throw_at_end(int replicas) {
  throw_error(Code::out_of_range,
              "get_next: the input iterator is at its end: there is no further input for {}; call "
              "initialize() to start over",
              counted(replicas, "replica"));
}

void check_replication_mode(InputReplicationMode mode) {
  if (mode == InputReplicationMode::per_worker) return;
  throw_error(Code::invalid_argument,
              "make_input_fn_iterator: replication_mode is {}, but only PER_WORKER is supported: one call of input_fn, "
              "whose dataset feeds all replicas of the process",
              mode == InputReplicationMode::per_replica ? "PER_REPLICA" : "unknown");
}

void check_batched(bool is_batched, int replicas) {
  if (is_batched) return;
  throw_error(Code::invalid_argument,
              "make_dataset_iterator: the dataset has no batches that could be divided among {}; call "
              "batch(global_batch_size) on it, or use make_input_fn_iterator, which gives each replica whole elements",
              counted(replicas, "replica"));
}

}  // namespace detail

Config MirroredStrategy::update_config_proto(const Config& config) const {
  Config updated = config;
  updated.isolate_session_state = true;
  return updated;
}

Config OneDeviceStrategy::update_config_proto(const Config& config) const { return config; }

}  // namespace lockstep::v1
