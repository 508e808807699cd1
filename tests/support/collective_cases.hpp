// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The contract of a communicator, for any transport. Every rank of `comm` calls each case; the tensors of a local
// replica are on the device that `device_of` gives for it.

#pragma once

#include "support/batch.hpp"
#include "support/part_cases.hpp"
#include "support/quick.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace lockstep::test {

/// Sizes on both sides of the limit for one step, odd sizes, and zero.
inline std::vector<TensorCase> mixed_list() {
  const std::int64_t large = is_quick() ? 17'001 : 70'001;
  return {{DType::f32, 5},    {DType::bf16, 33}, {DType::f64, 1000}, {DType::i32, 77},
          {DType::f16, 4099}, {DType::f32, 0},   {DType::f32, large}};
}

inline void check_all_reduce(Communicator& comm, ReduceOp op, const ReduceOptions& options = {},
                             const DeviceOf& device_of = on_host) {
  const DType short_type = is_bitwise(op) ? DType::i32 : DType::f32;
  for (auto tensors : {mixed_list(), std::vector<TensorCase>{{short_type, 3}}}) {
    std::erase_if(tensors, [op](const TensorCase& tensor) { return !supports(op, tensor.dtype); });
    Batch batch(tensors, comm.layout(), comm.rank(), device_of);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (const int replica : {0, comm.local_replicas() - 1})
        batch.add_output(i, result_dtype(op, tensors[i].dtype), tensors[i].count, device_of(replica));
    }
    comm.all_reduce(batch.items(), op, options);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Bytes expected = reduced(op, tensors[i], i, comm.layout().replicas());
      for (const Bytes& result : batch.results(i)) EXPECT_EQ(result, expected) << to_string(op) << " item " << i;
    }
  }
}

inline void check_in_place(Communicator& comm, const DeviceOf& device_of = on_host,
                           const std::vector<TensorCase>& tensors = mixed_list(), const ReduceOptions& options = {}) {
  Batch batch(tensors, comm.layout(), comm.rank(), device_of);
  for (std::size_t i = 0; i < tensors.size(); ++i) batch.reduce_in_place(i);
  comm.all_reduce(batch.items(), ReduceOp::sum, options);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Bytes expected = reduced(ReduceOp::sum, tensors[i], i, comm.layout().replicas());
    for (const Bytes& result : batch.results(i)) EXPECT_EQ(result, expected) << "item " << i;
  }
}

inline void check_reduce(Communicator& comm, int root, const DeviceOf& device_of = on_host) {
  const auto tensors = mixed_list();
  Batch batch(tensors, comm.layout(), comm.rank(), device_of);
  if (comm.rank() == root) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      batch.add_output(i, tensors[i].dtype, tensors[i].count, device_of(0));
  }
  comm.reduce(batch.items(), ReduceOp::sum, root);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Bytes expected = reduced(ReduceOp::sum, tensors[i], i, comm.layout().replicas());
    for (const Bytes& result : batch.results(i)) EXPECT_EQ(result, expected) << "item " << i;
  }
}

inline void check_reduce_scatter(Communicator& comm, const DeviceOf& device_of = on_host) {
  const int replicas = comm.layout().replicas();
  const std::vector<TensorCase> tensors{{DType::f32, 3 * replicas}, {DType::bf16, 700 * replicas}, {DType::i64, 0}};
  Batch batch(tensors, comm.layout(), comm.rank(), device_of);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (int r = 0; r < comm.local_replicas(); ++r)
      batch.add_output(i, tensors[i].dtype, tensors[i].count / replicas, device_of(r));
  }
  comm.reduce_scatter(batch.items(), ReduceOp::sum);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Bytes whole = reduced(ReduceOp::sum, tensors[i], i, replicas);
    const std::size_t part = whole.size() / static_cast<std::size_t>(replicas);
    const auto results = batch.results(i);
    for (std::size_t r = 0; r < results.size(); ++r) {
      const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(
                                             part * (static_cast<std::size_t>(comm.layout().first(comm.rank())) + r));
      EXPECT_EQ(results[r], Bytes(begin, begin + static_cast<std::ptrdiff_t>(part)))
          << "item " << i << " replica " << r;
    }
  }
}

/// all_gather, or gather to `root`.
inline void check_gather(Communicator& comm, int root, const DeviceOf& device_of = on_host,
                         const std::vector<TensorCase>& tensors = mixed_list()) {
  const int replicas = comm.layout().replicas();
  Batch batch(tensors, comm.layout(), comm.rank(), device_of);
  if (root < 0 || comm.rank() == root) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      batch.add_output(i, tensors[i].dtype, tensors[i].count * replicas, device_of(comm.local_replicas() - 1));
  }
  if (root < 0) {
    comm.all_gather(batch.items());
  } else {
    comm.gather(batch.items(), root);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (const Bytes& result : batch.results(i))
      EXPECT_EQ(result, concatenated(tensors[i], i, replicas)) << "item " << i;
  }
}

inline void check_broadcast(Communicator& comm, int root, const DeviceOf& device_of = on_host,
                            const std::vector<TensorCase>& tensors = mixed_list()) {
  const Device source = device_of(comm.local_replicas() - 1);
  for (const std::size_t items : {std::size_t{1}, tensors.size()}) {
    std::vector<Bytes> values;
    std::vector<PlacedBytes> memory;
    std::vector<ConstTensorView> inputs;
    std::vector<TensorView> outputs;
    for (std::size_t i = 0; i < items; ++i) {
      const Shape shape{tensors[i].count};
      values.push_back(awkward_values(tensors[i].dtype, tensors[i].count, 7 + i));
      inputs.emplace_back(memory.emplace_back(values.back(), source).data(), tensors[i].dtype, shape, source);
      for (const int replica : {0, comm.local_replicas() - 1}) {
        const Device target = device_of(replica);
        const Bytes pattern(values.back().size(), std::byte{0xa5});
        outputs.push_back({memory.emplace_back(pattern, target).data(), tensors[i].dtype, shape, target});
      }
    }
    std::vector<Item> list;
    for (std::size_t i = 0; i < items; ++i) {
      list.push_back({std::span(inputs).subspan(i, comm.rank() == root ? 1 : 0), std::span(outputs).subspan(2 * i, 2)});
    }
    comm.broadcast(list, root);
    for (std::size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(read(outputs[i]), values[i / 2]) << "item " << i / 2;
  }
}

/// Several pending requests, waited for in a different order than they were posted.
inline void check_requests(Communicator& comm, const DeviceOf& device_of = on_host) {
  const std::vector<TensorCase> tensors{{DType::f32, 10'000}};
  std::vector<Batch> batches;
  std::vector<Request> requests;
  for (int k = 0; k < 4; ++k) batches.emplace_back(tensors, comm.layout(), comm.rank(), device_of);
  for (Batch& batch : batches) {
    batch.add_output(0, DType::f32, tensors[0].count, device_of(0));
    requests.push_back(comm.all_reduce_async(batch.items(), ReduceOp::sum));
  }
  requests[3].wait();
  EXPECT_TRUE(requests[0].test());
  while (!requests[1].wait_for(std::chrono::milliseconds(1))) {}
  const Bytes expected = reduced(ReduceOp::sum, tensors[0], 0, comm.layout().replicas());
  for (Batch& batch : batches) EXPECT_EQ(batch.results(0).front(), expected);
  requests[2].wait();
  requests[2].wait();
}

inline void check_every_collective(Communicator& comm, const DeviceOf& device_of = on_host) {
  for (int o = 0; o < reduce_op_count; ++o) check_all_reduce(comm, static_cast<ReduceOp>(o), {}, device_of);
  check_in_place(comm, device_of);
  for (const int root : some_roots(comm)) {
    check_reduce(comm, root, device_of);
    check_gather(comm, root, device_of);
    check_broadcast(comm, root, device_of);
  }
  check_gather(comm, -1, device_of);
  check_reduce_scatter(comm, device_of);
  check_every_part_collective(comm, device_of);
  check_requests(comm, device_of);
  comm.barrier();
}

}  // namespace lockstep::test
