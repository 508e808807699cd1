// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An in-place all_reduce of a list of tensors: the buffers, their inputs, and the expected outputs.

#pragma once

#include "bench/perf/buckets.hpp"
#include "bench/perf/buffers.hpp"
#include "bench/perf/case.hpp"
#include "bench/perf/implementation.hpp"
#include "bench/perf/pattern.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perf {

/// A list of tensors to be reduced.
struct ListCase {
  std::string name;
  std::vector<std::int64_t> counts;  ///< elements of each tensor
  lockstep::DType dtype = lockstep::DType::f32;
  lockstep::ReduceOp op = lockstep::ReduceOp::sum;
  Form form = Form::blocking;

  [[nodiscard]] std::int64_t count() const noexcept;
  [[nodiscard]] std::vector<std::int64_t> bytes_of_tensors() const;
  /// The list as one tensor with as many elements.
  [[nodiscard]] Case as_one() const noexcept {
    return {.dtype = dtype, .op = op, .count = count(), .placement = Placement::in_place, .form = form};
  }
};

/// How a list is divided into calls.
enum class ListMode : std::uint8_t { one_plan, one_by_one, buckets, gradient_buckets };
/// The modes of lockstep. `gradient_buckets` is lockstep::GradientBuckets, for ranks with one replica: it is called by
/// a thread for each replica, but the benchmark has one thread.
[[nodiscard]] std::span<const ListMode> modes_of(const Job& job) noexcept;
[[nodiscard]] std::string_view to_string(ListMode mode) noexcept;

/// The tensors of this rank's replicas. Those of one replica are in one allocation, each aligned to a cache line.
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

/// `tensors` is shared by the calls that are interleaved, and outlives them.
class ListCall : public Implementation {
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
  std::vector<Pattern> inputs_;  // contents of each local replica's input
  Pattern result_;
};

}  // namespace perf
