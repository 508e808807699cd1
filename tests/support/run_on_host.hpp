// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels, run on this thread: the bodies that run on a GPU, thread by thread and block by block, for tests without
// a GPU. Pointers are host memory; everything is done on return. The contracts are those of `Kernels`.

#pragma once

#include "device/cuda/kernels.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::detail::cuda {

void fold_on_host(const Fold& fold, std::int64_t count);

void copy_on_host(std::span<const CopyRegion> pieces);

void fill_on_host(void* target, const void* element, std::size_t element_bytes, std::int64_t count);

void elementwise_on_host(const Elementwise& what);

void sparse_update_on_host(const SparseUpdate& update, void* carried);

void sgd_step_on_host(std::span<float> parameter, std::span<const float> gradient, float rate);

void momentum_step_on_host(std::span<float> parameter, std::span<float> movement, std::span<const float> gradient,
                           float rate, float momentum);

void adam_step_on_host(std::span<float> parameter, std::span<float> mean, std::span<float> square,
                       std::span<const float> gradient, const AdamFactors& factors);

void adam_moments_on_host(std::span<float> mean, std::span<float> square, std::span<const float> gradient, float beta_1,
                          float beta_2);

void lamb_direction_on_host(std::span<float> out, std::span<const float> parameter, std::span<const float> mean,
                            std::span<const float> square, const LambFactors& factors);

}  // namespace lockstep::detail::cuda
