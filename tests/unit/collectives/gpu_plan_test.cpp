// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The decisions about GPUs that need no GPU: the path, the leaders, and how folds and lists are split.

#include "collectives/gpu/buckets.hpp"
#include "collectives/gpu/reduction.hpp"
#include "collectives/gpu/topology.hpp"
#include "schedule/canonical_tree.hpp"
#include "schedule/partition.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace lockstep::detail {
namespace {

/// The descriptor of the GPU with this number in the job, which is `device` on its rank.
DeviceDescriptor on_gpu(std::uint8_t gpu, int device, int nccl_version = 22809) {
  DeviceDescriptor result;
  result.uuid[15] = gpu;
  result.device = device;
  result.nccl_version = nccl_version;
  return result;
}

TEST(GpuPath, is_one_device_if_all_replicas_are_on_one_gpu_with_or_without_nccl) {
  const GpuDecision decision = decide_path(std::vector{on_gpu(1, 0, 0), on_gpu(1, 0, 0)}, ReplicaLayout({2}));
  EXPECT_EQ(decision.path, GpuPath::one_device);
}

TEST(GpuPath, is_nccl_among_gpus_of_one_rank_and_of_many) {
  EXPECT_EQ(decide_path(std::vector{on_gpu(1, 0), on_gpu(2, 1)}, ReplicaLayout({2})).path, GpuPath::nccl);
  const GpuDecision decision =
      decide_path(std::vector{on_gpu(1, 0), on_gpu(2, 0), on_gpu(2, 0)}, ReplicaLayout({1, 2}));
  EXPECT_EQ(decision.path, GpuPath::nccl);
  EXPECT_EQ(decision.text, "NCCL 2.28.9 among 2 GPUs");
}

TEST(GpuPath, is_the_host_if_nccl_is_missing_and_names_the_rank_and_the_reason) {
  DeviceDescriptor without = on_gpu(2, 0, 0);
  std::strcpy(without.why_no_nccl.data(), "libnccl.so.2 is not here");
  const GpuDecision decision = decide_path(std::vector{on_gpu(1, 0), without}, ReplicaLayout({1, 1}));
  EXPECT_EQ(decision.path, GpuPath::host);
  EXPECT_EQ(decision.text, "no NCCL on rank 1: libnccl.so.2 is not here");
}

TEST(GpuPath, is_the_host_if_versions_differ_and_names_both) {
  const GpuDecision decision =
      decide_path(std::vector{on_gpu(1, 0), on_gpu(2, 0), on_gpu(3, 0, 22703)}, ReplicaLayout({1, 1, 1}));
  EXPECT_EQ(decision.path, GpuPath::host);
  for (const std::string part : {"rank 0", "2.28.9", "rank 2", "2.27.3"})
    EXPECT_NE(decision.text.find(part), std::string::npos) << decision.text;
}

TEST(GpuPath, names_the_ranks_that_share_a_gpu_and_the_one_that_leads_it) {
  const GpuDecision several = decide_path(std::vector{on_gpu(1, 0), on_gpu(0xab, 1), on_gpu(0xab, 0), on_gpu(0xab, 3)},
                                          ReplicaLayout({2, 1, 1}));
  EXPECT_EQ(several.path, GpuPath::nccl);
  EXPECT_EQ(several.sharing, "ranks 0, 1 and 2 share GPU-00000000-0000-0000-0000-0000000000ab, led by rank 0");
  EXPECT_EQ(several.text, "NCCL 2.28.9 among 2 GPUs; " + several.sharing);
  const GpuDecision one =
      decide_path(std::vector{on_gpu(0xab, 0, 0), on_gpu(0xab, 0, 0), on_gpu(0xab, 1, 0)}, ReplicaLayout({2, 1}));
  EXPECT_EQ(one.path, GpuPath::one_device);
  EXPECT_EQ(one.sharing, "ranks 0 and 1 share GPU-00000000-0000-0000-0000-0000000000ab, led by rank 0");
  EXPECT_EQ(decide_path(std::vector{on_gpu(1, 0), on_gpu(1, 0), on_gpu(2, 0)}, ReplicaLayout({2, 1})).sharing, "");
}

TEST(GpuPath, needs_nccl_only_on_ranks_that_lead_a_gpu) {
  const ReplicaLayout layout({1, 1, 1});
  EXPECT_EQ(decide_path(std::vector{on_gpu(1, 0), on_gpu(1, 0, 0), on_gpu(2, 0)}, layout).path, GpuPath::nccl);
  EXPECT_EQ(decide_path(std::vector{on_gpu(1, 0), on_gpu(1, 0, 22703), on_gpu(2, 0)}, layout).path, GpuPath::nccl);
  const GpuDecision decision = decide_path(std::vector{on_gpu(1, 0), on_gpu(1, 0), on_gpu(2, 0, 0)}, layout);
  EXPECT_EQ(decision.path, GpuPath::host);
  EXPECT_EQ(decision.sharing, "");
}

TEST(GpuPath, names_a_few_shared_gpus_of_many) {
  std::vector<DeviceDescriptor> descriptors;
  for (int rank = 0; rank < 2; ++rank) {
    for (std::uint8_t gpu = 0; gpu < 10; ++gpu) descriptors.push_back(on_gpu(gpu, gpu));
  }
  const std::string text = decide_path(descriptors, ReplicaLayout({10, 10})).sharing;
  EXPECT_NE(text.find("07, led by rank 0; 2 more GPUs are shared"), std::string::npos) << text;
}

TEST(Leaders, are_the_gpus_of_each_rank_by_their_first_replicas) {
  // rank 0: gpu:1, gpu:0, gpu:1; rank 1: gpu:0, gpu:0
  const Leaders leaders(std::vector{on_gpu(1, 1), on_gpu(2, 0), on_gpu(1, 1), on_gpu(3, 0), on_gpu(3, 0)},
                        ReplicaLayout({3, 2}));
  ASSERT_EQ(leaders.size(), 3);
  EXPECT_EQ(leaders[0].replicas, (std::vector{0, 2}));
  EXPECT_EQ(leaders[0].device, 1);
  EXPECT_EQ(leaders[1].replicas, (std::vector{1}));
  EXPECT_EQ(leaders[2].replicas, (std::vector{3, 4}));
  EXPECT_EQ(leaders[2].rank, 1);
  EXPECT_EQ(leaders.first(1), 2);
  EXPECT_EQ(leaders.first(2), 3);
  EXPECT_EQ(leaders.of(2), 0);
  EXPECT_EQ(leaders.most_replicas(), 2);
}

TEST(Leaders, are_the_lowest_ranks_with_replicas_on_a_gpu_and_proxies_of_the_others) {
  // rank 0: A, B; rank 1: C, B, B, A; rank 2: C
  const Leaders leaders(std::vector{on_gpu(0xa, 0), on_gpu(0xb, 1), on_gpu(0xc, 0), on_gpu(0xb, 5), on_gpu(0xb, 5),
                                    on_gpu(0xa, 4), on_gpu(0xc, 7)},
                        ReplicaLayout({2, 4, 1}));
  ASSERT_EQ(leaders.size(), 3);
  EXPECT_EQ(leaders[0].replicas, (std::vector{0, 5}));
  EXPECT_EQ(leaders[1].replicas, (std::vector{1, 3, 4}));
  EXPECT_EQ(leaders[1].rank, 0);
  EXPECT_EQ(leaders[1].device, 1);
  EXPECT_EQ(leaders[2].replicas, (std::vector{2, 6}));
  EXPECT_EQ(leaders[2].rank, 1);
  EXPECT_EQ(leaders.first(1), 2);
  EXPECT_EQ(leaders.first(2), 3);  // rank 2 does not lead a GPU
  EXPECT_EQ(leaders.first(3), 3);
  EXPECT_EQ(leaders.of_rank(1), 2);
  EXPECT_EQ(leaders.of_rank(2), 2);
  EXPECT_EQ(leaders.of(5), 0);
  EXPECT_TRUE(leaders.has(0, 0));
  EXPECT_TRUE(leaders.has(0, 1));
  EXPECT_FALSE(leaders.has(0, 2));
  ASSERT_EQ(leaders.proxied_ranks().size(), 3U);
  EXPECT_EQ(leaders.proxied_ranks()[0].rank, 1);
  EXPECT_EQ(leaders.proxied_ranks()[0].device, 5);
  EXPECT_EQ(leaders.proxied_ranks()[0].leader, 1);
  EXPECT_EQ(leaders.proxied_ranks()[0].replicas, (std::vector{3, 4}));
  EXPECT_EQ(leaders.proxied_ranks()[1].leader, 0);
  EXPECT_EQ(leaders.proxied_ranks()[1].replicas, std::vector{5});
  EXPECT_EQ(leaders.proxied_ranks()[2].rank, 2);
  EXPECT_EQ(leaders.proxied_ranks()[2].device, 7);
}

TEST(Leaders, have_blocks_that_tile_the_tree_however_replicas_are_dealt) {
  for (int replicas = 1; replicas <= 40; ++replicas) {
    for (int gpus = 1; gpus <= 5; ++gpus) {
      std::vector<DeviceDescriptor> descriptors;
      for (int r = 0; r < replicas; ++r) {
        const int gpu = (r * 7 + r / 3) % gpus;
        descriptors.push_back(on_gpu(static_cast<std::uint8_t>(gpu), gpu));
      }
      const int of_rank_0 = replicas / 3 + 1;  // the replicas of the other rank are on the same GPUs
      const Leaders leaders(
          descriptors, replicas < 3 ? ReplicaLayout({replicas}) : ReplicaLayout({of_rank_0, replicas - of_rank_0}));
      std::vector<Block> blocks;
      for (const LeaderBlock& each : leaders.blocks()) {
        blocks.push_back(each.block);
        for (int r = each.block.first; r < each.block.last; ++r) EXPECT_EQ(leaders.of(r), each.leader);
      }
      EXPECT_EQ(fold_merges(blocks, {0, replicas}).size(), blocks.size());
    }
  }
}

/// A fold by a function whose result depends on the order.
double evaluate(const std::vector<double>& inputs, std::span<const std::uint8_t> merges) {
  std::vector<double> stack;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    stack.push_back(inputs[i]);
    for (int merge = 0; merge < merges[i]; ++merge) {
      const double right = stack.back();
      stack.pop_back();
      stack.back() = stack.back() * 1.25 + right * right / 3;
    }
  }
  EXPECT_EQ(stack.size(), 1U);
  return stack.front();
}

TEST(SplitFold, gives_the_same_bits) {
  for (const int replicas : {1, 2, 3, 5, 8, 63, 64, 65, 100, 128, 129, 300}) {
    for (const std::size_t most : {1U, 2U, 3U, 7U, 64U}) {
      std::vector<double> inputs;
      for (int r = 0; r < replicas; ++r) inputs.push_back(0.125 + 1.0 / (r + 2));
      const auto merges = fold_merges_of_leaves({0, replicas});
      const SplitFold cut = split_fold(merges, most);
      std::vector<double> values;
      std::size_t next = 0;
      for (const Subfold& part : cut.subfolds) {
        EXPECT_EQ(part.first, next);
        EXPECT_LE(part.merges.size(), most);
        const auto begin = inputs.begin() + static_cast<std::ptrdiff_t>(part.first);
        values.push_back(evaluate({begin, begin + static_cast<std::ptrdiff_t>(part.merges.size())}, part.merges));
        next += part.merges.size();
      }
      EXPECT_EQ(next, inputs.size());
      EXPECT_EQ(evaluate(values, cut.merges), evaluate(inputs, merges)) << replicas << " in folds of " << most;
    }
  }
}

HostItem item_of(DType dtype, std::int64_t count) {
  HostItem item;
  item.dtype = dtype;
  item.shape = Shape{count};
  return item;
}

TEST(Buckets, pack_short_tensors_by_dtype_and_skip_empty_ones) {
  const auto buckets = buckets_of(std::vector{item_of(DType::f32, 5), item_of(DType::f16, 3), item_of(DType::f32, 0),
                                              item_of(DType::f32, 1 << 20), item_of(DType::f32, 40)});
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_TRUE(buckets[0].is_packed());
  EXPECT_EQ(buckets[0].members[1].item, 4U);
  EXPECT_EQ(buckets[0].members[1].begin, grain_elements);
  EXPECT_EQ(buckets[0].count, grain_elements + 40);
  EXPECT_EQ(buckets[1].dtype, DType::f16);
  EXPECT_FALSE(buckets[1].is_packed());
  EXPECT_EQ(buckets[2].members.front().item, 3U);
}

TEST(Buckets, take_no_further_tensor_when_full) {
  const std::vector<HostItem> items(200, item_of(DType::f32, 200'000));
  std::set<std::size_t> seen;
  for (const Bucket& bucket : buckets_of(items)) {
    EXPECT_LT(static_cast<std::size_t>(bucket.count) * 4, full_bucket_bytes + short_bytes);
    for (const BucketMember& member : bucket.members) seen.insert(member.item);
  }
  EXPECT_EQ(seen.size(), items.size());
}

}  // namespace
}  // namespace lockstep::detail
