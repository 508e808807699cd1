// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The tensors of one operation of a simulated rank, and what they must hold afterwards.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>
#include <lockstep/collectives/item.hpp>
#include <lockstep/core/tensor_view.hpp>

#include "simulation/scenario.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::simulation {

class NodeMemories;

/// Where the tensors of a rank are.
struct Place {
  NodeMemories* memories = nullptr;  ///< null: on the heap
  int member = 0;                    ///< of its node
};

/// The elements of a tensor.
class Values {
 public:
  Values(Place place, int count);
  [[nodiscard]] std::span<float> all() const noexcept { return {data_.get(), count_}; }
  void has_been_read() const;
  void has_been_written() const;
  void fill(float value) const;

 private:
  std::shared_ptr<float> data_;
  std::size_t count_;
};

class Buffers {
 public:
  /// Elements of an input.
  static constexpr int period = 31;

  /// For the call of `rank` in operation `number` of a communicator with `layout`. An operation that makes a
  /// communicator has no tensors.
  Buffers(const Operation& operation, int number, const ReplicaLayout& layout, int rank, Place place);

  [[nodiscard]] Item item() const { return {inputs_, outputs_}; }

  /// After a failed call: its caller may change the inputs at once, and no rank writes to the outputs any more.
  void end_by_failure();
  /// Whether the outputs are as they were after the failed call.
  [[nodiscard]] bool is_left_alone() const;

  /// Empty if all results are right.
  [[nodiscard]] std::string wrong() const;

 private:
  [[nodiscard]] Values make_values(int count) const;
  void make(int inputs, int input_count, int outputs, int output_count);
  [[nodiscard]] int first_input(int rank) const;
  /// Of all replicas.
  [[nodiscard]] float sum_of(int element) const { return sums_[static_cast<std::size_t>(element % period)]; }
  [[nodiscard]] float expected_at(int output, int element) const;

  Operation operation_;
  int number_;
  ReplicaLayout layout_;
  int rank_;
  Place place_;
  std::array<float, period> sums_{};  // of all replicas, by element
  std::vector<Values> values_;
  std::vector<Values> results_;
  std::vector<std::vector<float>> left_;  // contents of the results after a failure
  std::vector<ConstTensorView> inputs_;
  std::vector<TensorView> outputs_;
};

}  // namespace lockstep::simulation
