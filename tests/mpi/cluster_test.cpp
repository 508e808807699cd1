// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The information that ranks have about the job before they exchange tensors.

#include <lockstep/cluster/environment.hpp>
#include <lockstep/cluster/mpi_cluster_resolver.hpp>
#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>

#include "support/expect_error.hpp"
#include "support/mpi_environment.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>

namespace lockstep {
namespace {

std::string own_host() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  return {name.data(), static_cast<std::size_t>(length)};
}

TEST(MpiClusterResolver, has_a_task_with_a_unique_address_for_each_rank) {
  const MpiClusterResolver resolver({.port_base = 4000});
  const Environment& environment = test::environment();
  EXPECT_EQ(resolver.task(), (ClusterTask{"worker", environment.rank()}));
  EXPECT_EQ(resolver.cluster_spec().num_tasks("worker"), environment.size());
  EXPECT_EQ(resolver.master().substr(0, resolver.master().find(':')), own_host());
  std::set<std::string> addresses;
  for (const auto& [id, address] : resolver.cluster_spec().as_dict().at("worker")) addresses.insert(address);
  EXPECT_EQ(addresses.size(), static_cast<std::size_t>(environment.size()));
  EXPECT_TRUE(addresses.contains(own_host() + ":4000"));
}

TEST(MpiClusterResolver, assigns_ranks_to_jobs_and_to_a_strategy) {
  const int ranks = test::environment().size();
  if (ranks == 1) GTEST_SKIP() << "one rank is one job";
  const MpiClusterResolver resolver({.jobs = {{"chief", 1}, {"worker", ranks - 1}}});
  const int id = id_in_cluster(resolver.cluster_spec(), resolver.task_type(), resolver.task_id());
  EXPECT_EQ(id, test::environment().rank());
  MultiWorkerMirroredStrategy strategy(MultiWorkerOptions{.cluster_resolver = resolver});
  EXPECT_EQ(strategy.cluster_resolver()->master(), resolver.master());
  EXPECT_EQ(is_chief(resolver.cluster_spec(), resolver.task_type(), resolver.task_id()), strategy.is_chief());
}

TEST(MpiClusterResolver, fails_in_time_if_a_rank_does_not_come) {
  const Environment& environment = test::environment();
  if (environment.size() == 1) GTEST_SKIP() << "there is no other rank";
  if (environment.rank() == environment.size() - 1) {
    MPI_Barrier(MPI_COMM_WORLD);
    const MpiClusterResolver late;  // the others have left their names
    EXPECT_EQ(late.cluster_spec().num_tasks("worker"), environment.size());
  } else {
    const char* const former = std::getenv("LOCKSTEP_TIMEOUT");
    const std::string limit = former != nullptr ? former : "";
    ::setenv("LOCKSTEP_TIMEOUT", "1", 1);
    test::expect_error(Code::deadline_exceeded,
                       {"MpiClusterResolver: timed out after 1 s", "has not created its MpiClusterResolver"},
                       [] { const MpiClusterResolver resolver; });
    limit.empty() ? ::unsetenv("LOCKSTEP_TIMEOUT") : ::setenv("LOCKSTEP_TIMEOUT", limit.c_str(), 1);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(MpiClusterResolver, refuses_jobs_with_another_number_of_tasks_on_every_rank) {
  const int ranks = test::environment().size();
  test::expect_error(Code::invalid_argument,
                     {"MpiClusterResolver", "the jobs have " + std::to_string(ranks + 1), std::to_string(ranks)},
                     [&] { MpiClusterResolver({.jobs = {{"worker", ranks + 1}}}); });
  test::expect_error(Code::invalid_argument, {"port_base is 0"}, [] { MpiClusterResolver({.port_base = 0}); });
}

TEST(Environment, counts_the_ranks_of_its_node_regardless_of_slurms_variables) {
  // the value on every rank of a node under mpirun in a Slurm job
  setenv("SLURM_LOCALID", "0", 1);
  const Environment& environment = test::environment();
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int rank = -1;
  int size = -1;
  MPI_Comm_rank(node, &rank);
  MPI_Comm_size(node, &size);
  MPI_Comm_free(&node);
  EXPECT_EQ(environment.local_rank(), rank);
  EXPECT_EQ(environment.local_size(), size);
  EXPECT_GE(environment.nodes(), 1);
  EXPECT_GE(environment.threads_per_rank(), 1);
  unsetenv("SLURM_LOCALID");
}

TEST(Environment, describes_ranks_nodes_host_and_cores) {
  const Environment& environment = test::environment();
  const std::string text = environment.describe();
  const std::string ranks = std::to_string(environment.size()) + (environment.size() == 1 ? " rank on " : " ranks on ");
  for (const std::string& part : {ranks, std::string("started by "), "this rank: " + std::to_string(environment.rank()),
                                  std::string("thread level"), std::string("NUMA node"), std::string("cores: ")}) {
    EXPECT_NE(text.find(part), std::string::npos) << '"' << part << "\" is missing in: " << text;
  }
}

}  // namespace
}  // namespace lockstep
