// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Every collective on GPUs, by every path: the bits of the hosts in canonical order, the same values in NCCL's own.

#include "collectives/make_communicator.hpp"
#include "support/collective_cases.hpp"
#include "support/gpu_ranks.hpp"
#include "support/nodes.hpp"
#include "support/pair_cases.hpp"
#include "support/quick.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

FakeCudaOptions gpus_for(const GpuLayout& layout) { return {.devices = layout.all_gpus()}; }

class GpuCollectives : public testing::TestWithParam<GpuLayout> {};

TEST_P(GpuCollectives, have_the_bits_of_the_hosts_in_canonical_order) {
  const FakeGpus fakes(gpus_for(GetParam()));
  on_gpu_ranks(
      fakes, GetParam(), [](Communicator& comm, const DeviceOf& device_of) { check_every_collective(comm, device_of); },
      canonical());
}

TEST_P(GpuCollectives, have_the_bits_of_the_hosts_through_host_memory) {
  const FakeGpus fakes(gpus_for(GetParam()), {.absent = "it is not installed"});
  on_gpu_ranks(fakes, GetParam(), [](Communicator& comm, const DeviceOf& device_of) {
    check_all_reduce(comm, ReduceOp::sum, {}, device_of);
    check_every_part_collective(comm, device_of);
    check_broadcast(comm, comm.size() - 1, device_of);
    check_reduce_scatter(comm, device_of);
    check_requests(comm, device_of);
  });
  EXPECT_EQ(fakes.nccl().calls().count("comm_init_rank"), 0);
}

/// Small host copies travel with the agreement between nodes.
TEST(GpusOfSeveralNodes, have_the_bits_of_the_hosts_through_host_memory) {
  for (const bool share_memory : {true, false}) {
    const FakeGpus fakes({.devices = 4}, {.absent = "it is not installed"});
    on_nodes({{0, 0, 2, 3}, {1, 1, 1, 1}}, {share_memory}, [](Communicator& comm) {
      const DeviceOf device_of = gpus_of_rank(comm.rank(), 1);
      check_all_reduce(comm, ReduceOp::sum, {}, device_of);
      check_every_part_collective(comm, device_of);
      check_broadcast(comm, comm.size() - 1, device_of);
      check_reduce_scatter(comm, device_of);
    });
  }
}

/// Values whose sums and products are exact in every type, so that every order gives the same bits.
Bytes exact_values(DType dtype, ReduceOp op, std::int64_t count, int replica) {
  Bytes bytes(static_cast<std::size_t>(count) * size_of(dtype));
  const auto value_of = [&](std::int64_t i) {
    const auto mixed = static_cast<int>((i * 7 + replica * 5) % 11);
    if (op != ReduceOp::prod) return static_cast<double>(mixed - (is_floating_point(dtype) ? 5 : 0));
    if (mixed == 0) return is_floating_point(dtype) ? -1.0 : 3.0;
    return mixed < 3 ? 2.0 : 1.0;
  };
  const auto fill = [&]<class T>(T) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<T>(static_cast<float>(value_of(i)));
      std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
    }
  };
  switch (dtype) {
    case DType::f16: fill(Float16{}); break;
    case DType::bf16: fill(BFloat16{}); break;
    case DType::f32: fill(float{}); break;
    case DType::f64: fill(double{}); break;
    case DType::i8: fill(std::int8_t{}); break;
    case DType::i16: fill(std::int16_t{}); break;
    case DType::i32: fill(std::int32_t{}); break;
    case DType::i64: fill(std::int64_t{}); break;
    case DType::u8: fill(std::uint8_t{}); break;
    case DType::u16: fill(std::uint16_t{}); break;
    case DType::u32: fill(std::uint32_t{}); break;
    case DType::u64: fill(std::uint64_t{}); break;
    case DType::boolean: fill(bool{}); break;
  }
  return bytes;
}

/// One all_reduce of `dtype`, of a list of short tensors or of a long one, in NCCL's order if it has one.
void check_values(Communicator& comm, const DeviceOf& device_of, ReduceOp op, DType dtype,
                  const std::vector<std::int64_t>& counts) {
  const int replicas = comm.layout().replicas();
  const DType result = result_dtype(op, dtype);
  std::vector<PlacedBytes> memory;
  std::vector<std::vector<ConstTensorView>> inputs;
  std::vector<std::vector<TensorView>> outputs;
  for (const std::int64_t count : counts) {
    inputs.emplace_back();
    outputs.emplace_back();
    for (int i = 0; i < comm.local_replicas(); ++i) {
      const Device device = device_of(i);
      const int replica = comm.layout().first(comm.rank()) + i;
      const Bytes pattern(static_cast<std::size_t>(count) * size_of(result), std::byte{0xa5});
      memory.emplace_back(exact_values(dtype, op, count, replica), device);
      inputs.back().emplace_back(memory.back().data(), dtype, Shape{count}, device);
      outputs.back().push_back({memory.emplace_back(pattern, device).data(), result, Shape{count}, device});
    }
  }
  std::vector<Item> items;
  for (std::size_t i = 0; i < counts.size(); ++i) items.push_back({inputs[i], outputs[i]});
  comm.all_reduce(items, op);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::vector<Bytes> leaves;
    for (int replica = 0; replica < replicas; ++replica) leaves.push_back(exact_values(dtype, op, counts[i], replica));
    const Bytes expected = canonical_reduce(op, dtype, leaves);
    for (const TensorView& output : outputs[i])
      EXPECT_EQ(read(output), expected) << to_string(op) << " of " << to_string(dtype) << " " << counts[i];
  }
}

TEST_P(GpuCollectives, reduce_to_the_same_values_in_the_order_of_nccl) {
  const FakeGpus fakes(gpus_for(GetParam()), {.launch_polls = 1});
  on_gpu_ranks(fakes, GetParam(), [](Communicator& comm, const DeviceOf& device_of) {
    for (int o = 0; o < reduce_op_count; ++o) {
      for (int d = 0; d < dtype_count; ++d) {
        const auto op = static_cast<ReduceOp>(o);
        const auto dtype = static_cast<DType>(d);
        if (supports(op, dtype)) check_values(comm, device_of, op, dtype, {5, 0, 1001});
      }
    }
    for (const DType dtype : {DType::f32, DType::f16})
      check_values(comm, device_of, ReduceOp::mean, dtype, {is_quick() ? 5001 : 524'289, 7, 9});
  });
  EXPECT_EQ(fakes.nccl().calls().count("all_reduce") > 0, GetParam().all_gpus() > 1);
}

// 1 to 4 ranks with 1 to 3 GPUs each, some of them with several replicas
INSTANTIATE_TEST_SUITE_P(Layouts, GpuCollectives,
                         testing::ValuesIn(some_of<GpuLayout>(
                             {GpuLayout{{3}, 1}, GpuLayout{{1, 1, 1}, 1}, GpuLayout{{3}, 3}, GpuLayout{{5}, 2},
                              GpuLayout{{4, 3}, 3}, GpuLayout{{3, 4, 3}, 3}, GpuLayout{{2, 1}, 1}, GpuLayout{{3, 2}, 2},
                              GpuLayout{{2, 2, 3, 2}, 2}, GpuLayout{{2, 3, 2}, 2}, GpuLayout{{1, 1, 1, 1}, 1},
                              GpuLayout{{3, 3, 3, 3}, 3}, GpuLayout{{1}, 1}})),
                         [](const auto& instance) {
                           std::string name;
                           for (const int count : instance.param.replicas) name += std::to_string(count) + "_";
                           return name + "on_" + std::to_string(instance.param.gpus);
                         });

TEST(GpuTensors, that_are_too_long_for_buckets_have_the_bits_of_the_hosts) {
  if (is_quick()) GTEST_SKIP() << "fake GPUs compute slowly with sanitizers";
  const std::vector<TensorCase> tensors{{DType::f32, 300'000}, {DType::bf16, 3}, {DType::bf16, 524'289}};
  const std::vector<RowCase> rows{{DType::f32, {100'001}}, {DType::u8, {3}}, {DType::f64, {131'072}}};
  for (const GpuLayout& layout : some_of<GpuLayout>({{{3, 2}, 2}, {{2}, 1}, {{1, 1}, 1}})) {
    const FakeGpus fakes(gpus_for(layout));
    on_gpu_ranks(
        fakes, layout,
        [&](Communicator& comm, const DeviceOf& device_of) {
          check_in_place(comm, device_of, tensors);
          for (const int root : {-1, comm.size() - 1}) check_gather(comm, root, device_of, tensors);
          check_broadcast(comm, comm.size() - 1, device_of, tensors);
          check_gather_v(comm, -1, device_of, rows);
          check_scatter(comm, 0, -1, device_of, rows);
          check_all_to_all(comm, AllToAllForm::even_in_place, device_of, rows);
          check_all_to_all(comm, AllToAllForm::uneven, device_of, rows);
        },
        canonical());
  }
}

TEST(GpuAllReduce, is_within_the_error_of_a_sum_in_the_order_of_nccl) {
  const GpuLayout layout{{3, 2}, 2};
  const FakeGpus fakes(gpus_for(layout));
  on_gpu_ranks(fakes, layout, [](Communicator& comm, const DeviceOf& device_of) {
    constexpr std::int64_t count = 5000;
    const auto value = [](int replica, std::int64_t i) {
      return static_cast<float>(1.0 / static_cast<double>(3 + (i * 37 + replica * 101) % 997));
    };
    std::vector<PlacedBytes> memory;
    std::vector<ConstTensorView> inputs;
    for (int r = 0; r < comm.local_replicas(); ++r) {
      Bytes bytes(count * sizeof(float));
      for (std::int64_t i = 0; i < count; ++i) {
        const float element = value(comm.layout().first(comm.rank()) + r, i);
        std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(float), &element, sizeof(float));
      }
      inputs.emplace_back(memory.emplace_back(bytes, device_of(r)).data(), DType::f32, Shape{count}, device_of(r));
    }
    const Device device = device_of(0);
    PlacedBytes result(Bytes(count * sizeof(float)), device);
    const TensorView output{result.data(), DType::f32, Shape{count}, device};
    const Item item{inputs, std::span(&output, 1)};
    comm.all_reduce(std::span(&item, 1), ReduceOp::sum);
    const Bytes got = read(output);
    for (std::int64_t i = 0; i < count; ++i) {
      double sum = 0;
      for (int r = 0; r < comm.layout().replicas(); ++r) sum += static_cast<double>(value(r, i));
      float element = 0;
      std::memcpy(&element, got.data() + static_cast<std::size_t>(i) * sizeof(float), sizeof(float));
      EXPECT_NEAR(static_cast<double>(element), sum,
                  comm.layout().replicas() * sum * std::numeric_limits<float>::epsilon());
    }
  });
}

TEST(GpuAllReduce, follows_the_tree_if_the_environment_asks_for_it) {
  const GpuLayout layout{{1, 1, 1}, 1};
  const FakeGpus fakes(gpus_for(layout));
  ASSERT_EQ(setenv("LOCKSTEP_ORDER", "canonical", 1), 0);
  on_gpu_ranks(fakes, layout, [](Communicator& comm, const DeviceOf& device_of) {
    EXPECT_EQ(comm.order(DeviceKind::gpu), Order::canonical);
    check_all_reduce(comm, ReduceOp::sum, {.order = Order::any, .name = {}}, device_of);
  });
  ASSERT_EQ(unsetenv("LOCKSTEP_ORDER"), 0);
  EXPECT_EQ(fakes.nccl().calls().count("all_reduce"), 0);
}

TEST(GpuAllReduce, of_more_replicas_than_a_kernel_takes_has_the_same_bits) {
  const GpuLayout layout{{150, 70}, 1};
  const FakeGpus fakes(gpus_for(layout));
  on_gpu_ranks(
      fakes, layout,
      [](Communicator& comm, const DeviceOf&) {
        const int rank = comm.rank();
        const DeviceOf one_stream = [rank](int) { return Device{DeviceKind::gpu, rank}; };
        check_in_place(comm, one_stream);
      },
      canonical());
}

TEST(GpuAllReduce, is_run_again_by_its_plan) {
  const GpuLayout layout{{2, 2}, 2};
  const FakeGpus fakes(gpus_for(layout));
  on_gpu_ranks(
      fakes, layout,
      [](Communicator& comm, const DeviceOf& device_of) {
        const std::vector<TensorCase> tensors{{DType::f32, 1000}};
        Batch batch(tensors, comm.layout(), comm.rank(), device_of);
        batch.add_output(0, DType::f32, 1000, device_of(1));
        Plan plan = comm.prepare_all_reduce(batch.items(), ReduceOp::sum);
        const Bytes expected = reduced(ReduceOp::sum, tensors[0], 0, comm.layout().replicas());
        for (int run = 0; run < 3; ++run) {
          if (run == 1) {
            plan.run_async().wait();
          } else {
            plan.run();
          }
          EXPECT_EQ(batch.results(0).front(), expected);
        }
      },
      canonical());
}

TEST(GpuMessages, arrive_between_gpus_and_from_the_host) {
  const GpuLayout layout{{1, 1, 1}, 1};
  const FakeGpus fakes(gpus_for(layout));
  on_gpu_ranks(fakes, layout, [](Communicator& comm, const DeviceOf& device_of) {
    check_every_message(comm, device_of(0));
    check_every_message(comm, comm.rank() == 1 ? device_of(0) : Device{});
  });
}

TEST(GpuCollectives, launch_no_kernel_for_the_result_of_one_replica_in_place) {
  const FakeGpus fakes({.devices = 1});
  on_gpu_ranks(fakes, {{1}, 1}, [&](Communicator& comm, const DeviceOf& device_of) {
    const auto launches_of = [&](DType dtype, ReduceOp op) {
      const std::vector<TensorCase> tensors{{dtype, 1000}};
      Batch batch(tensors, comm.layout(), comm.rank(), device_of);
      batch.reduce_in_place(0);
      const int before = fakes.cuda().calls().counts()["reduce"];
      comm.all_reduce(batch.items(), op);
      EXPECT_EQ(batch.results(0).front(), reduced(op, tensors[0], 0, 1)) << to_string(dtype);
      return fakes.cuda().calls().counts()["reduce"] - before;
    };
    EXPECT_EQ(launches_of(DType::f32, ReduceOp::sum), 0);
    EXPECT_EQ(launches_of(DType::i64, ReduceOp::max), 0);
    // the bits of a NaN may change
    EXPECT_EQ(launches_of(DType::f16, ReduceOp::sum), 1);
    EXPECT_EQ(launches_of(DType::f32, ReduceOp::mean), 1);
  });
}

// Each call of the driver takes one to several microseconds, of which a small all_reduce has about ten.
TEST(GpuCollectives, make_few_calls_of_the_driver) {
  const FakeGpus fakes({.devices = 2});
  constexpr int calls = 10;
  std::map<std::string, int> before;
  std::map<std::string, int> after;
  on_gpu_ranks(fakes, {{1, 1}, 1}, [&](Communicator& comm, const DeviceOf& device_of) {
    const std::vector<TensorCase> tensors{{DType::f32, 1000}};
    Batch batch(tensors, comm.layout(), comm.rank(), device_of);
    batch.reduce_in_place(0);
    const auto settle = [&](std::map<std::string, int>& counts) {
      comm.barrier();
      if (comm.rank() == 0) counts = fakes.cuda().calls().counts();
      comm.barrier();
    };
    for (int i = 0; i < 3; ++i) comm.all_reduce(batch.items(), ReduceOp::sum);
    settle(before);
    for (int i = 0; i < calls; ++i) comm.all_reduce(batch.items(), ReduceOp::sum);
    settle(after);
  });
  const std::map<std::string, int> most{{"event_record", 2},          {"stream_wait_event", 2},
                                        {"stream_is_capturing", 1},   {"pointer_attributes", 1},
                                        {"range_push all_reduce", 3}, {"range_pop", 3}};
  const std::set<std::string> polls{"event_query", "get_device", "set_device", "exchange_capture_mode"};
  for (const auto& [name, count] : after) {
    if (polls.contains(name)) continue;  // as many as the engine looks for the end
    const auto limit = most.find(name);
    const int allowed = limit != most.end() ? limit->second : 0;
    EXPECT_LE(count - before[name], 2 * calls * allowed) << name << ", by two ranks in " << calls << " calls";
  }
}

}  // namespace
}  // namespace lockstep::test
