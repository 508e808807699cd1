// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/program.hpp"

int main(int argc, char** argv) { return perf::run_lockstep_perf(argc, argv); }
