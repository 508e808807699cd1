// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What lockstep-doctor reads of a host, on a host that is a folder of files.

#include "doctor/host_facts.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace doctor {
namespace {

class FakeHost : public testing::Test {
 protected:
  FakeHost() : root_(std::filesystem::temp_directory_path() / ("doctor-" + std::to_string(::getpid()))) {}
  ~FakeHost() override {
    std::error_code error;
    std::filesystem::remove_all(root_, error);
  }
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_.string() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  std::filesystem::path root_;
};

TEST_F(FakeHost, has_the_smallest_limit_of_its_cgroups) {
  EXPECT_EQ(processor_limit_of_cgroup(root_), -1);
  write("/proc/self/cgroup", "0::/job/step");
  write("/sys/fs/cgroup/job/step/cpu.max", "max 100000");
  EXPECT_EQ(processor_limit_of_cgroup(root_), -1);
  write("/sys/fs/cgroup/job/cpu.max", "150000 100000");
  EXPECT_DOUBLE_EQ(processor_limit_of_cgroup(root_), 1.5);
}

TEST_F(FakeHost, has_the_limit_of_a_cgroup_of_version_1) {
  write("/proc/self/cgroup", "4:cpu,cpuacct:/docker");
  write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000");
  write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  EXPECT_DOUBLE_EQ(processor_limit_of_cgroup(root_), 0.5);
}

TEST_F(FakeHost, has_gpus_and_a_driver) {
  for (const char* name : {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"}) write(name, "");
  write("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22");
  write("/proc/sys/kernel/yama/ptrace_scope", "1");
  const RankFacts facts = host_facts(root_);
  EXPECT_EQ(facts.gpus.devices, 2);
  EXPECT_EQ(facts.gpus.driver, "550.54.14");
  EXPECT_EQ(facts.ptrace_scope, 1);
  EXPECT_EQ(facts.shm_bytes, -1);
}

TEST_F(FakeHost, survives_the_journey_to_rank_0) {
  const RankFacts facts = host_facts();
  EXPECT_FALSE(facts.processors.empty());
  const nlohmann::json text = facts;
  EXPECT_EQ(nlohmann::json(text.get<RankFacts>()), text);
}

TEST_F(FakeHost, has_another_hash_for_another_file) {
  write("/a", "1");
  write("/b", "2");
  EXPECT_NE(hash_of_file(root_ / "a"), hash_of_file(root_ / "b"));
  EXPECT_EQ(hash_of_file(root_ / "c"), "");
}

}  // namespace
}  // namespace doctor
