// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Which device each replica of a rank is on.

#pragma once

#include <lockstep/lockstep.hpp>

#include <vector>

namespace train {

/// cpu:0, cpu:1, ... Arithmetic.
[[nodiscard]] std::vector<lockstep::Device> cpus_of_replicas(int replicas);

/// Ranks of a node take turns in the `gpus`, at least one, that each of them sees; a rank that has several puts
/// neighbours among its replicas on one: of 4 replicas on 2 GPUs gpu:0, gpu:0#1, gpu:1, gpu:1#1. Arithmetic.
[[nodiscard]] std::vector<lockstep::Device> gpus_of_replicas(int gpus, int rank_of_node, int ranks_of_node,
                                                             int replicas);

}  // namespace train
