// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/settings.hpp"

#include <lockstep/base/error.hpp>

#include <gtest/gtest.h>

#include <cstdlib>

namespace lockstep::detail {
namespace {

class SettingsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"LOCKSTEP_TIMEOUT", "LOCKSTEP_ORDER", "LOCKSTEP_RADICES", "LOCKSTEP_ALLOW_SINGLETON", "LOCKSTEP_RECORDER",
          "LOCKSTEP_METRICS", "LOCKSTEP_TRACE", "LOCKSTEP_HASH_LOG", "LOCKSTEP_TRANSPORT", "LOCKSTEP_INTERFACE",
          "LOCKSTEP_PORTS", "LOCKSTEP_ADDRESS", "LOCKSTEP_ENCRYPTION"})
      unsetenv(name);
  }
  void TearDown() override { SetUp(); }
};

TEST_F(SettingsTest, have_documented_defaults) {
  const Settings settings = settings_from_environment();
  EXPECT_EQ(settings.warn_after, std::chrono::seconds(30));
  EXPECT_EQ(settings.fail_after, std::chrono::seconds(300));
  EXPECT_FALSE(settings.force_canonical_order);
}

TEST_F(SettingsTest, read_one_timeout_or_more) {
  setenv("LOCKSTEP_TIMEOUT", "1.5,20", 1);
  EXPECT_EQ(settings_from_environment().warn_after, std::chrono::milliseconds(1500));
  EXPECT_EQ(settings_from_environment().fail_after, std::chrono::seconds(20));
  setenv("LOCKSTEP_TIMEOUT", "10", 1);
  EXPECT_EQ(settings_from_environment().warn_after, std::chrono::seconds(5));
  EXPECT_EQ(settings_from_environment().fail_after, std::chrono::seconds(10));
  EXPECT_EQ(settings_from_environment().fail_after_total, std::chrono::seconds(0));
  setenv("LOCKSTEP_TIMEOUT", "1,2,3.5", 1);
  EXPECT_EQ(settings_from_environment().warn_after, std::chrono::seconds(1));
  EXPECT_EQ(settings_from_environment().fail_after, std::chrono::seconds(2));
  EXPECT_EQ(settings_from_environment().fail_after_total, std::chrono::milliseconds(3500));
}

TEST_F(SettingsTest, read_the_paths_of_metrics_trace_and_hash_log) {
  EXPECT_TRUE(settings_from_environment().metrics_file.empty());
  setenv("LOCKSTEP_METRICS", "m.prom", 1);
  setenv("LOCKSTEP_TRACE", "traces", 1);
  EXPECT_EQ(settings_from_environment().metrics_file, "m.prom");
  setenv("LOCKSTEP_HASH_LOG", "hashes", 1);
  EXPECT_EQ(settings_from_environment().trace_directory, "traces");
  EXPECT_EQ(settings_from_environment().hash_log_directory, "hashes");
  for (const char* name : {"LOCKSTEP_METRICS", "LOCKSTEP_TRACE", "LOCKSTEP_HASH_LOG"}) {
    setenv(name, "", 1);
    EXPECT_THROW((void)settings_from_environment(), Error) << name;
    unsetenv(name);
  }
}

TEST_F(SettingsTest, read_what_moves_data_between_nodes) {
  EXPECT_EQ(settings_from_environment().transport, TransportSetting::mpi);
  setenv("LOCKSTEP_TRANSPORT", "auto", 1);
  EXPECT_EQ(settings_from_environment().transport, TransportSetting::automatic);
  setenv("LOCKSTEP_TRANSPORT", "tcp", 1);
  setenv("LOCKSTEP_INTERFACE", "eth1", 1);
  setenv("LOCKSTEP_PORTS", "20000-20100", 1);
  setenv("LOCKSTEP_ADDRESS", "192.0.2.1", 1);
  const Settings settings = settings_from_environment();
  EXPECT_EQ(settings.transport, TransportSetting::tcp);
  EXPECT_FALSE(settings.encrypts);
  EXPECT_EQ(settings.tcp_interface, "eth1");
  EXPECT_EQ(settings.tcp_address, "192.0.2.1");
  EXPECT_EQ(settings.first_port, 20000);
  EXPECT_EQ(settings.last_port, 20100);
  setenv("LOCKSTEP_ENCRYPTION", "1", 1);
  EXPECT_TRUE(settings_from_environment().encrypts);
  for (const char* clear : {"mpi", "auto"}) {
    setenv("LOCKSTEP_TRANSPORT", clear, 1);
    EXPECT_THROW((void)settings_from_environment(), Error) << clear;
  }
  unsetenv("LOCKSTEP_ENCRYPTION");
  setenv("LOCKSTEP_TRANSPORT", "mpi", 1);
  EXPECT_EQ(settings_from_environment().transport, TransportSetting::mpi);
  for (const char* value : {"20000", "20000-", "-20000", "0-10", "20100-20000", "1-65536", "1-2-3", "a-b", " 1-2"}) {
    setenv("LOCKSTEP_PORTS", value, 1);
    EXPECT_THROW((void)settings_from_environment(), Error) << value;
  }
  unsetenv("LOCKSTEP_PORTS");
  setenv("LOCKSTEP_TRANSPORT", "ucx", 1);
  EXPECT_THROW((void)settings_from_environment(), Error);
}

TEST_F(SettingsTest, refuse_bad_values_by_name) {
  for (const char* value : {"x", "-1", "20,10", "1,", "0", "1e99", "1,3,2", "1,2,", "1,2,3,4"}) {
    setenv("LOCKSTEP_TIMEOUT", value, 1);
    try {
      (void)settings_from_environment();
      FAIL() << value;
    } catch (const Error& error) {
      EXPECT_NE(error.text().find("LOCKSTEP_TIMEOUT=\"" + std::string(value) + '"'), std::string::npos) << error.text();
    }
  }
  unsetenv("LOCKSTEP_TIMEOUT");
  setenv("LOCKSTEP_ORDER", "any", 1);
  EXPECT_THROW((void)settings_from_environment(), Error);
}

TEST_F(SettingsTest, have_a_recorder_unless_it_is_switched_off) {
  EXPECT_EQ(settings_from_environment().recorder_entries, 512U);
  EXPECT_EQ(settings_from_environment().recorder_directory, "");
  setenv("LOCKSTEP_RECORDER", "0", 1);
  EXPECT_EQ(settings_from_environment().recorder_entries, 0U);
  setenv("LOCKSTEP_RECORDER", "64", 1);
  EXPECT_EQ(settings_from_environment().recorder_entries, 64U);
  setenv("LOCKSTEP_RECORDER", "65536,/scratch/my, records", 1);
  EXPECT_EQ(settings_from_environment().recorder_entries, 65536U);
  EXPECT_EQ(settings_from_environment().recorder_directory, "/scratch/my, records");
  for (const char* value : {"x", "-1", "15", "65537", "512,", ",/scratch", "0,/scratch", "512 ,/scratch", "1e3"}) {
    setenv("LOCKSTEP_RECORDER", value, 1);
    try {
      (void)settings_from_environment();
      FAIL() << value;
    } catch (const Error& error) {
      EXPECT_NE(error.text().find("LOCKSTEP_RECORDER=\"" + std::string(value) + '"'), std::string::npos)
          << error.text();
    }
  }
}

TEST_F(SettingsTest, take_radices_or_name_the_rule) {
  EXPECT_EQ(settings_from_environment().radices, "");
  setenv("LOCKSTEP_RADICES", "n.4.f4", 1);
  EXPECT_EQ(settings_from_environment().radices, "n.4.f4");
  setenv("LOCKSTEP_RADICES", "0.0", 1);
  EXPECT_THROW((void)settings_from_environment(), Error);
  setenv("LOCKSTEP_RADICES", "2.x", 1);
  try {
    (void)settings_from_environment();
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_NE(error.text().find("LOCKSTEP_RADICES=\"2.x\": stage \"x\" is invalid: a stage is"), std::string::npos)
        << error.text();
  }
}

TEST_F(SettingsTest, report_unknown_variables_except_those_of_programs) {
  setenv("LOCKSTEP_TIMOUT", "1", 1);
  setenv("LOCKSTEP_TRAIN_EPOCHS", "1", 1);
  testing::internal::CaptureStderr();
  report_unknown_variables();
  const std::string text = testing::internal::GetCapturedStderr();
  unsetenv("LOCKSTEP_TIMOUT");
  unsetenv("LOCKSTEP_TRAIN_EPOCHS");
  EXPECT_NE(text.find("LOCKSTEP_TIMOUT"), std::string::npos);
  EXPECT_EQ(text.find("LOCKSTEP_TRAIN_EPOCHS"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::detail
