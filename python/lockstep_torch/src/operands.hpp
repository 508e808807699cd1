// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The tensors of one call, as lockstep sees them.

#pragma once

#include <ATen/core/Tensor.h>
#include <lockstep/collectives/item.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/tensor_view.hpp>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep_torch {

/// The lockstep operation for `op` on elements of type `type`. The sum of bool is "or", its product is "and", as with
/// the other backends of torch. Throws lockstep::Error(invalid_argument), whose text begins with `call`, if lockstep
/// cannot reduce such elements by `op`.
[[nodiscard]] lockstep::ReduceOp reduce_op(const std::string& call, const c10d::ReduceOp& op, at::ScalarType type);

/// Number of elements that lockstep counts for one element of type `type`: 2 for complex numbers.
[[nodiscard]] std::int64_t elements_per_element(at::ScalarType type);

/// Keeps the tensors of one call alive. lockstep reads and writes contiguous elements in host memory: other tensors are
/// copied when they are added, and the results are copied back in `finish`. A complex number is a pair of real numbers;
/// elements of a type that lockstep does not know (such as 8-bit floats) are bytes, which can be moved but not reduced.
/// The functions that add a tensor throw lockstep::Error(invalid_argument) for a tensor that is not a dense tensor in
/// host memory. Not thread-safe, but `finish` may be called by another thread.
class Operands {
 public:
  /// `call` begins the texts of errors: "all_reduce".
  explicit Operands(std::string call) : call_(std::move(call)) {}
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  /// An item with an input, an output, or both. `rows`: the number of rows of the tensors, for calls that count rows;
  /// other tensors have one dimension.
  void add(const std::optional<at::Tensor>& input, const std::optional<at::Tensor>& output,
           std::optional<std::int64_t> rows_of_input = {}, std::optional<std::int64_t> rows_of_output = {});
  /// An item with one input for each replica, and one output.
  void add_replicas(const std::vector<at::Tensor>& inputs, const at::Tensor& output);
  /// An item whose output is its input.
  void add_in_place(const at::Tensor& tensor);
  /// One tensor with the elements of `parts`, one part after another.
  [[nodiscard]] at::Tensor join(const std::vector<at::Tensor>& parts) const;
  /// As `join`, but without the elements; `finish` copies the elements to `parts`. If `parts` are neighbours in memory,
  /// the result is their memory.
  [[nodiscard]] at::Tensor join_outputs(const std::vector<at::Tensor>& parts);
  /// `finish` copies `source` to `target`.
  void copy_at_the_end(const at::Tensor& target, const at::Tensor& source);

  /// The items that were added. They refer to this object, and are valid until the next item is added.
  [[nodiscard]] std::span<const lockstep::Item> items();
  /// Copies results to tensors that lockstep cannot write in place. Called when the call is complete.
  void finish();

  [[nodiscard]] const std::string& call() const noexcept { return call_; }

 private:
  struct Entry {
    std::vector<lockstep::ConstTensorView> inputs;
    std::vector<lockstep::TensorView> outputs;
  };

  void check(const at::Tensor& tensor) const;
  [[nodiscard]] lockstep::ConstTensorView input(const at::Tensor& tensor, std::optional<std::int64_t> rows = {});
  [[nodiscard]] lockstep::TensorView output(const at::Tensor& tensor, std::optional<std::int64_t> rows = {});

  std::string call_;
  std::deque<Entry> entries_;
  std::vector<lockstep::Item> items_;
  std::vector<at::Tensor> kept_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  ///< target and source
};

}  // namespace lockstep_torch
