// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// All of lockstep but `interop/`, whose headers need a foreign library.

#pragma once

#include <lockstep/base/error.hpp>
#include <lockstep/base/export.hpp>
#include <lockstep/cluster/cluster_resolver.hpp>
#include <lockstep/cluster/environment.hpp>
#include <lockstep/cluster/replica_layout.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/plan.hpp>
#include <lockstep/collectives/request.hpp>
#include <lockstep/collectives/schedule_model.hpp>
#include <lockstep/context/context.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/context/run_options.hpp>
#include <lockstep/context/statistics.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/float16.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/shape.hpp>
#include <lockstep/core/tensor_traits.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/arena.hpp>
#include <lockstep/device/memory_resource.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/input/array_dataset.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/distributed_dataset.hpp>
#include <lockstep/input/element.hpp>
#include <lockstep/input/feed.hpp>
#include <lockstep/input/idx.hpp>
#include <lockstep/input/input_context.hpp>
#include <lockstep/input/input_options.hpp>
#include <lockstep/input/pipeline.hpp>
#include <lockstep/input/scale.hpp>
#include <lockstep/strategy/initial_value.hpp>
#include <lockstep/strategy/logical_devices.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>
#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>
#include <lockstep/strategy/one_device_strategy.hpp>
#include <lockstep/strategy/reduction.hpp>
#include <lockstep/strategy/replica_results.hpp>
#include <lockstep/strategy/scope.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/strategy/strategy_extended.hpp>
#include <lockstep/strategy/update.hpp>
#include <lockstep/strategy/v1.hpp>
#include <lockstep/strategy/value_context.hpp>
#include <lockstep/training/adam.hpp>
#include <lockstep/training/cosine_decay.hpp>
#include <lockstep/training/gradient_buckets.hpp>
#include <lockstep/training/optimizer.hpp>
#include <lockstep/training/sgd.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/merge.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/print.hpp>
#include <lockstep/values/reduced.hpp>
#include <lockstep/values/tree.hpp>
#include <lockstep/variables/variable.hpp>
