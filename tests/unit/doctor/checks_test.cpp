// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What lockstep-doctor concludes from facts, each of a set-up that is broken in one way.

#include "doctor/checks.hpp"
#include "apps/options/name_ranks.hpp"
#include "doctor/report.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace doctor {
namespace {

constexpr std::int64_t gibibyte = std::int64_t{1} << 30;

/// `count` ranks on hosts of `per_host` ranks, each with a core of its own, without a fault.
JobFacts healthy_job(int count, int per_host) {
  JobFacts job;
  job.size = count;
  for (int rank = 0; rank < count; ++rank) {
    RankFacts facts;
    facts.rank = rank;
    facts.size = count;
    facts.node = rank / per_host * per_host;
    facts.has_mpi = true;
    facts.mpi_version = "Open MPI v5.0.7";
    facts.thread_level = "multiple";
    facts.library = "/usr/lib/liblockstep.so.0.1.0";
    facts.library_hash = "1";
    facts.host = "h" + std::to_string(rank / per_host);
    facts.machine = facts.host;
    facts.library_variables = {"LOCKSTEP_TIMEOUT", "LOCKSTEP_ORDER"};
    facts.processors = {rank % per_host};
    facts.cores = facts.processors;
    facts.cores_of_host = per_host;
    facts.interfaces = {{"lo", "127.0.0.1", true, true}, {"eth0", "10.0.0.1", true, false}};
    facts.shm_bytes = facts.shm_free = gibibyte;
    facts.can_write_shm = true;
    facts.huge_pages = "advise";
    facts.gpus.status = "no GPU: built without CUDA";
    facts.compute_ms = 1;
    facts.clock_error_s = 0.001;
    job.ranks.push_back(facts);
  }
  return job;
}

/// The text of the only finding of `severity` or worse; fails the test unless there is exactly one, with a remedy.
Finding only_finding(const JobFacts& job, Severity severity) {
  std::vector<Finding> bad;
  for (const Finding& each : check_all(job)) {
    if (each.severity >= Severity::note) bad.push_back(each);
  }
  EXPECT_EQ(bad.size(), 1U) << to_text(check_all(job), Colors::off);
  if (bad.empty()) return {};
  EXPECT_EQ(bad.front().severity, severity) << bad.front().text;
  EXPECT_FALSE(bad.front().remedy.empty());
  EXPECT_EQ(exit_code_of(bad), severity == Severity::error ? 3 : 0);
  return bad.front();
}

void expect_text(const Finding& finding, const std::string& part) {
  EXPECT_NE(finding.text.find(part), std::string::npos) << finding.text;
}

Link link_of(int first, int second, bool is_between_hosts) { return {first, second, is_between_hosts, 10, 1, 30, {}}; }

TEST(Checks, find_nothing_in_a_healthy_job) {
  for (const Finding& each : check_all(healthy_job(6, 2))) EXPECT_EQ(each.severity, Severity::ok) << each.text;
}

TEST(Checks, report_an_mpich_that_hangs_in_finalize_between_nodes) {
  const auto job_with = [](const char* version, const char* device, int per_host) {
    JobFacts job = healthy_job(4, per_host);
    for (RankFacts& facts : job.ranks) {
      facts.mpi_version = version;
      facts.mpi_device = device;
    }
    return job;
  };
  constexpr const char* old = "MPICH Version:\t4.0.2";
  expect_text(only_finding(job_with(old, "ch4:ucx", 2), Severity::warning), "MPI_Finalize hangs");
  for (const JobFacts& job :
       {job_with(old, "ch4:ucx", 4), job_with(old, "ch4:ofi", 2), job_with("MPICH Version:      4.2.0", "ch4:ucx", 2),
        job_with("MPICH Version:      5.0.2", "ch4:ucx", 2), job_with("MPICH", "ch4:ucx", 2)}) {
    for (const Finding& each : check_all(job)) EXPECT_EQ(each.severity, Severity::ok) << each.text;
  }
}

TEST(Checks, report_a_failed_start) {
  JobFacts job = healthy_job(1, 1);
  job.start_error = "MPI_Init_thread did not return within 5 s";
  expect_text(only_finding(job, Severity::error), "did not return");
}

TEST(Checks, name_ranks_that_do_not_answer) {
  JobFacts job = healthy_job(4, 4);
  job.ranks.pop_back();
  job.missing = {3};
  EXPECT_EQ(only_finding(job, Severity::error).ranks, std::vector<int>{3});
}

TEST(Checks, compare_the_launcher_with_mpi) {
  JobFacts job = healthy_job(1, 1);
  job.ranks[0].variables = {{"PMI_SIZE", "4"}};
  expect_text(only_finding(job, Severity::error), "PMI_SIZE=4, but the size in MPI_COMM_WORLD is 1");
  job.ranks[0].variables = {{"SLURM_PROCID", "2"}};
  expect_text(only_finding(job, Severity::error), "SLURM_PROCID=2, but the rank in MPI_COMM_WORLD is 0");
  job.ranks[0].variables = {{"SLURM_PROCID", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}};  // of mpirun's daemon
  EXPECT_EQ(exit_code_of(check_all(job)), 0);
}

TEST(Checks, report_a_low_thread_level) {
  JobFacts job = healthy_job(2, 2);
  for (RankFacts& each : job.ranks) each.thread_level = "funneled";
  const Finding finding = only_finding(job, Severity::warning);
  expect_text(finding, "funneled");
  EXPECT_TRUE(finding.ranks.empty()) << "merged: all ranks";
}

TEST(Checks, find_another_build_of_the_library) {
  JobFacts job = healthy_job(4, 2);
  job.ranks[2].library_hash = "2";
  EXPECT_EQ(only_finding(job, Severity::error).ranks, std::vector<int>{2});
}

TEST(Checks, find_two_machines_with_one_name) {
  JobFacts job = healthy_job(2, 1);
  job.ranks[1].host = job.ranks[0].host;
  expect_text(only_finding(job, Severity::warning), "2 machines have the host name h0");
}

TEST(Checks, report_clocks_that_differ) {
  JobFacts job = healthy_job(2, 1);
  job.ranks[1].clock_offset_s = -40;
  expect_text(only_finding(job, Severity::warning), "-40.0 s");
  job.ranks[1].clock_error_s = 41;  // too uncertain
  for (const Finding& each : check_all(job)) EXPECT_EQ(each.severity, Severity::ok) << each.text;
}

TEST(Checks, suggest_the_nearest_variable) {
  JobFacts job = healthy_job(2, 2);
  for (RankFacts& each : job.ranks) each.variables = {{"LOCKSTEP_TIMOUT", "3"}, {"LOCKSTEP_TRAIN_EPOCHS", "1"}};
  EXPECT_EQ(only_finding(job, Severity::warning).remedy, "did you mean LOCKSTEP_TIMEOUT?");
  EXPECT_EQ(nearest_name("LOCKSTEP_XYZWVUT", {"LOCKSTEP_ORDER"}), "");
}

TEST(Checks, find_variables_that_differ) {
  JobFacts job = healthy_job(4, 4);
  for (RankFacts& each : job.ranks) each.variables = {{"LOCKSTEP_TIMEOUT", each.rank == 1 ? "3" : "30"}};
  const Finding finding = only_finding(job, Severity::warning);
  expect_text(finding, "LOCKSTEP_TIMEOUT: 3 here, but 30 on rank 0");
  EXPECT_EQ(finding.ranks, std::vector<int>{1});
}

TEST(Checks, find_ranks_bound_to_one_core) {
  JobFacts job = healthy_job(3, 3);
  job.ranks[2].cores = job.ranks[1].cores;
  const auto findings = check_all(job);
  EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), [](const Finding& each) {
    return each.severity == Severity::warning && each.ranks == std::vector<int>{1, 2} &&
           each.text.find("bound to the same 1 core (1)") != std::string::npos;
  })) << to_text(findings, Colors::off);
}

TEST(Checks, find_bindings_that_overlap) {
  JobFacts job = healthy_job(2, 2);
  job.ranks[0].cores = {0, 1};
  expect_text(only_finding(job, Severity::warning), "bindings overlap on 1 core (1)");
}

TEST(Checks, find_too_few_cores_and_cgroup_limits) {
  JobFacts job = healthy_job(3, 3);
  for (RankFacts& each : job.ranks) each.cores = {0, 1};
  for (RankFacts& each : job.ranks) each.cores_of_host = 2;
  expect_text(only_finding(job, Severity::warning), "3 ranks on 2 cores");
  job = healthy_job(2, 2);
  for (RankFacts& each : job.ranks) each.processor_limit = 0.5;
  expect_text(only_finding(job, Severity::warning), "0.5 processors");
}

TEST(Checks, find_too_little_shared_memory) {
  JobFacts job = healthy_job(2, 2);
  for (RankFacts& each : job.ranks) each.shm_free = 1 << 20;
  expect_text(only_finding(job, Severity::error), "1 MiB free");
}

TEST(Checks, find_low_limits) {
  JobFacts job = healthy_job(1, 1);
  job.ranks[0].limits.nofile = 16;
  expect_text(only_finding(job, Severity::error), "ulimit -n 16");
  job = healthy_job(1, 1);
  job.ranks[0].limits.memlock = 65536;
  expect_text(only_finding(job, Severity::warning), "ulimit -l 64 KiB");
}

TEST(Checks, find_memory_that_ranks_may_not_read) {
  JobFacts job = healthy_job(2, 2);
  for (RankFacts& each : job.ranks) each.ptrace_scope = 1;
  expect_text(only_finding(job, Severity::warning), "ptrace_scope=1");
  for (RankFacts& each : job.ranks) each.variables = {{"OMPI_MCA_smsc", "^cma"}};
  for (const Finding& each : check_all(job)) EXPECT_EQ(each.severity, Severity::ok) << each.text;
}

TEST(Checks, find_hosts_without_a_network) {
  JobFacts job = healthy_job(2, 1);
  job.ranks[1].interfaces.pop_back();
  EXPECT_EQ(only_finding(job, Severity::error).ranks, std::vector<int>{1});
  job = healthy_job(2, 1);
  for (RankFacts& each : job.ranks) each.interfaces.push_back({"docker0", "172.17.0.1", true, false});
  expect_text(only_finding(job, Severity::warning), "docker0");
}

TEST(Checks, find_gpus_that_the_library_cannot_use) {
  JobFacts job = healthy_job(1, 1);
  job.ranks[0].gpus = {"no GPU: built without CUDA", 0, 2, "550.54.14", false};
  expect_text(only_finding(job, Severity::warning), "2 GPUs (driver 550.54.14), but lockstep can use 0");
}

TEST(Checks, name_a_slow_rank) {
  JobFacts job = healthy_job(4, 4);
  job.ranks[2].compute_ms = 3.5;
  EXPECT_EQ(only_finding(job, Severity::warning).ranks, std::vector<int>{2});
  job.ranks[2].compute_ms = 2.5;
  for (const Finding& each : check_all(job)) EXPECT_EQ(each.severity, Severity::ok) << each.text;
}

TEST(Checks, name_a_slow_link) {
  JobFacts job = healthy_job(4, 1);
  job.links = {link_of(0, 1, true), link_of(1, 2, true), link_of(2, 3, true), link_of(0, 3, true)};
  job.links[1].latency_us = 200;
  const Finding finding = only_finding(job, Severity::warning);
  expect_text(finding, "ranks 1 (h1) and 2 (h2) is 200 us, but 10 us in the median");
  job.links[1] = link_of(1, 2, true);
  job.links[1].bandwidth_gbs = 0.2;
  expect_text(only_finding(job, Severity::warning), "the time of 1 GB between ranks 1 (h1) and 2 (h2) is 5 s");
  job.links = {link_of(0, 1, true)};
  job.links[0].bandwidth_gbs = 0.05;  // too few links for a median
  expect_text(only_finding(job, Severity::warning), "less than 1 Gbit/s");
}

TEST(Checks, name_a_rank_whose_links_are_all_slow) {
  JobFacts job = healthy_job(5, 1);
  for (int a = 0; a < 5; ++a) {
    for (int b = a + 1; b < 5; ++b) job.links.push_back(link_of(a, b, true));
  }
  for (Link& each : job.links) {
    if (each.first == 3 || each.second == 3) each.latency_us = 500;
  }
  const Finding finding = only_finding(job, Severity::warning);
  expect_text(finding, "slow rank: all 4 measured links of h3");
  EXPECT_EQ(finding.ranks, std::vector<int>{3});
}

TEST(Checks, report_a_link_that_does_not_work) {
  JobFacts job = healthy_job(2, 1);
  job.links = {{0, 1, true, -1, -1, -1, "no answer from rank 1 within 5 s"}};
  expect_text(only_finding(job, Severity::error), "no answer from rank 1");
}

TEST(Report, names_ranks_and_counts) {
  EXPECT_EQ(options::name_ranks({0, 1, 2, 5, 7, 8}), "ranks 0-2, 5, 7, 8");
  const std::vector<Finding> findings{{Severity::warning, "memory", "slow", "faster", {1}}};
  EXPECT_EQ(to_text(findings, Colors::off),
            "memory\n  warning  rank 1: slow\n           remedy: faster\n0 errors, 1 warning, 0 notes\n");
}

TEST(Report, escapes_texts_of_other_ranks) {
  const std::vector<Finding> findings{{Severity::note, "hosts", "rank on \x1b[2Jhost\n", "\x9b", {}}};
  EXPECT_EQ(to_text(findings, Colors::off),
            "hosts\n  note     rank on \\x1b[2Jhost\\x0a\n           remedy: \\x9b\n0 errors, 0 warnings, 1 note\n");
}

}  // namespace
}  // namespace doctor
