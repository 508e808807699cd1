// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Collectives of replicas that share a GPU, and of one replica per GPU: in canonical order the results have the
// oracle's bits.

#include "gpu/on_gpu.hpp"
#include "support/ranks.hpp"
#include "support/stream_reader.hpp"

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/plan.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::test {
namespace {

/// Dtypes of every element size, with odd lengths and empty tensors.
struct TensorKind {
  DType dtype;
  std::int64_t count;
};
constexpr TensorKind kinds[]{{DType::f32, 5},    {DType::bf16, 33}, {DType::f64, 1000},   {DType::i32, 77},
                             {DType::f16, 4099}, {DType::f32, 0},   {DType::f32, 70'001}, {DType::u8, 1001}};

using Devices = std::vector<Device>;

/// Replicas of one rank that share the first GPU.
Devices sharing_one(int replicas, int first = 0) {
  Devices devices;
  for (int i = 0; i < replicas; ++i) devices.push_back(logical_gpu(first + i));
  return devices;
}

Communicator communicator_of(int replicas) {
  std::vector<CommunicatorOptions> options(1);
  options.front().local_replicas = replicas;
  return thread_communicators(options).front();
}

/// A list of tensors of one rank's replicas on GPUs, to be reduced in place or to separate outputs.
class GpuBatch {
 public:
  /// `first`: the global id of the rank's first replica. Arrays begin `distance` elements from an aligned address.
  GpuBatch(const Devices& devices, ReduceOp op, int first, std::size_t distance, bool in_place) : op_(op) {
    for (const TensorKind& kind : kinds) {
      if (!supports(op, kind.dtype)) continue;
      const DType result = result_dtype(op, kind.dtype);
      const Bytes room(static_cast<std::size_t>(kind.count) * size_of(result));
      std::vector<ConstTensorView>& inputs = inputs_.emplace_back();
      std::vector<TensorView>& outputs = outputs_.emplace_back();
      for (std::size_t i = 0; i < devices.size(); ++i) {
        PlacedBytes& input =
            add(leaf_of(kind, first + static_cast<int>(i)), devices[i], distance * size_of(kind.dtype));
        const bool is_input = in_place && result == kind.dtype;
        PlacedBytes& output = is_input ? input : add(room, devices[i], distance * size_of(result));
        inputs.emplace_back(input.view(kind.dtype));
        outputs.push_back(output.view(result));
        results_.push_back({kind, &output});
      }
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) items_.push_back({inputs_[i], outputs_[i]});
  }

  [[nodiscard]] const std::vector<Item>& items() const { return items_; }
  void expect_reduced(int replicas) const {
    for (const auto& [kind, array] : results_) {
      std::vector<Bytes> leaves;
      for (int r = 0; r < replicas; ++r) leaves.push_back(leaf_of(kind, r));
      EXPECT_EQ(array->bytes(), canonical_reduce(op_, kind.dtype, leaves))
          << to_string(op_) << ' ' << to_string(kind.dtype) << ", " << kind.count << " elements of " << replicas
          << " replicas";
      EXPECT_TRUE(array->room_is_untouched());
    }
  }

 private:
  static Bytes leaf_of(const TensorKind& kind, int replica) {
    return awkward_values(kind.dtype, kind.count, static_cast<std::uint64_t>(kind.count * 100 + replica + 1));
  }
  PlacedBytes& add(const Bytes& bytes, Device device, std::size_t distance_bytes) {
    return *arrays_.emplace_back(std::make_unique<PlacedBytes>(bytes, device, distance_bytes));
  }

  struct Result {
    TensorKind kind;
    PlacedBytes* array;
  };
  ReduceOp op_;
  std::vector<std::unique_ptr<PlacedBytes>> arrays_;
  std::vector<std::vector<ConstTensorView>> inputs_;
  std::vector<std::vector<TensorView>> outputs_;
  std::vector<Result> results_;
  std::vector<Item> items_;
};

constexpr ReduceOptions canonical{.order = Order::canonical};

class GpuCollectives : public GpuTest {};

TEST_F(GpuCollectives, reduce_replicas_of_one_gpu_to_the_oracles_bits) {
  for (int replicas = 1; replicas <= 5; ++replicas) {
    Communicator comm = communicator_of(replicas);
    for (int o = 0; o < reduce_op_count; ++o) {
      for (const bool in_place : {false, true}) {
        GpuBatch batch(sharing_one(replicas), static_cast<ReduceOp>(o), 0, in_place ? 1 : 0, in_place);
        comm.all_reduce(batch.items(), static_cast<ReduceOp>(o), canonical);
        batch.expect_reduced(replicas);
      }
    }
  }
}

TEST_F(GpuCollectives, reduce_asynchronously) {
  Communicator comm = communicator_of(3);
  GpuBatch first(sharing_one(3), ReduceOp::sum, 0, 0, false);
  GpuBatch second(sharing_one(3), ReduceOp::mean, 0, 1, true);
  Request requests[]{comm.all_reduce_async(first.items(), ReduceOp::sum, canonical),
                     comm.all_reduce_async(second.items(), ReduceOp::mean, canonical)};
  for (Request& request : requests) request.wait();
  first.expect_reduced(3);
  second.expect_reduced(3);
}

TEST_F(GpuCollectives, let_a_stream_wait_in_place_of_the_host) {
  Communicator comm = communicator_of(2);
  for (int round = 0; round < 10; ++round) {
    GpuBatch batch(sharing_one(2), ReduceOp::sum, 0, 0, false);
    std::vector<Bytes> leaves;
    const TensorView output = batch.items().front().outputs.front();
    for (const ConstTensorView& input : batch.items().front().inputs) leaves.push_back(read(input));
    StreamReader reader(output.device);
    Request request = comm.all_reduce_async(batch.items(), ReduceOp::sum, canonical);
    request.wait(reader.stream());
    reader.read(output);
    EXPECT_EQ(reader.bytes(), canonical_reduce(ReduceOp::sum, output.dtype, leaves));
    request.wait();
    batch.expect_reduced(2);
  }
}

TEST_F(GpuCollectives, reduce_ranks_that_share_a_gpu_to_the_oracles_bits) {
  on_ranks({2, 1}, [](Communicator& comm) {
    const int first = comm.layout().first(comm.rank());
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max}) {
      GpuBatch batch(sharing_one(comm.local_replicas(), first), op, first, 0, op == ReduceOp::sum);
      comm.all_reduce(batch.items(), op, canonical);
      batch.expect_reduced(3);
    }
  });
}

TEST_F(GpuCollectives, reduce_replicas_of_several_gpus_to_the_oracles_bits) {
  if (gpu_count() < 2) GTEST_SKIP() << "needs two GPUs: " << gpu_status();
  // the first GPU has two replicas
  Devices devices{logical_gpu(0), logical_gpu(1)};
  for (int index = 1; index < gpu_count(); ++index) devices.push_back({.kind = DeviceKind::gpu, .index = index});
  const int replicas = static_cast<int>(devices.size());
  Communicator comm = communicator_of(replicas);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max}) {
    GpuBatch batch(devices, op, 0, 0, true);
    comm.all_reduce(batch.items(), op, canonical);
    batch.expect_reduced(replicas);
  }
}

/// One f32 tensor per replica, with small whole numbers, so that the sum is exact in every order.
class Numbers {
 public:
  static constexpr std::int64_t count = 10'007;

  explicit Numbers(const Devices& devices) {
    for (const Device device : devices) {
      arrays_.push_back(std::make_unique<PlacedBytes>(Bytes(count * sizeof(float)), device));
      inputs_.emplace_back(arrays_.back()->view(DType::f32));
      outputs_.push_back(arrays_.back()->view(DType::f32));
    }
  }

  [[nodiscard]] Item item() const { return {inputs_, outputs_}; }
  void assign(int round) {
    for (std::size_t r = 0; r < arrays_.size(); ++r) arrays_[r]->write(bytes_of(round + static_cast<int>(r)));
  }
  void expect_sum(int round) const {
    int sum = 0;
    for (std::size_t r = 0; r < arrays_.size(); ++r) sum += round + static_cast<int>(r);
    for (const auto& array : arrays_) EXPECT_EQ(array->bytes(), bytes_of(sum)) << "round " << round;
  }

 private:
  static Bytes bytes_of(int value) {
    const std::vector<float> values(count, static_cast<float>(value));
    Bytes bytes(count * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }

  std::vector<std::unique_ptr<PlacedBytes>> arrays_;
  std::vector<ConstTensorView> inputs_;
  std::vector<TensorView> outputs_;
};

TEST_F(GpuCollectives, run_a_plan_repeatedly_on_new_contents) {
  Communicator comm = communicator_of(4);
  Numbers numbers(sharing_one(4));
  const Item item = numbers.item();
  for (const Order order : {Order::canonical, Order::any}) {
    Plan plan = comm.prepare_all_reduce(std::span(&item, 1), ReduceOp::sum, {.order = order});
    for (int round = 1; round <= 20; ++round) {
      numbers.assign(round);
      plan.run();
      numbers.expect_sum(round);
    }
  }
}

TEST_F(GpuCollectives, move_data_without_reduction) {
  constexpr std::size_t bytes = 4004;
  Communicator comm = communicator_of(3);
  std::vector<Bytes> leaves;
  std::vector<PlacedBytes> there;
  for (int r = 0; r < 3; ++r) {
    leaves.push_back(awkward_values(DType::f32, bytes / sizeof(float), static_cast<std::uint64_t>(r) + 1));
    there.emplace_back(leaves.back(), logical_gpu(r));
  }
  std::vector<ConstTensorView> inputs;
  for (PlacedBytes& array : there) inputs.emplace_back(array.view(DType::f32));
  const auto check = [&](std::size_t given, std::size_t result_bytes, const auto& call, const Bytes& expected) {
    std::vector<PlacedBytes> results;
    std::vector<TensorView> outputs;
    for (int r = 0; r < 3; ++r) results.emplace_back(Bytes(result_bytes), logical_gpu(r));
    for (PlacedBytes& result : results) outputs.push_back(result.view(DType::f32));
    const Item item{std::span(inputs).first(given), outputs};
    call(std::span(&item, 1));
    for (const PlacedBytes& result : results) EXPECT_EQ(result.bytes(), expected);
  };
  Bytes all;
  for (const Bytes& leaf : leaves) all.insert(all.end(), leaf.begin(), leaf.end());
  check(1, bytes, [&](std::span<const Item> items) { comm.broadcast(items, 0); }, leaves[0]);
  check(3, 3 * bytes, [&](std::span<const Item> items) { comm.all_gather(items); }, all);
  check(
      3, bytes, [&](std::span<const Item> items) { comm.reduce(items, ReduceOp::sum, 0, canonical); },
      canonical_reduce(ReduceOp::sum, DType::f32, leaves));
}

}  // namespace
}  // namespace lockstep::test
