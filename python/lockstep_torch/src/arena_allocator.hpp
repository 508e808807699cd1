// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Tensors in lockstep's arena, the memory that all ranks of a node map: collectives use them in place.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>

namespace lockstep_torch {

/// A tensor of `count` elements in the arena. Throws c10::DistBackendError for a device other than the host.
[[nodiscard]] at::Tensor arena_tensor(std::int64_t count, const at::TensorOptions& options);

/// From now on, new tensors of this process of at least `least_bytes` bytes are in the arena. Thread-safe.
void put_tensors_in_arena(std::size_t least_bytes);
/// From now on, new tensors of this process are in ordinary memory. Tensors in the arena stay there. Thread-safe.
void put_tensors_in_ordinary_memory();

/// Whether all elements of `tensor` are in the arena.
[[nodiscard]] bool is_in_arena(const at::Tensor& tensor);

}  // namespace lockstep_torch
