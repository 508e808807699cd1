// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Compiled when a build is set up: tests whether nvcc works with the C++ compiler and its headers.

#include <array>
#include <cstdint>
#include <span>

__global__ void probe(std::uint32_t* target, std::uint32_t value) { target[threadIdx.x] = value; }
