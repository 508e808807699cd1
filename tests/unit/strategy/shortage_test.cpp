// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A rank that runs out of host memory outside of steps: it throws std::bad_alloc, which is propagated to the others at
// once.

#include <lockstep/lockstep.hpp>

#include "support/errors.hpp"
#include "support/function_ref.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {
namespace {

constexpr std::int64_t large_rows = 1000;

/// The heap; threads that are set to be out of memory get only small blocks.
class Exhaustible final : public MemoryResource {
 public:
  static thread_local bool is_exhausted;

 private:
  void* do_allocate(std::size_t bytes) override {
    if (is_exhausted && bytes >= 1000) throw std::bad_alloc();
    return heap_memory_resource()->allocate(bytes);
  }
  void do_deallocate(void* block, std::size_t bytes) noexcept override {
    heap_memory_resource()->deallocate(block, bytes);
  }
};
thread_local bool Exhaustible::is_exhausted = false;

/// Runs `make()` with enough memory on every thread.
template <class Make>
auto with_memory(const Make& make) {
  const bool is_exhausted = std::exchange(Exhaustible::is_exhausted, false);
  auto made = make();
  Exhaustible::is_exhausted = is_exhausted;
  return made;
}

class Shortage : public testing::Test {
 protected:
  void SetUp() override { set_default_memory_resource(std::make_shared<Exhaustible>()); }
  void TearDown() override { set_default_memory_resource(nullptr); }

  /// Two ranks call `call`; the second is out of memory twice, and then has enough.
  static void check(FunctionRef<void(Strategy&, const Variable&)> call) {
    on_ranks({1, 1}, [&](Communicator& communicator) {
      MultiWorkerMirroredStrategy strategy(communicator, {});
      const Variable variable = strategy.variable(Tensor(DType::f32, Shape{large_rows, 4}), {.name = "large"});
      for (int twice = 0; twice < 2; ++twice) {
        if (communicator.rank() == 1) {
          Exhaustible::is_exhausted = true;
          EXPECT_THROW(call(strategy, variable), std::bad_alloc);
          Exhaustible::is_exhausted = false;
        } else {
          const std::string error = error_of([&] {
            call(strategy, variable);
            (void)strategy.run([](ReplicaContext& replica) { return replica.all_reduce("SUM", 1.0F); });
          });
          EXPECT_NE(error.find("rank 1 failed: std::bad_alloc"), std::string::npos) << error;
        }
      }
      call(strategy, variable);
      const auto sums = strategy.run([](ReplicaContext& replica) { return replica.all_reduce("SUM", 1.0F); });
      EXPECT_EQ(sums.component(0), 2.0F);
    });
  }
};

TEST_F(Shortage, of_a_reduction_along_axes_on_one_rank_reaches_the_others) {
  check([](Strategy& strategy, const Variable&) {
    const auto values = with_memory(
        [&] { return strategy.run([](ReplicaContext&) { return Tensor(DType::f32, Shape{large_rows, 4}); }); });
    (void)strategy.reduce("SUM", values, 1);
  });
}

TEST_F(Shortage, of_a_scatter_from_a_variables_own_memory_on_one_rank_reaches_the_others) {
  check([](Strategy&, const Variable& variable) {
    std::vector<std::int64_t> rows(large_rows);
    for (std::int64_t row = 0; row < large_rows; ++row) rows[static_cast<std::size_t>(row)] = row;
    const Tensor indices = with_memory([&] { return Tensor::from(rows); });
    variable.scatter_add(IndexedSlices{variable.component(0), indices, large_rows});
  });
}

TEST_F(Shortage, in_a_step_is_propagated_once) {
  check([](Strategy& strategy, const Variable& variable) {
    (void)strategy.run([&](ReplicaContext& replica) {
      const Tensor value = variable.read();
      return replica.merge_call(
          [](Strategy& inner, const PerReplica<Tensor>& values) {
            return inner.extended().reduce_to("SUM", values, inner.extended().worker_devices().front()).component(0);
          },
          value);
    });
  });
}

}  // namespace
}  // namespace lockstep::test
