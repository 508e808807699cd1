// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/fake_nccl_call.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace lockstep::test {
namespace {

constexpr std::array<std::string_view, 7> kind_names = {"all_reduce", "reduce", "broadcast", "reduce_scatter",
                                                        "all_gather", "send",   "recv"};
constexpr std::array<std::string_view, 4> op_names = {"sum", "prod", "max", "min"};

bool is_reduction(FakeKind kind) {
  return kind == FakeKind::all_reduce || kind == FakeKind::reduce || kind == FakeKind::reduce_scatter;
}

std::size_t bytes_of(const FakeCall& call) { return call.count * size_of(call.dtype); }

}  // namespace

std::size_t source_bytes(const FakeCall& call, int rank, int ranks) {
  switch (call.kind) {
    case FakeKind::recv: return 0;
    case FakeKind::broadcast: return rank == call.root ? bytes_of(call) : 0;
    case FakeKind::reduce_scatter: return bytes_of(call) * static_cast<std::size_t>(ranks);
    default: return bytes_of(call);
  }
}

std::size_t target_bytes(const FakeCall& call, int rank, int ranks) {
  switch (call.kind) {
    case FakeKind::send: return 0;
    case FakeKind::reduce: return rank == call.root ? bytes_of(call) : 0;
    case FakeKind::all_gather: return bytes_of(call) * static_cast<std::size_t>(ranks);
    default: return bytes_of(call);
  }
}

FakeHeading heading_of(const FakeCall& call) {
  FakeHeading heading;
  heading.count = call.count;
  heading.kind = call.kind == FakeKind::recv ? FakeKind::send : call.kind;
  heading.dtype = call.dtype == DType::boolean ? DType::u8 : call.dtype;  // which NCCL does not have
  if (is_reduction(call.kind)) heading.op = call.op;
  if (call.kind == FakeKind::reduce || call.kind == FakeKind::broadcast) heading.root = call.root;
  return heading;
}

std::string describe(const FakeHeading& heading) {
  std::string text = fmt::format("{} of {} {}", kind_names.at(static_cast<std::size_t>(heading.kind)), heading.count,
                                 to_string(heading.dtype));
  if (is_reduction(heading.kind)) text += fmt::format(" ({})", op_names.at(static_cast<std::size_t>(heading.op)));
  if (heading.kind == FakeKind::reduce) text += fmt::format(" to {}", heading.root);
  if (heading.kind == FakeKind::broadcast) text += fmt::format(" from {}", heading.root);
  return text;
}

}  // namespace lockstep::test
