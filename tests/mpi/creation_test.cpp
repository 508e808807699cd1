// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Communicators that are made while a rank is late, is stopped or fails, and by several threads.

#include <lockstep/interop/mpi.hpp>

#include "support/batch.hpp"
#include "support/collective_cases.hpp"
#include "support/errors.hpp"
#include "support/function_ref.hpp"
#include "support/mpi_environment.hpp"
#include "support/ranks.hpp"
#include "support/stop.hpp"

#include <lockstep/cluster/environment.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <regex>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using std::chrono::milliseconds;

CommunicatorOptions long_limit(std::string name = "long") {
  CommunicatorOptions options;
  options.fail_after = std::chrono::minutes(2);
  options.name = std::move(name);
  return options;
}

/// Whether the ranks of a node share no memory.
bool uses_messages() {
  const char* const value = std::getenv("LOCKSTEP_SHARED_MEMORY");
  return value != nullptr && std::string(value) == "0";
}

int rank() { return environment().rank(); }
int size() { return environment().size(); }
bool is_last() { return rank() == size() - 1; }
std::string last_rank() { return "rank " + std::to_string(size() - 1); }

/// The value of an environment variable while the object exists.
class Setting {
 public:
  Setting(std::string name, const char* value) : name_(std::move(name)) {
    if (const char* const before = std::getenv(name_.c_str())) before_ = before;
    setenv(name_.c_str(), value, 1);
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() {
    if (before_) {
      setenv(name_.c_str(), before_->c_str(), 1);
    } else {
      unsetenv(name_.c_str());
    }
  }

 private:
  std::string name_;
  std::optional<std::string> before_;
};

/// A program's own communicator.
class OwnComm {
 public:
  OwnComm() { MPI_Comm_dup(MPI_COMM_WORLD, &comm_); }
  OwnComm(const OwnComm&) = delete;
  OwnComm& operator=(const OwnComm&) = delete;
  ~OwnComm() { MPI_Comm_free(&comm_); }
  [[nodiscard]] MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

using Make = std::function<Communicator(const CommunicatorOptions&)>;

/// The last rank comes when the others have failed: all ranks get the same kind of error, which names
/// that rank, and the next attempt works.
void check_late_rank(const Make& make) {
  if (size() == 1) GTEST_SKIP() << "there is no other rank that waits";
  MPI_Barrier(MPI_COMM_WORLD);
  if (is_last()) MPI_Barrier(MPI_COMM_WORLD);
  const auto error = thrown_by([&] { static_cast<void>(make(short_deadline(1500))); });
  if (!is_last()) MPI_Barrier(MPI_COMM_WORLD);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::deadline_exceeded) << error->what();
  if (!is_last()) expect_all(error->what(), {"timed out", last_rank()});
  MPI_Barrier(MPI_COMM_WORLD);
  const Communicator again = make(long_limit());
  EXPECT_EQ(again.all_reduce(1, ReduceOp::sum, long_deadline()), size());
}

TEST(Creation, of_the_world_names_a_rank_that_is_late) { check_late_rank(world_communicator); }

TEST(Creation, from_a_programs_communicator_names_a_rank_that_is_late) {
  const OwnComm own;
  check_late_rank([&](const CommunicatorOptions& options) { return communicator_from(own.get(), options); });
}

/// Creations from it have its deadline, too.
Communicator parent_with_a_short_deadline() {
  MPI_Barrier(MPI_COMM_WORLD);
  return world_communicator(short_deadline(3000));
}

TEST(Creation, by_duplicate_names_a_rank_that_is_late) {
  const Communicator parent = parent_with_a_short_deadline();
  const Communicator calm = world_communicator(long_limit());
  check_late_rank(
      [&](const CommunicatorOptions& options) { return (options.name == "long" ? calm : parent).duplicate(options); });
}

TEST(Creation, by_split_names_a_rank_that_is_late) {
  const Communicator parent = parent_with_a_short_deadline();
  const Communicator calm = world_communicator(long_limit());
  check_late_rank([&](const CommunicatorOptions& options) {
    return (options.name == "long" ? calm : parent).split(0, -rank(), options).value();
  });
}

TEST(Creation, fails_on_all_ranks_if_they_have_different_transports) {
  if (size() == 1) GTEST_SKIP() << "there is no other rank";
  const OwnComm own;
  const auto make = [&] { return communicator_from(own.get(), long_limit()); };
  std::optional<Error> error;
  {
    const char* const value = std::getenv("LOCKSTEP_TRANSPORT");
    const bool is_tcp = value != nullptr && std::string(value) == "tcp";
    const Setting of_last("LOCKSTEP_TRANSPORT", is_tcp != is_last() ? "tcp" : "mpi");
    error = thrown_by([&] { static_cast<void>(make()); });
  }
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::mismatch);
  expect_all(error->what(), {"LOCKSTEP_TRANSPORT is", "on rank", " on rank 0; set it alike"});
  EXPECT_EQ(make().all_reduce(1, ReduceOp::sum, long_deadline()), size());
}

TEST(Creation, fails_on_all_ranks_if_only_some_encrypt) {
  if (size() == 1) GTEST_SKIP() << "there is no other rank";
  if (std::getenv("LOCKSTEP_TRANSPORT") != nullptr) GTEST_SKIP() << "the network of this process exists already";
  const Setting tcp("LOCKSTEP_TRANSPORT", "tcp");
  const OwnComm own;
  const Setting encryption("LOCKSTEP_ENCRYPTION", is_last() ? "1" : "0");
  const auto error = thrown_by([&] { static_cast<void>(communicator_from(own.get(), long_limit())); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::mismatch);
  expect_all(error->what(), {"LOCKSTEP_ENCRYPTION is 1 on " + last_rank(), "but not on rank 0; set it alike"});
}

TEST(Creation, chooses_one_transport_for_all_ranks_and_all_communicators) {
  if (size() == 1) GTEST_SKIP() << "there is no other rank";
  const Setting automatic("LOCKSTEP_TRANSPORT", "auto");
  const Setting no_memory("LOCKSTEP_SHARED_MEMORY", "0");
  const OwnComm own;
  const Communicator first = communicator_from(own.get(), long_limit());
  const std::string name(first.transport());
  EXPECT_TRUE(name == "mpi" || name == "tcp") << name;
  expect_all(std::string(first.transport_reason()), {"64 B there and back", "us over TCP", "us by MPI"});
  const auto ranks_with_tcp = [](const Communicator& made) {
    return made.all_reduce(made.transport() == "tcp" ? 1 : 0, ReduceOp::sum, long_deadline());
  };
  EXPECT_EQ(ranks_with_tcp(first), name == "tcp" ? size() : 0);
  const OwnComm other;
  const Communicator second = communicator_from(other.get(), long_limit());
  EXPECT_EQ(ranks_with_tcp(second), name == "tcp" ? size() : 0);
  const Communicator copy = first.duplicate(long_limit("copy"));
  EXPECT_EQ(copy.transport(), name);
  EXPECT_EQ(copy.transport_reason(), first.transport_reason());
  EXPECT_EQ(ranks_with_tcp(copy), name == "tcp" ? size() : 0);
}

TEST(Creation, tells_in_which_operation_the_missing_rank_waits) {
  if (size() != 2) GTEST_SKIP() << "the case has two ranks";
  const Communicator world = world_communicator(long_limit());
  const auto wait_in_world = [&] { return world.barrier_async({.name = "elsewhere"}); };
  const auto create = [] { static_cast<void>(world_communicator(short_deadline(3000))); };
  if (is_last()) {
    Request waiting = wait_in_world();
    MPI_Barrier(MPI_COMM_WORLD);
    waiting.wait();
    expect_all(error_of(create), {"rank 1 waits in", "elsewhere"});  // each rank gets the error once
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    expect_all(error_of(create), {"deadline_exceeded", "for rank 1", "rank 1 waits in", "elsewhere"});
    wait_in_world().wait();
  }
}

TEST(Creation, works_again_after_a_failure_of_another_rank) {
  const Communicator parent = world_communicator(long_limit());
  if (size() == 1) GTEST_SKIP() << "there is no other rank that fails";
  if (is_last()) {
    std::this_thread::sleep_for(milliseconds(300));
    parent.abort("boom");
  } else {
    expect_all(error_of([&] { static_cast<void>(parent.duplicate({})); }), {"unavailable", "boom"});
  }
  Communicator again = parent.duplicate(long_limit());
  check_every_collective(again);
}

TEST(Creation, rejects_timeouts_that_differ_on_all_ranks) {
  if (size() == 1) GTEST_SKIP() << "there is no other rank";
  const OwnComm own;
  const CommunicatorOptions options = short_deadline(is_last() ? 70'000 : 80'000);
  const std::string rule = "fail_after is 80000 ms on rank 0 but 70000 ms on " + last_rank();
  expect_all(error_of([&] { static_cast<void>(world_communicator(options)); }),
             {"mismatch: world_communicator: " + rule});
  expect_all(error_of([&] { static_cast<void>(communicator_from(own.get(), options)); }),
             {"mismatch: communicator_from: " + rule});
  EXPECT_EQ(world_communicator(long_limit()).all_reduce(1, ReduceOp::sum, long_deadline()), size());
}

TEST(Creation, rejects_a_number_of_replicas_on_all_ranks) {
  const Communicator parent = world_communicator(long_limit());
  CommunicatorOptions options = long_limit();
  options.local_replicas = is_last() ? 0 : 1;
  EXPECT_EQ(code_of([&] { static_cast<void>(parent.duplicate(options)); }), Code::invalid_argument);
  EXPECT_EQ(code_of([&] { static_cast<void>(world_communicator(options)); }), Code::invalid_argument);
  static_cast<void>(parent.duplicate(long_limit()));
}

TEST(Creation, by_two_threads_in_opposite_orders_does_not_deadlock) {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "MPI allows one thread at a time";
  std::array parents{world_communicator(long_limit("a")), world_communicator(long_limit("b"))};
  const auto make = [&](int which) {
    for (int i = 0; i < 30; ++i) {
      const Communicator made = parents[static_cast<std::size_t>(which)].duplicate(long_limit());
      const auto part = made.split(rank() % 2, 0, long_limit());
      EXPECT_EQ(made.all_reduce(which, ReduceOp::sum, long_deadline()), which * size());
      EXPECT_EQ(part->all_reduce(1, ReduceOp::sum, long_deadline()), part->size());
    }
  };
  const int first = rank() % 2;
  std::jthread thread([&] { make(1 - first); });
  if (first == 0) std::this_thread::yield();
  make(first);
}

/// Parts of parts use the MPI communicator of the whole, beside it and beside each other.
TEST(Creation, keeps_parts_apart_that_share_an_mpi_communicator) {
  const Communicator world = world_communicator(long_limit("world"));
  std::vector<Communicator> alive{world};
  for (int i = 0; i < 6; ++i) {
    const int color = i % 2 == 0 ? rank() / 2 : rank() % 2;
    auto part = alive[static_cast<std::size_t>(i / 2)].split(color, -rank(), long_limit("part"));
    ASSERT_TRUE(part);
    alive.push_back(*part);
    if (i % 3 == 0) alive.push_back(part->duplicate(long_limit("twin")));
  }
  std::vector<Request> requests;
  std::vector<std::vector<int>> values;
  for (const Communicator& comm : alive) values.emplace_back(1000, comm.size());
  for (std::size_t i = 0; i < alive.size(); ++i) {
    requests.push_back(alive[i].all_reduce_async(std::span(values[i]), ReduceOp::sum, long_deadline()));
  }
  for (std::size_t i = alive.size(); i-- > 0;) requests[i].wait();
  for (std::size_t i = 0; i < alive.size(); ++i) EXPECT_EQ(values[i][999], alive[i].size() * alive[i].size());
  for (std::size_t i = alive.size(); i-- > 0;) check_every_collective(alive[i]);
}

TEST(Creation, of_an_order_of_ranks_that_is_not_that_of_mpi_reduces_in_any_order_too) {
  const auto part = world_communicator(long_limit()).split(0, -rank(), long_limit());
  ASSERT_TRUE(part);
  EXPECT_EQ(part->rank(), size() - 1 - rank());
  EXPECT_EQ(part->all_reduce(1.0, ReduceOp::sum, long_deadline(Order::any)), size());
  const std::vector<int> all = part->all_gather(rank(), long_deadline());
  for (int r = 0; r < size(); ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], size() - 1 - r);
}

/// The last rank is stopped at some moment of a sequence of creations by `make`, whose deadline is short. The others
/// get an error before the rank continues, and further creations work then. If the ranks exchange messages, one may
/// have been lost, and then further creations are refused. If they `may_fail`, they may also time out.
void check_stopped_rank(FunctionRef<void()> make, FunctionRef<Communicator()> make_at_last, bool by_messages,
                        bool may_fail = false) {
  if (size() == 1) GTEST_SKIP() << "there is no other rank that waits";
  StoppedRank stopped;
  for (int round = 0; round < 2; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_last()) stopped.stop(milliseconds(15 + 10 * round));
    std::optional<Error> error;
    for (int i = 0; i < 100'000 && !error; ++i) error = thrown_by(make);
    stopped.meet();
    ASSERT_TRUE(error);
    if (!is_last()) {
      // a rank that waits for the last one may keep the others waiting
      const std::regex expected("deadline_exceeded: .*ranks? ([0-9], )*" + std::to_string(size() - 1));
      EXPECT_TRUE(std::regex_search(error->what(), expected)) << error->what();
    }
    std::optional<Communicator> made;
    int lost = 0;
    for (int attempt = 0; attempt < 6 && !made; ++attempt) {
      MPI_Barrier(MPI_COMM_WORLD);
      const std::string failure = error_of([&] { made = make_at_last(); });
      if (failure.find(" no longer works, because of an earlier failure: ") != std::string::npos) lost = 1;
      int count = made ? 1 : 0;  // a rank may have to hear of the failure first; then all try again
      MPI_Allreduce(MPI_IN_PLACE, &count, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      if (count < size()) made.reset();
    }
    MPI_Allreduce(MPI_IN_PLACE, &lost, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if ((by_messages && lost == 1) || (may_fail && !made)) return;
    ASSERT_TRUE(made);
    EXPECT_EQ(made->all_reduce(1, ReduceOp::sum, long_deadline()), size());
  }
}

TEST(Creation, by_duplicate_and_split_ends_in_time_when_a_rank_is_stopped) {
  const Communicator parent = parent_with_a_short_deadline();
  check_stopped_rank(
      [&] {
        const Communicator made = parent.duplicate(short_deadline(3000));
        static_cast<void>(made.split(rank() % 2, 0, short_deadline(3000)));
      },
      [&] {
        static_cast<void>(parent.recover());  // some ranks may have completed an operation in which others failed
        return parent.duplicate(long_limit());
      },
      uses_messages());
}

// MPI_Comm_idup calls that a failure has interrupted can keep later ones of that communicator from completing.
TEST(Creation, from_a_programs_communicator_ends_in_time_when_a_rank_is_stopped) {
  const OwnComm own;
  check_stopped_rank([&] { static_cast<void>(communicator_from(own.get(), short_deadline(3000))); },
                     [&] { return communicator_from(own.get(), short_deadline(2000)); }, false, true);
}

// The last test: afterwards world_communicator may be refused.
TEST(Creation, of_the_world_ends_in_time_when_a_rank_is_stopped) {
  check_stopped_rank([] { static_cast<void>(world_communicator(short_deadline(3000))); },
                     [] { return world_communicator(short_deadline(20'000)); }, true);
}

}  // namespace
}  // namespace lockstep::test
