// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A prepared call must not allocate, fault a page, or make a system call unless it must wait. Counted, not timed.

#include <lockstep/base/error.hpp>
#include <lockstep/device/arena.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/interop/mpi.hpp>

#include "support/batch.hpp"
#include "support/binding.hpp"
#include "support/counted_allocations.hpp"
#include "support/errors.hpp"
#include "support/function_ref.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <new>
#include <optional>
#include <tuple>

namespace lockstep::test {
namespace {

#if defined(PR_SET_SYSCALL_USER_DISPATCH) && defined(__x86_64__)
volatile char selector = 0;  // SYSCALL_DISPATCH_FILTER_ALLOW
volatile sig_atomic_t system_calls = 0;

/// Handles the first system call since the trap was armed: counts it and repeats it with the trap open. The kernel has
/// restored the number of the call in the register.
void on_system_call(int, siginfo_t*, void* context) {
  selector = 0;
  system_calls = system_calls + 1;
  constexpr greg_t length_of_the_instruction = 2;
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP] -= length_of_the_instruction;
}

/// Detects system calls of this thread.
class SystemCallTrap {
 public:
  [[nodiscard]] static bool is_possible() {
    if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector) != 0) return false;
    prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
    return true;
  }
};
#endif

/// The first system call of this thread inside `body`. Only its existence matters, so it need not succeed.
template <class Body>
bool calls_the_system(const Body& body) {
#if defined(PR_SET_SYSCALL_USER_DISPATCH) && defined(__x86_64__)
  struct sigaction action{};
  action.sa_sigaction = on_system_call;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  system_calls = 0;
  prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector);
  selector = 1;  // SYSCALL_DISPATCH_FILTER_BLOCK
  body();
  selector = 0;
  prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
  return system_calls != 0;
#else
  body();
  return false;
#endif
}

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

/// Binds this rank to a core of its own while it exists, if there are enough cores: ranks on one core wait for each
/// other in every call, and a busy scheduler may leave them there.
class OwnCore {
 public:
  explicit OwnCore(const Communicator& comm) {
    if (binding_.count() >= comm.size()) static_cast<void>(binding_.bind(comm.rank(), 1));
  }

 private:
  Binding binding_;
};

struct Counts {
  long allocations = 0;
  long faults = 0;
  bool has_run_without_system_call = false;
};

template <class Call>
Counts count(Communicator& comm, const Call& call) {
  constexpr int runs = 200;
  for (int i = 0; i < 3; ++i) call();
  Counts counts{runs, runs};
  // a rank that waits for long executes code that it has not executed before: the best of several windows counts
  for (int window = 0; window < 5; ++window) {
    comm.barrier();
    const long allocations_before = allocations;
    const long faults_before = page_faults();
    for (int i = 0; i < runs; ++i) call();
    counts.faults = std::min(counts.faults, page_faults() - faults_before);
    counts.allocations = std::min(counts.allocations, allocations - allocations_before);
  }
  // a run in which a rank had to wait proves nothing, and on a busy machine many runs do; all ranks make the same
  // number of runs
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  bool goes_on = true;
  while (goes_on) {
    for (int k = 0; k < 20; ++k) counts.has_run_without_system_call |= !calls_the_system(call);
    std::array<std::int32_t, 2> votes{!counts.has_run_without_system_call, std::chrono::steady_clock::now() < end};
    comm.all_reduce(std::span(votes), ReduceOp::max);
    goes_on = votes[0] != 0 && votes[1] != 0;
  }
  return counts;
}

using Vector = std::vector<std::byte, ArenaAllocator<std::byte>>;

class PlannedStep : public testing::TestWithParam<std::tuple<DType, ReduceOp, std::int64_t>> {};

TEST_P(PlannedStep, allocates_nothing_and_makes_no_system_call) {
  const auto [dtype, op, elements] = GetParam();
  if (!supports(op, dtype) || result_dtype(op, dtype) != dtype)
    GTEST_SKIP() << to_string(dtype) << " has no " << to_string(op) << " in place";
  Communicator comm = communicator_from(MPI_COMM_WORLD);
  const OwnCore core(comm);
  // one tensor, and a list
  for (const int tensors : {1, 9}) {
    std::vector<Vector> memory;
    std::vector<TensorView> views;
    std::vector<ConstTensorView> inputs;
    for (int i = 0; i < tensors; ++i) {
      memory.emplace_back(static_cast<std::size_t>(elements) * size_of(dtype), std::byte{1});
      views.push_back({memory.back().data(), dtype, Shape{elements}, Device{}});
      inputs.emplace_back(views.back());
    }
    std::vector<Item> items;
    for (std::size_t i = 0; i < views.size(); ++i)
      items.push_back({std::span(inputs).subspan(i, 1), std::span(views).subspan(i, 1)});
    Plan plan = comm.prepare_all_reduce(items, op);
    const Counts planned = count(comm, [&] { plan.run(); });
    const Counts repeated = count(comm, [&] { comm.all_reduce(items, op); });
    for (const Counts& counts : {planned, repeated}) {
      EXPECT_EQ(counts.allocations, 0);
      EXPECT_EQ(counts.faults, 0);
      EXPECT_TRUE(counts.has_run_without_system_call);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PlannedStep,
    testing::Combine(testing::Values(DType::f32, DType::bf16, DType::f16, DType::f64, DType::i8, DType::u64),
                     testing::Values(ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max, ReduceOp::prod),
                     testing::Values(2, 1000, 40'000)));

enum class Kind : std::uint8_t { reduce_scatter, all_gather, gather, broadcast, barrier };

class RepeatedCall : public testing::TestWithParam<std::tuple<Kind, bool, std::int64_t>> {
 protected:
  static void call(Communicator& comm, Kind kind, std::span<const Item> items) {
    switch (kind) {
      case Kind::reduce_scatter: comm.reduce_scatter(items, ReduceOp::sum); break;
      case Kind::all_gather: comm.all_gather(items); break;
      case Kind::gather: comm.gather(items, 0); break;
      case Kind::broadcast: comm.broadcast(items, 0); break;
      case Kind::barrier: comm.barrier(); break;
    }
  }
};

TEST_P(RepeatedCall, allocates_nothing_and_makes_no_system_call) {
  const auto [kind, in_arena, elements] = GetParam();
  Communicator comm = communicator_from(MPI_COMM_WORLD);
  const OwnCore core(comm);
  const bool has_input = kind != Kind::broadcast || comm.rank() == 0;
  const bool has_output = kind != Kind::gather || comm.rank() == 0;
  const std::int64_t given = kind == Kind::reduce_scatter ? elements * comm.size() : elements;
  const std::int64_t got = kind == Kind::all_gather || kind == Kind::gather ? elements * comm.size() : elements;
  const auto resource = in_arena ? arena_memory_resource() : heap_memory_resource();
  std::vector<Tensor> memory;
  std::vector<ConstTensorView> inputs;
  std::vector<TensorView> outputs;
  constexpr std::size_t tensors = 5;
  for (std::size_t i = 0; i < tensors; ++i) {
    memory.emplace_back(DType::f32, Shape{given}, resource);
    inputs.emplace_back(memory.back().view());
    memory.emplace_back(DType::f32, Shape{got}, resource);
    outputs.push_back(memory.back().view());
  }
  std::vector<Item> items;
  for (std::size_t i = 0; i < tensors; ++i)
    items.push_back(
        {std::span(inputs).subspan(i, has_input ? 1 : 0), std::span(outputs).subspan(i, has_output ? 1 : 0)});
  const Counts counts = count(comm, [&] { call(comm, kind, items); });
  EXPECT_EQ(counts.allocations, 0);
  EXPECT_EQ(counts.faults, 0);
  EXPECT_TRUE(counts.has_run_without_system_call);
}

// in control blocks, in place, or staged in several rounds
INSTANTIATE_TEST_SUITE_P(All, RepeatedCall,
                         testing::Combine(testing::Values(Kind::reduce_scatter, Kind::all_gather, Kind::gather,
                                                          Kind::broadcast),
                                          testing::Bool(), testing::Values(2, 500, 60'000)));
INSTANTIATE_TEST_SUITE_P(Barrier, RepeatedCall,
                         testing::Combine(testing::Values(Kind::barrier), testing::Values(true), testing::Values(0)));

TEST(Counters, see_what_they_count) {
  const long before = allocations;
  std::vector<int> one(10, 1);
  EXPECT_EQ(allocations - before, 1);
#if defined(PR_SET_SYSCALL_USER_DISPATCH) && defined(__x86_64__)
  if (!SystemCallTrap::is_possible()) GTEST_SKIP() << "this kernel has no trap for system calls: they are not counted";
  EXPECT_TRUE(calls_the_system([] { page_faults(); }));
  EXPECT_FALSE(calls_the_system([&] { one[0] = 2; }));
#else
  GTEST_SKIP() << "this system has no trap for system calls: they are not counted";
#endif
}

/// The code of what `body` throws while the allocation after `before_failure` others fails; unavailable for bad_alloc.
std::optional<Code> code_with_a_shortage(long before_failure, FunctionRef<void()> body) {
  allocations_before_failure = before_failure;
  std::optional<Code> code;
  try {
    body();
  } catch (const Error& error) {
    code = error.code();
  } catch (const std::bad_alloc&) {
    code = Code::unavailable;
  }
  allocations_before_failure = -1;
  return code;
}

TEST(Shortage, at_any_allocation_of_a_call_reaches_the_other_ranks_at_once) {
  Communicator comm = communicator_from(MPI_COMM_WORLD);
  if (comm.size() == 1) GTEST_SKIP() << "there is no other rank";
  Communicator calm = comm.duplicate({});
  std::vector<float> large(100'000);
  std::vector<float> received(large.size());
  const std::vector<std::function<void(std::size_t)>> calls{
      [&](std::size_t size) { comm.all_reduce(std::span(large).first(size), ReduceOp::sum); },
      [&](std::size_t size) { comm.broadcast(std::span(large).first(size), 0); },
      [&](std::size_t size) {
        comm.all_to_all(std::span<const float>(large).first(size), std::span(received).first(size));
      },
      [&](std::size_t size) { comm.all_reduce_async(std::span(large).first(size), ReduceOp::max).wait(); }};
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::size_t size = 80'000 / ranks * ranks;
  for (const auto& call : calls) {
    int failed = 1;
    for (long before_failure = 0; failed != 0; ++before_failure) {
      size -= ranks;  // no operation of an earlier call is used again
      const auto code = code_with_a_shortage(comm.rank() == 1 ? before_failure : -1, [&] { call(size); });
      if (code) {
        EXPECT_EQ(*code, Code::unavailable);
      }
      failed = calm.all_reduce(code ? 1 : 0, ReduceOp::max);
      static_cast<void>(comm.recover());  // a rank on which the call was complete learns of the failure here
      ASSERT_LT(before_failure, 500);
    }
  }
}

/// The rounds in which memory is staged that the other ranks do not see are made when they are needed.
TEST(Plan, of_a_large_tensor_in_shared_memory_is_as_small_as_that_of_a_small_one) {
  Communicator comm = communicator_from(MPI_COMM_WORLD);
  if (!arena_status().is_available) GTEST_SKIP() << "no arena: " << arena_status().text;
  const auto allocations_of_plan = [&](std::int64_t count) {
    Tensor tensor(DType::f32, Shape{count}, arena_memory_resource());
    const TensorView view = tensor.view();
    const ConstTensorView input = view;
    const Item item{std::span(&input, 1), std::span(&view, 1)};
    const long before = allocations;
    Plan plan = comm.prepare_all_reduce(std::span(&item, 1), ReduceOp::sum);
    plan.run();
    return allocations - before;
  };
  static_cast<void>(allocations_of_plan(1 << 18));  // what the first one allocates for all
  const long small = allocations_of_plan(1 << 18);
  const long large = allocations_of_plan(16 << 20);
  EXPECT_LT(large, small + 64);  // 128 rounds of 512 KiB
}

}  // namespace
}  // namespace lockstep::test
