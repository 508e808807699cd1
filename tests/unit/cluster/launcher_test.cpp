// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/launcher.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/cluster/replica_layout.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace lockstep {
namespace {

class Launcher : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_PROCID", "SLURM_NTASKS",
                             "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_RANK"})
      unsetenv(name);
  }
  void TearDown() override { SetUp(); }
};

TEST_F(Launcher, of_another_mpi_is_reported_with_the_remedy) {
  setenv("PMI_SIZE", "4", 1);
  const std::string text = detail::launcher_mismatch("Open MPI v4.1.4");
  for (const char* part : {"PMI_SIZE=4", "MPICH", "Open MPI v4.1.4", "LOCKSTEP_ALLOW_SINGLETON"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST_F(Launcher, is_accepted_in_a_batch_script_and_for_one_rank) {
  setenv("SLURM_NTASKS", "8", 1);
  setenv("SLURM_PROCID", "0", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  EXPECT_EQ(detail::launcher_mismatch("x"), "");
  setenv("SLURM_PROCID", "1", 1);
  EXPECT_NE(detail::launcher_mismatch("x"), "");
}

TEST_F(Launcher, of_a_step_with_several_tasks_is_reported_by_its_first_task_too) {
  setenv("SLURM_PROCID", "0", 1);
  setenv("SLURM_STEP_NUM_TASKS", "1", 1);
  EXPECT_EQ(detail::launcher_mismatch("x"), "");
  setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  EXPECT_NE(detail::launcher_mismatch("x").find("SLURM_STEP_NUM_TASKS=4 shows that srun"), std::string::npos);
}

TEST_F(Launcher, of_the_daemons_of_mpirun_is_not_that_of_one_rank) {
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  setenv("SLURM_PROCID", "2", 1);
  setenv("SLURM_STEP_NUM_TASKS", "3", 1);
  EXPECT_EQ(detail::launcher_mismatch("x"), "");
}

/// As Open MPI does in MPI_Init and MPI_Finalize of a process without a launcher.
TEST_F(Launcher, gives_a_process_one_name_of_its_job) {
  const std::string name = detail::name_of_this_job();
  setenv("PMIX_NAMESPACE", "another name", 1);
  EXPECT_EQ(detail::name_of_this_job(), name);
  unsetenv("PMIX_NAMESPACE");
  EXPECT_EQ(detail::name_of_this_job(), name);
}

TEST(ReplicaLayout, scans_counts_and_finds_owners) {
  const ReplicaLayout layout({2, 1, 3});
  EXPECT_EQ(layout.replicas(), 6);
  EXPECT_EQ(layout.first(2), 3);
  EXPECT_EQ(layout.rank_of(1), 0);
  EXPECT_EQ(layout.rank_of(2), 1);
  EXPECT_EQ(layout.rank_of(5), 2);
  EXPECT_EQ(to_string(layout), "[2, 1, 3]");
  EXPECT_THROW((void)layout.rank_of(6), std::out_of_range);
  EXPECT_THROW(ReplicaLayout({1, 0}), Error);
  EXPECT_THROW(ReplicaLayout(std::vector<int>{}), Error);
}

}  // namespace
}  // namespace lockstep
