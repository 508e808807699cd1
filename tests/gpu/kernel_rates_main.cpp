// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "gpu/kernel_rates.hpp"

int main(int argc, char** argv) { return lockstep::test::run_kernel_rates(argc, argv); }
