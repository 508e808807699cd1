// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/launcher.hpp"

#include <lockstep/cluster/slurm_cluster_resolver.hpp>

#include "support/expect_error.hpp"
#include "unit/cluster/variables.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace lockstep {
namespace {

using test::expect_error;
using test::VariableMap;
using test::Variables;

/// The variables of task 2 in a step of 4 tasks on n01 and n02, with some values replaced.
VariableMap step(const VariableMap& others = {}) {
  VariableMap all = others;
  all.insert({{"SLURM_PROCID", "2"},
              {"SLURM_STEP_NUM_TASKS", "4"},
              {"SLURM_STEP_NODELIST", "n[01-02]"},
              {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}});
  return all;
}

class Slurm : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "MPI_LOCALNRANKS", "PMIX_NAMESPACE", "SLURM_DISTRIBUTION",
                             "SLURMD_NODENAME", "SLURM_GPUS_ON_NODE", "SLURM_PROCID", "SLURM_JOB_ID"}) {
      unsetenv(name);
    }
  }
};

void expect_refused(const VariableMap& variables, std::initializer_list<std::string> parts,
                    const SlurmOptions& options = {}) {
  const Variables set(variables);
  expect_error(Code::invalid_argument, parts, [&] { const SlurmClusterResolver resolver(options); });
}

TEST_F(Slurm, resolver_numbers_tasks_as_srun_does) {
  const Variables set(step());
  const SlurmClusterResolver resolver;
  EXPECT_EQ(resolver.task(), (ClusterTask{"worker", 2}));
  EXPECT_EQ(resolver.cluster_spec(), (ClusterSpec{{"worker", {"n01:8888", "n01:8889", "n02:8888", "n02:8889"}}}));
  EXPECT_EQ(resolver.master(), "n02:8888");
  EXPECT_TRUE(resolver.num_accelerators().empty());
}

TEST_F(Slurm, resolver_follows_a_cyclic_distribution) {
  const Variables set(
      step({{"SLURM_DISTRIBUTION", "cyclic:block"}, {"SLURM_STEP_TASKS_PER_NODE", "3,1"}, {"SLURMD_NODENAME", "n01"}}));
  const SlurmClusterResolver resolver({.port_base = 100});
  EXPECT_EQ(resolver.cluster_spec(), (ClusterSpec{{"worker", {"n01:100", "n02:100", "n01:101", "n01:102"}}}));
}

TEST_F(Slurm, resolver_assigns_tasks_to_jobs) {
  const Variables set(step());
  const SlurmClusterResolver resolver({.jobs = {{"chief", 1}, {"worker", 3}}});
  EXPECT_EQ(resolver.task(), (ClusterTask{"worker", 1}));
  EXPECT_EQ(resolver.cluster_spec().task_address("chief", 0), "n01:8888");
  EXPECT_EQ(id_in_cluster(resolver.cluster_spec(), "worker", 1), 2);
}

TEST_F(Slurm, resolver_divides_the_accelerators_of_a_node) {
  const Variables set(step({{"SLURM_GPUS_ON_NODE", "5"}}));
  EXPECT_EQ(SlurmClusterResolver().num_accelerators(), (Accelerators{{"GPU", 2}}));
  EXPECT_EQ(SlurmClusterResolver({.gpus_per_node = 8}).num_accelerators(), (Accelerators{{"GPU", 4}}));
  EXPECT_EQ(SlurmClusterResolver({.gpus_per_task = 1}).num_accelerators(), (Accelerators{{"GPU", 1}}));
  expect_error(Code::invalid_argument, {"3 GPUs per task (gpus_per_task)", "2 tasks on a node", "the node has 5 GPUs"},
               [] { SlurmClusterResolver({.gpus_per_task = 3}); });
}

TEST_F(Slurm, resolver_refuses_jobs_with_another_number_of_tasks) {
  expect_refused(step(), {"the jobs have 3 tasks", "step has 4"}, {.jobs = {{"worker", 3}}});
  expect_refused(step(), {"\"worker\" has 0 tasks"}, {.jobs = {{"worker", 0}}});
  expect_refused(step(), {"\"worker\" is given twice"}, {.jobs = {{"worker", 2}, {"worker", 2}}});
  expect_refused(step({{"SLURM_STEP_NUM_TASKS", "5"}}), {"has 4 tasks in total", "SLURM_STEP_NUM_TASKS is 5"});
  expect_refused(step({{"SLURM_STEP_TASKS_PER_NODE", "2,1,1"}}), {"has 2 nodes", "SLURM_STEP_TASKS_PER_NODE has 3"});
  expect_refused(step({{"SLURM_PROCID", "4"}}), {"SLURM_PROCID is 4", "4 tasks"});
}

TEST_F(Slurm, resolver_refuses_malformed_variables) {
  expect_refused(step({{"SLURM_PROCID", "two"}}), {"SLURM_PROCID is \"two\"", "must be an integer"});
  expect_refused(step({{"SLURM_STEP_NODELIST", "n[1-"}}),
                 {"SLURM_STEP_NODELIST: ", "n[1-", "at its end: expected a number"});
  expect_refused(step({{"SLURM_STEP_TASKS_PER_NODE", "2(y2)"}}), {"SLURM_STEP_TASKS_PER_NODE: ", "2(y2)"});
  expect_refused(step({{"SLURM_GPUS_ON_NODE", "-1"}}), {"SLURM_GPUS_ON_NODE is \"-1\""});
  expect_refused(step(), {"port_base is 65535", "2 tasks", "1 to 65534"}, {.port_base = 65535});
}

TEST_F(Slurm, resolver_refuses_unknown_placements_of_tasks) {
  expect_refused(step({{"SLURM_DISTRIBUTION", "plane=2"}}),
                 {"SLURM_DISTRIBUTION is \"plane=2\"", "MpiClusterResolver"});
  expect_refused(step({{"SLURMD_NODENAME", "n01"}}),
                 {"task 2 should be on node n02", "runs on n01", "MpiClusterResolver"});
}

TEST_F(Slurm, resolver_refuses_programs_that_srun_did_not_start) {
  expect_error(Code::failed_precondition, {"SLURM_PROCID is not set", "srun"}, [] { SlurmClusterResolver(); });
  const Variables set(step({{"OMPI_COMM_WORLD_RANK", "3"}, {"SLURM_LOCALID", "0"}}));
  expect_error(Code::failed_precondition, {"started by Open MPI's mpirun", "daemon", "MpiClusterResolver"},
               [] { SlurmClusterResolver(); });
}

TEST_F(Slurm, launchers_are_reported_with_their_job) {
  EXPECT_EQ(detail::launcher_of_this_process(), "an unknown launcher");
  const Variables set(VariableMap{{"SLURM_JOB_ID", "12"}, {"SLURM_PROCID", "0"}});
  EXPECT_EQ(detail::launcher_of_this_process(), "srun in Slurm job 12");
  const Variables more(VariableMap{{"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_EQ(detail::launcher_of_this_process(), "Open MPI's mpirun in Slurm job 12");
  EXPECT_EQ(detail::launcher_within_slurm(), "");
  const Variables rank(VariableMap{{"OMPI_COMM_WORLD_RANK", "0"}});
  EXPECT_EQ(detail::launcher_within_slurm(), "Open MPI's mpirun");
  const Variables of_srun(VariableMap{{"PMIX_NAMESPACE", "slurm.pmix.12.0"}});
  EXPECT_EQ(detail::launcher_within_slurm(), "");
}

}  // namespace
}  // namespace lockstep
