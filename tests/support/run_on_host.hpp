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

void copy_on_host(std::span<const CopyPiece> pieces);

void fill_on_host(void* target, const void* element, std::size_t element_bytes, std::int64_t count);

void update_rows_on_host(const RowUpdate& update, void* carried);

void descend_on_host(std::span<float> parameter, std::span<const float> gradient, float rate);

void descend_with_momentum_on_host(std::span<float> parameter, std::span<float> movement,
                                   std::span<const float> gradient, float rate, float momentum);

void adapt_on_host(std::span<float> parameter, std::span<float> mean, std::span<float> square,
                   std::span<const float> gradient, const AdaptFactors& factors);

void adapt_moments_on_host(std::span<float> mean, std::span<float> square, std::span<const float> gradient,
                           float beta_1, float beta_2);

void direction_on_host(std::span<float> out, std::span<const float> parameter, std::span<const float> mean,
                       std::span<const float> square, const DirectionFactors& factors);

}  // namespace lockstep::detail::cuda
