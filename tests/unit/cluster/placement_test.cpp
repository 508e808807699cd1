// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/topology.hpp"

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace lockstep::detail {
namespace {

/// Two NUMA nodes of 4 cores with 2 hardware threads each: core k has the processors 2k and 2k + 1.
const Topology& server() {
  static const Topology topology("numa:2 core:4 pu:2");
  return topology;
}

ProcessorSet cpus(int first, int last) {
  ProcessorSet set;
  for (int cpu = first; cpu <= last; ++cpu) set.set(static_cast<std::size_t>(cpu));
  return set;
}

Placement placed(const std::vector<ProcessorSet>& sets, std::size_t own) { return place(server(), sets, own); }

TEST(HostTopology_, counts_what_a_process_may_use) {
  const HostTopology host = host_topology_of(server(), cpus(6, 8), {});
  EXPECT_EQ(host.processors, (std::vector<int>{6, 7, 8}));
  EXPECT_EQ(host.processors_of_host, 16);
  EXPECT_EQ(host.cores, 2);
  EXPECT_EQ(host.cores_of_host, 8);
  ASSERT_EQ(host.numa_nodes.size(), 2U);
  EXPECT_EQ(host.numa_nodes[0].processors, (std::vector<int>{6, 7}));
  EXPECT_EQ(host.numa_nodes[1].processors, (std::vector<int>{8}));
  EXPECT_EQ(lockstep::to_string(host), "2 of 8 cores (processors 6-8), 2 NUMA nodes");
}

TEST(HostTopology_, omits_numa_nodes_without_allowed_processors) {
  const HostTopology host = host_topology_of(server(), cpus(8, 15), {});
  ASSERT_EQ(host.numa_nodes.size(), 1U);
  EXPECT_EQ(host.numa_nodes[0].number, 1);
}

TEST(HostTopology_, of_this_host_has_the_allowed_processors) {
  const HostTopology host = host_topology();
  EXPECT_EQ(host.processors, numbers_of(allowed_processors()));
  EXPECT_GE(host.cores, 1);
  EXPECT_GE(host.cores_of_host, host.cores);
  EXPECT_GE(host.numa_nodes.size(), 1U);
  EXPECT_TRUE(host.devices.empty());
}

TEST(HostTopology_, has_the_devices_that_backends_find) {
  const std::array<DeviceBackend, 1> fakes{
      {{"fake", [](const Topology&) { return std::vector<LocalDevice>{{{DeviceKind::gpu, 0}, "a card", 1}}; }}}};
  const HostTopology host = host_topology_of(server(), {}, fakes);
  ASSERT_EQ(host.devices.size(), 1U);
  EXPECT_EQ(host.devices[0].numa_node, 1);
  EXPECT_EQ(lockstep::to_string(host), "8 of 8 cores (processors 0-15), 2 NUMA nodes, gpu:0 a card");
  EXPECT_TRUE(device_backends().empty());
}

TEST(HostTopology_, that_cannot_be_read_is_an_error) {
  test::expect_error(Code::unavailable, {"host_topology", "hwloc"}, [] { const Topology none("no such thing:"); });
}

TEST(Placement_, gives_each_bound_rank_its_own_cores) {
  const Placement one = placed({cpus(0, 3), cpus(4, 7)}, 0);
  EXPECT_TRUE(one.is_bound);
  EXPECT_EQ(one.ranks, 1);
  EXPECT_EQ(one.threads, 2);
  EXPECT_FALSE(one.shares_cores());
  EXPECT_NE(to_string(one).find("this rank was bound by its launcher"), std::string::npos);
}

TEST(Placement_, divides_cores_among_ranks_that_are_not_bound) {
  const Placement one = placed({cpus(0, 15), cpus(0, 15), cpus(0, 15)}, 1);
  EXPECT_FALSE(one.is_bound);
  EXPECT_EQ(one.ranks, 3);
  EXPECT_EQ(one.cores, 8);
  EXPECT_EQ(one.threads, 2);
  EXPECT_FALSE(one.shares_cores());
  EXPECT_EQ(to_string(one),
            "not bound: 3 ranks move among 8 cores, which are enough for 2 threads each (to bind: mpirun --bind-to "
            "core, srun "
            "--cpu-bind=cores)");
}

TEST(Placement_, reports_that_ranks_share_cores_with_advice) {
  const Placement crowded = placed(std::vector<ProcessorSet>(9, cpus(0, 15)), 4);
  EXPECT_TRUE(crowded.shares_cores());
  EXPECT_EQ(crowded.threads, 1);
  EXPECT_NE(to_string(crowded).find("9 ranks share 8 cores"), std::string::npos);
  EXPECT_EQ(to_string(crowded).find("bind"), std::string::npos);
}

TEST(Placement_, detects_two_ranks_on_the_hardware_threads_of_one_core) {
  const std::vector<ProcessorSet> sets{cpus(0, 0), cpus(1, 1), cpus(2, 2)};
  EXPECT_TRUE(placed(sets, 0).shares_cores());
  EXPECT_EQ(to_string(placed(sets, 1)),
            "2 ranks share 1 core and slow each other down; start fewer ranks on this node, or bind them to "
            "different cores (mpirun --bind-to core, srun --cpu-bind=cores)");
  EXPECT_FALSE(placed(sets, 2).shares_cores());
  EXPECT_EQ(placed(sets, 2).threads, 1);
}

TEST(Placement_, follows_ranks_that_overlap_in_a_chain) {
  const std::vector<ProcessorSet> sets{cpus(0, 3), cpus(2, 5), cpus(4, 7), cpus(8, 15)};
  EXPECT_EQ(placed(sets, 0).ranks, 3);
  EXPECT_EQ(placed(sets, 0).cores, 4);
  EXPECT_EQ(placed(sets, 3).ranks, 1);
  EXPECT_EQ(placed(sets, 3).threads, 4);
}

TEST(Placement_, of_one_rank_has_all_allowed_cores) {
  EXPECT_FALSE(placed({cpus(0, 15)}, 0).is_bound);
  EXPECT_EQ(placed({cpus(0, 15)}, 0).threads, 8);
  EXPECT_TRUE(placed({cpus(0, 3)}, 0).is_bound);
  // the allowed processors are unknown
  EXPECT_EQ(placed({ProcessorSet()}, 0).threads, 8);
}

TEST(ProcessorSet_, is_shown_as_ranges) {
  EXPECT_EQ(to_string(ProcessorSet()), "none");
  EXPECT_EQ(to_string(set_of({0, 1, 2, 3, 8})), "0-3,8");
  EXPECT_EQ(numbers_of(set_of({5, 1})), (std::vector<int>{1, 5}));
}

}  // namespace
}  // namespace lockstep::detail
