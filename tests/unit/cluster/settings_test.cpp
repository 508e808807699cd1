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
    for (const char* name : {"LOCKSTEP_TIMEOUT", "LOCKSTEP_ORDER", "LOCKSTEP_RADICES", "LOCKSTEP_ALLOW_SINGLETON"})
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

TEST_F(SettingsTest, read_one_timeout_or_two) {
  setenv("LOCKSTEP_TIMEOUT", "1.5,20", 1);
  EXPECT_EQ(settings_from_environment().warn_after, std::chrono::milliseconds(1500));
  EXPECT_EQ(settings_from_environment().fail_after, std::chrono::seconds(20));
  setenv("LOCKSTEP_TIMEOUT", "10", 1);
  EXPECT_EQ(settings_from_environment().warn_after, std::chrono::seconds(5));
  EXPECT_EQ(settings_from_environment().fail_after, std::chrono::seconds(10));
}

TEST_F(SettingsTest, refuse_bad_values_by_name) {
  for (const char* value : {"x", "-1", "20,10", "1,", "0", "1e99"}) {
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

TEST_F(SettingsTest, take_radices_or_name_the_rule) {
  EXPECT_EQ(settings_from_environment().radices, "");
  setenv("LOCKSTEP_RADICES", "n.4.f4", 1);
  EXPECT_EQ(settings_from_environment().radices, "n.4.f4");
  setenv("LOCKSTEP_RADICES", "2.x", 1);
  try {
    (void)settings_from_environment();
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_NE(error.text().find("LOCKSTEP_RADICES: radices \"2.x\": \"x\" is invalid; a pattern is"), std::string::npos)
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
