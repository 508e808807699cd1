// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One collective, send or receive as it was called, and the part of it that all ranks must agree on.

#pragma once

#include <lockstep/core/dtype.hpp>

#include "bindings/nccl/nccl.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep::test {

enum class FakeKind : std::uint8_t { all_reduce, reduce, broadcast, reduce_scatter, all_gather, send, recv };

struct FakeCall {
  FakeKind kind = FakeKind::all_reduce;
  const void* source = nullptr;
  void* target = nullptr;
  std::size_t count = 0;
  DType dtype = DType::f32;
  detail::nccl::RedOp op = detail::nccl::RedOp::sum;
  int root = -1;  // or the peer
  detail::nccl::Stream stream = nullptr;
};

[[nodiscard]] constexpr bool is_collective(FakeKind kind) { return kind < FakeKind::send; }

/// The elements that `rank` of `ranks` reads and writes; 0 if none.
[[nodiscard]] std::size_t source_bytes(const FakeCall& call, int rank, int ranks);
[[nodiscard]] std::size_t target_bytes(const FakeCall& call, int rank, int ranks);

/// The part that all ranks must agree on; the head of every message. No padding: it travels as its bytes.
struct FakeHeading {
  std::uint64_t count = 0;
  std::int32_t root = -1;
  FakeKind kind = FakeKind::all_reduce;
  DType dtype = DType::f32;
  detail::nccl::RedOp op = detail::nccl::RedOp::sum;
  std::uint8_t unused = 0;

  friend bool operator==(const FakeHeading&, const FakeHeading&) = default;
};
static_assert(sizeof(FakeHeading) == 16);

/// For a receive, the heading of the send that it expects.
[[nodiscard]] FakeHeading heading_of(const FakeCall& call);

/// "all_reduce of 10 f32 (sum)", "broadcast of 3 i32 from 1", "send of 2 u8".
[[nodiscard]] std::string describe(const FakeHeading& heading);

}  // namespace lockstep::test
