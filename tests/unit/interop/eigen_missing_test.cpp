// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// In place of eigen_test.cpp where Eigen is not installed.

#include <gtest/gtest.h>

TEST(Eigen, is_viewed) { GTEST_SKIP() << "built without Eigen 3.4 (Debian package libeigen3-dev)"; }
