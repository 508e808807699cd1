// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A main for tests that run on several ranks: every rank runs every test, rank 0 reports, and a failure on one rank is
// a failure on all.

#include "support/mpi_environment.hpp"

#include <lockstep/cluster/environment.hpp>

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <memory>

namespace {

const lockstep::Environment* the_environment = nullptr;

/// Prints the failures of ranks other than 0, whose output is otherwise suppressed.
class FailurePrinter : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank_, result.file_name(), result.line_number(), result.summary());
  }

 private:
  int rank_;
};

/// Makes a test fail on rank 0, which writes the report, if it fails on any rank.
class SharedVerdict : public testing::EmptyTestEventListener {
 public:
  void OnTestEnd(const testing::TestInfo& info) override {
    int failed = info.result()->Failed() ? 1 : 0;
    int failed_anywhere = 0;
    MPI_Allreduce(&failed, &failed_anywhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (failed_anywhere > failed) ADD_FAILURE() << "failed on another rank";
  }
};

}  // namespace

const lockstep::Environment& lockstep::test::environment() { return *the_environment; }

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  lockstep::Environment environment(argc, argv);
  the_environment = &environment;
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (environment.rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    delete listeners.Release(listeners.default_xml_generator());
    listeners.Append(new FailurePrinter(environment.rank()));
  }
  listeners.Append(new SharedVerdict);
  int result = RUN_ALL_TESTS();
  int worst = 0;
  MPI_Allreduce(&result, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return worst;
}
