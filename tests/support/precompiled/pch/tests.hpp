// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The precompiled header of the tests. Each source still includes what it uses.

#include <gtest/gtest.h>

#include <lockstep/lockstep.hpp>
#include "pch/standard.hpp"
