// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/run_on_host.hpp"

#include "base/check.hpp"
#include "device/cuda/arguments.hpp"
#include "device/cuda/bodies/families.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace lockstep::detail::cuda {
namespace {

/// Checks alignment as a GPU does, on which a misaligned access is a fault.
struct HostMemory {
  template <class Word>
  static Word load(const void* source) {
    LOCKSTEP_CHECK(reinterpret_cast<std::uintptr_t>(source) % sizeof(Word) == 0);
    Word word;
    std::memcpy(&word, source, sizeof(Word));
    return word;
  }
  template <class Word>
  static void store(void* target, const Word& word) {
    LOCKSTEP_CHECK(reinterpret_cast<std::uintptr_t>(target) % sizeof(Word) == 0);
    std::memcpy(target, &word, sizeof(Word));
  }
};

/// Calls `body` as each thread of a grid for that many tiles; some blocks have several tiles. Every other call runs the
/// threads backwards, because the order on a GPU is unspecified.
template <class Body>
void for_each_worker(std::int64_t tiles, const Body& body) {
  static std::atomic<unsigned> calls{0};
  const bool is_backwards = calls.fetch_add(1) % 2 != 0;
  const std::int64_t blocks = std::min<std::int64_t>(tiles, 3);
  const std::int64_t workers = blocks * threads_per_block;
  for (std::int64_t i = 0; i < workers; ++i) {
    const std::int64_t worker = is_backwards ? workers - 1 - i : i;
    body(Worker{worker / threads_per_block, blocks, static_cast<int>(worker % threads_per_block)});
  }
}

template <class Visit>
Status with_elements(ReduceOp op, DType dtype, const Visit& visit) {
  switch (op) {
    case ReduceOp::sum: return with_wrapping<ReduceOp::sum>(dtype, visit);
    case ReduceOp::mean:
      return is_integer(dtype) ? with_integer_means(dtype, visit) : with_floats<ReduceOp::sum>(dtype, visit);
    case ReduceOp::min: return with_ordered<ReduceOp::min>(dtype, visit);
    case ReduceOp::max: return with_ordered<ReduceOp::max>(dtype, visit);
    case ReduceOp::prod: return with_wrapping<ReduceOp::prod>(dtype, visit);
    case ReduceOp::band: return with_sizes<ReduceOp::band>(dtype, visit);
    case ReduceOp::bor: return with_sizes<ReduceOp::bor>(dtype, visit);
    case ReduceOp::bxor: return with_sizes<ReduceOp::bxor>(dtype, visit);
  }
  return Status::invalid_value;
}

template <class Step>
void step_on_host(const Step& step, const std::span<float> (&outputs)[Step::written],
                  const std::span<const float> (&inputs)[Step::read]) {
  const OptimizerStepArguments<Step> arguments = optimizer_step_arguments(step, outputs, inputs);
  for_each_worker(tiles(arguments.split, optimizer_step_lanes, 1).count(),
                  [&](const Worker& worker) { optimizer_step<Step, HostMemory>(arguments, worker); });
}

}  // namespace

void fold_on_host(const Fold& fold, std::int64_t count) {
  const Status status = with_elements(fold.op, fold.dtype, [&]<class Elements>(Elements) {
    const FoldArguments arguments = fold_arguments(fold, count, shape_of<Elements>);
    return with_inputs<Elements>(fold, [&]<class Inputs>(Inputs) {
      for_each_worker(tiles(arguments.split, Elements::lanes, Inputs::at_once).count(),
                      [&](const Worker& worker) { cuda::fold<Inputs, HostMemory>(arguments, worker); });
      return Status::success;
    });
  });
  LOCKSTEP_CHECK(status == Status::success);
}

void copy_on_host(std::span<const CopyRegion> pieces) {
  while (!pieces.empty()) {
    const CopyArguments arguments = copy_arguments(pieces);
    for_each_worker(arguments.first_chunk[arguments.region_count],
                    [&](const Worker& worker) { copy<HostMemory>(arguments, worker); });
  }
}

void fill_on_host(void* target, const void* element, std::size_t element_bytes, std::int64_t count) {
  const FillArguments arguments = fill_arguments(target, element, element_bytes, count);
  for_each_worker(tiles(arguments), [&](const Worker& worker) { fill<HostMemory>(arguments, worker); });
}

void elementwise_on_host(const Elementwise& what) {
  const Status status = with_ordered<ReduceOp::max>(what.dtype, [&]<class Elements>(Elements) {
    const ElementwiseArguments arguments = elementwise_arguments(what, shape_of<Elements>);
    for_each_worker(tiles(arguments.split, Elements::lanes, 1).count(),
                    [&](const Worker& worker) { cuda::compute_elementwise<Elements, HostMemory>(arguments, worker); });
    return Status::success;
  });
  LOCKSTEP_CHECK(status == Status::success);
}

void sparse_update_on_host(const SparseUpdate& update, void* carried) {
  const Status status = with_ordered<ReduceOp::max>(update.dtype, [&]<class Elements>(Elements) {
    return with_sparse_update_arguments<Elements>(update, carried, [](const SparseUpdateArguments& arguments) {
      for_each_worker(tiles(arguments, Elements::lanes), [&](const Worker& worker) {
        cuda::apply_sparse_update<Elements, HostMemory>(arguments, worker);
      });
      return Status::success;
    });
  });
  LOCKSTEP_CHECK(status == Status::success);
}

void sgd_step_on_host(std::span<float> parameter, std::span<const float> gradient, float rate) {
  step_on_host(SgdStep{rate}, {parameter}, {gradient});
}

void momentum_step_on_host(std::span<float> parameter, std::span<float> movement, std::span<const float> gradient,
                           float rate, float momentum) {
  step_on_host(MomentumStep{rate, momentum}, {parameter, movement}, {gradient});
}

void adam_step_on_host(std::span<float> parameter, std::span<float> mean, std::span<float> square,
                       std::span<const float> gradient, const AdamFactors& factors) {
  step_on_host(AdamStep{factors}, {parameter, mean, square}, {gradient});
}

void adam_moments_on_host(std::span<float> mean, std::span<float> square, std::span<const float> gradient, float beta_1,
                          float beta_2) {
  step_on_host(AdamMoments{beta_1, beta_2}, {mean, square}, {gradient});
}

void lamb_direction_on_host(std::span<float> out, std::span<const float> parameter, std::span<const float> mean,
                            std::span<const float> square, const LambFactors& factors) {
  step_on_host(LambDirection{factors}, {out}, {parameter, mean, square});
}

}  // namespace lockstep::detail::cuda
