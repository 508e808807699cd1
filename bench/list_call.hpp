// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An all_reduce of many tensors in place: the memory, what is written there, what must be there after.

#pragma once

#include "buckets.hpp"
#include "buffers.hpp"
#include "case.hpp"
#include "contestant.hpp"
#include "pattern.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perf {

/// One list that is to be reduced.
struct ListCase {
  std::string name;
  std::vector<std::int64_t> counts;  ///< elements of each tensor
  lockstep::DType dtype = lockstep::DType::f32;
  lockstep::ReduceOp op = lockstep::ReduceOp::sum;

  [[nodiscard]] std::int64_t count() const noexcept;
  [[nodiscard]] std::vector<std::int64_t> bytes_of_tensors() const;
  /// As if it were one tensor.
  [[nodiscard]] Case as_one() const noexcept {
    return {.dtype = dtype, .op = op, .count = count(), .placement = Placement::in_place};
  }
};

/// In how many calls a list is reduced.
enum class ListMode : std::uint8_t { one_plan, one_by_one, buckets };
inline constexpr std::array<ListMode, 3> list_modes{ListMode::one_plan, ListMode::one_by_one, ListMode::buckets};
[[nodiscard]] std::string_view to_string(ListMode mode) noexcept;

/// The tensors of this rank's replicas, each replica's in one block, with an own cache line each.
class ListTensors {
 public:
  ListTensors(const ListCase& what, const Memory& memory);
  [[nodiscard]] const ListCase& what() const noexcept { return what_; }
  [[nodiscard]] const Memory& memory() const noexcept { return memory_; }
  [[nodiscard]] std::size_t replicas() const noexcept { return replicas_.size(); }
  [[nodiscard]] std::span<const Region> of_replica(std::size_t index) const { return replicas_[index]; }

  /// Bytes of one replica. Local.
  [[nodiscard]] static std::int64_t bytes(const ListCase& what);

 private:
  ListCase what_;
  Memory memory_;
  std::vector<DeviceBlock> blocks_;
  std::vector<std::vector<Region>> replicas_;
};

/// `tensors` is shared by the calls that take turns on it, and outlives them.
class ListCall : public Contestant {
 public:
  ListCall(const ListTensors& tensors, const Job& job, Values values);
  void write(std::int64_t call) final;
  [[nodiscard]] std::int64_t count_wrong(std::int64_t call) const final;
  void touch_outputs() const final;
  [[nodiscard]] std::optional<double> posted_seconds() const final { return posted_seconds_; }

 protected:
  [[nodiscard]] const ListTensors& tensors() const noexcept { return tensors_; }

  std::optional<double> posted_seconds_;

 private:
  const ListTensors& tensors_;
  std::vector<Pattern> inputs_;  // of each local replica
  Pattern result_;
};

}  // namespace perf
