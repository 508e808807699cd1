// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One call of a collective on simulated ranks with one replica each: its tensors, and the values that its outputs must
// have.

#pragma once

#include "collectives/call/call.hpp"
#include "collectives/call/host_item.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// The collectives that are measured, by name. Throws Error(invalid_argument) for another name.
[[nodiscard]] OperationKind kind_of(std::string_view name);

/// The sums that an output may have.
enum class Sums : std::uint8_t {
  canonical,  ///< those of the canonical tree, bit by bit
  any_order,  ///< those of any order of the additions
};

class ScaledCall {
 public:
  /// `bytes` is the size of the longest tensor of a rank, as in bench/: of a reduce_scatter the input, of an all_gather
  /// or gather the output, of a scatter the input of the root. Tensors have elements of f32, parts at least one.
  ScaledCall(OperationKind kind, int ranks, int rank, std::int64_t bytes);

  [[nodiscard]] const Call& call() const noexcept { return call_; }
  /// Elements of a tensor, or of one part of it if it has one for each rank.
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// Null if this rank has no input.
  [[nodiscard]] const float* input() const noexcept { return input_.empty() ? nullptr : input_.data(); }
  /// Null if this rank has no output. In a broadcast, the output of the root is its input.
  [[nodiscard]] float* output() noexcept;
  [[nodiscard]] HostItem item();

  /// Overwrites the output, so that `wrong` cannot see values of an earlier call.
  void clear_output();
  /// The number of wrong elements in the outputs of all ranks; of sums, about 1000 elements of each output are checked.
  /// Collective.
  [[nodiscard]] long wrong(Sums sums) const;

 private:
  /// Whether tensors have one part for each rank.
  [[nodiscard]] bool has_parts() const noexcept;
  [[nodiscard]] float expected(std::int64_t element) const;
  [[nodiscard]] bool is_right(std::int64_t element, Sums sums) const;

  Call call_;
  int ranks_;
  int rank_;
  std::int64_t count_;
  std::vector<float> input_;
  std::vector<float> output_;
};

}  // namespace lockstep::detail
