// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions of lists of tensors, whose results are computed once and compared on many layouts, by bits.

#pragma once

#include "support/batch.hpp"

#include <utility>
#include <vector>

namespace lockstep::test {

/// One all_reduce of a list of tensors, and the results.
struct OpCase {
  ReduceOp op;
  std::vector<TensorCase> tensors;
  std::vector<Bytes> expected;
};

/// Those of `tensors` that `op` supports.
inline OpCase op_case(ReduceOp op, std::vector<TensorCase> tensors, int replicas) {
  OpCase result{op, std::move(tensors), {}};
  std::erase_if(result.tensors, [op](const TensorCase& tensor) { return !supports(op, tensor.dtype); });
  for (std::size_t i = 0; i < result.tensors.size(); ++i)
    result.expected.push_back(reduced(op, result.tensors[i], i, replicas));
  return result;
}

/// Every op with every dtype, in sizes from nothing to several slices, and with `others`.
inline std::vector<OpCase> every_op(int replicas, const std::vector<TensorCase>& others = {}) {
  std::vector<TensorCase> tensors;
  for (int d = 0; d < dtype_count; ++d) tensors.push_back({static_cast<DType>(d), 1 + (d * 37) % 90});
  tensors.insert(tensors.begin() + 3, {DType::f32, 0});
  tensors.insert(tensors.end(), others.begin(), others.end());
  std::vector<OpCase> ops;
  for (int op = 0; op < reduce_op_count; ++op) ops.push_back(op_case(static_cast<ReduceOp>(op), tensors, replicas));
  return ops;
}

/// Where the ranks have their results: on all ranks; on all but rank 1, which has every other tensor only; or so where
/// they cannot be in place of the inputs, because the dtypes differ. A rank has each result `outputs` times.
struct Results {
  enum class Place { on_all_ranks, on_some_ranks, in_place } place = Place::on_all_ranks;
  int outputs = 1;
};

/// Runs one case on one rank; returns the number of wrong results.
inline int wrong_results(Communicator& comm, const OpCase& what, Results results) {
  Batch batch(what.tensors, comm.layout(), comm.rank());
  for (std::size_t i = 0; i < what.tensors.size(); ++i) {
    const DType dtype = result_dtype(what.op, what.tensors[i].dtype);
    if (results.place == Results::Place::in_place && dtype == what.tensors[i].dtype) {
      batch.reduce_in_place(i);
    } else if (results.place == Results::Place::on_all_ranks || comm.rank() != 1 || i % 2 == 0) {
      for (int k = 0; k < results.outputs; ++k) batch.add_output(i, dtype, what.tensors[i].count);
    }
  }
  comm.all_reduce(batch.items(), what.op);
  int wrong = 0;
  for (std::size_t i = 0; i < what.tensors.size(); ++i) {
    for (const Bytes& result : batch.results(i)) wrong += result != what.expected[i] ? 1 : 0;
  }
  return wrong;
}

}  // namespace lockstep::test
