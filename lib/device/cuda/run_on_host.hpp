// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What the kernels do, done by this thread: the bodies that run on a GPU, thread by thread and block by block, for tests
// without one. Pointers are host memory; everything is done on return. The contracts are those of `Kernels`.

#pragma once

#include "device/cuda/kernels.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::detail::cuda {

void fold_on_host(const Fold& fold, std::int64_t count);

void copy_on_host(std::span<const CopyPiece> pieces);

void fill_on_host(void* target, const void* element, std::size_t element_bytes, std::int64_t count);

}  // namespace lockstep::detail::cuda
