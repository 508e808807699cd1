// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// GradientBuckets with micro-batches that are not exchanged, and with communication hooks.

#include <lockstep/base/error.hpp>
#include <lockstep/core/float16.hpp>
#include <lockstep/training/gradient_buckets.hpp>

#include "cluster/operation_meter.hpp"
#include "support/errors.hpp"
#include "unit/strategy/strategies.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

namespace lockstep::test {
namespace {

constexpr std::size_t count = 5000;
constexpr int micro_batches = 3;

float value_of(int replica, int micro_batch, std::size_t i) {
  return std::sin(static_cast<float>(i) * 0.37F + static_cast<float>(7 * replica + 3 * micro_batch));
}

/// The gradients of one replica: a tensor of f32, an empty one, and a tensor of bf16. Each tensor with elements ends a
/// bucket.
struct Gradients {
  std::vector<float> wide = std::vector<float>(count);
  std::vector<BFloat16> narrow = std::vector<BFloat16>(count);

  void compute(int replica, int micro_batch) {
    for (std::size_t i = 0; i < count; ++i) {
      wide[i] = value_of(replica, micro_batch, i);
      narrow[i] = BFloat16(value_of(replica, micro_batch, i));
    }
  }
  [[nodiscard]] std::vector<TensorView> views() {
    return {view_of(std::span(wide)), {nullptr, DType::f32, Shape{0}, Device{}}, view_of(std::span(narrow))};
  }
};

/// The sums of the micro-batches of one replica, in their order.
Gradients accumulated(int replica) {
  Gradients sums;
  std::vector<float> narrow(count);
  for (int m = 0; m < micro_batches; ++m) {
    for (std::size_t i = 0; i < count; ++i) {
      sums.wide[i] = m == 0 ? value_of(replica, m, i) : sums.wide[i] + value_of(replica, m, i);
      narrow[i] += static_cast<float>(BFloat16(value_of(replica, m, i)));
    }
  }
  for (std::size_t i = 0; i < count; ++i) sums.narrow[i] = BFloat16(narrow[i]);
  return sums;
}

/// Counts the reductions of all ranks, as LOCKSTEP_METRICS does.
class Counted {
 public:
  Counted() { detail::set_metering({.totals = true}); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { detail::set_metering({}); }
  [[nodiscard]] detail::OperationTotals since_start() const {
    detail::OperationTotals now = totals();
    now.calls -= start_.calls;
    now.bytes -= start_.bytes;
    return now;
  }

 private:
  [[nodiscard]] static detail::OperationTotals totals() {
    return detail::totals_of_this_process().operations["all_reduce"];
  }
  detail::OperationTotals start_ = totals();
};

/// Bits of the values, so that -0 differs from 0.
template <class T>
void expect_same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(T)), 0);
}

/// All-reduces the gradients of all local replicas in one call per tensor, without buckets.
void all_reduce(const Communicator& comm, std::vector<Gradients>& gradients) {
  for (const std::size_t tensor : {0u, 2u}) {
    std::vector<TensorView> outputs;
    for (Gradients& each : gradients) outputs.push_back(each.views()[tensor]);
    const std::vector<ConstTensorView> inputs(outputs.begin(), outputs.end());
    const Item item{inputs, outputs};
    comm.all_reduce(std::span(&item, 1), ReduceOp::sum);
  }
}

std::vector<std::vector<TensorView>> views_of(std::vector<Gradients>& gradients) {
  std::vector<std::vector<TensorView>> views;
  for (Gradients& each : gradients) views.push_back(each.views());
  return views;
}

TEST(NoSync, gives_the_bits_of_sums_in_the_order_of_the_micro_batches) {
  for (const std::vector<int>& ranks : {std::vector{2, 1}, std::vector{1}, std::vector{1, 1, 1}}) {
    on_ranks(ranks, [](Communicator& comm) {
      MultiWorkerMirroredStrategy strategy(comm);
      const int first = comm.layout().first(comm.rank());
      std::vector<Gradients> gradients(static_cast<std::size_t>(comm.local_replicas()));
      GradientBuckets buckets(comm, views_of(gradients), {.bucket_bytes = 1});
      for (int step = 0; step < 2; ++step) {
        for (int m = 0; m < micro_batches; ++m) {
          std::optional<GradientBuckets::NoSync> no_sync;
          if (m + 1 < micro_batches) no_sync.emplace(buckets);
          strategy.run([&](ReplicaContext& replica) {
            gradients[static_cast<std::size_t>(replica.local_replica())].compute(replica.replica_id_in_sync_group(), m);
            buckets.ready(replica, 2);
            buckets.finish(replica);  // declares the other tensors
          });
          if (no_sync) {
            EXPECT_EQ(buckets.reduced_count(), 0u);
          }
        }
        std::vector<Gradients> expected;
        for (std::size_t i = 0; i < gradients.size(); ++i) expected.push_back(accumulated(first + static_cast<int>(i)));
        all_reduce(comm, expected);
        for (std::size_t i = 0; i < gradients.size(); ++i) {
          expect_same_bits(gradients[i].wide, expected[i].wide);
          expect_same_bits(gradients[i].narrow, expected[i].narrow);
        }
      }
    });
  }
}

TEST(NoSync, makes_one_exchange_per_bucket_for_all_micro_batches) {
  for (const bool accumulates : {true, false}) {
    const Counted counted;
    on_ranks({1, 1}, [&](Communicator& comm) {
      std::vector<Gradients> gradients(1);
      GradientBuckets buckets(comm, views_of(gradients), {.bucket_bytes = 1});
      ASSERT_EQ(buckets.bucket_count(), 2u);
      for (int m = 0; m < 2 * micro_batches; ++m) {
        std::optional<GradientBuckets::NoSync> no_sync;
        if (accumulates && m % micro_batches + 1 < micro_batches) no_sync.emplace(buckets.no_sync());
        gradients[0].compute(comm.rank(), m);
        for (const std::size_t tensor : {0u, 1u, 2u}) buckets.ready(0, tensor);
        buckets.finish(0);
      }
    });
    // 2 ranks, 2 buckets, and 2 steps or all micro-batches of them
    EXPECT_EQ(counted.since_start().calls, 2u * 2u * (accumulates ? 2u : 2u * micro_batches));
  }
}

TEST(NoSync, is_refused_inside_a_step_and_for_ops_that_do_not_add) {
  on_ranks({1}, [](Communicator& comm) {
    std::vector<Gradients> gradients(1);
    GradientBuckets buckets(comm, views_of(gradients));
    buckets.ready(0, 1);
    expect_error(Code::failed_precondition, {"no_sync: tensor 1 of local replica 0 is ready already"},
                 [&] { static_cast<void>(buckets.no_sync()); });
    buckets.finish(0);
    GradientBuckets largest(comm, views_of(gradients), {.op = ReduceOp::max});
    expect_error(Code::invalid_argument, {"no_sync: the op is max"}, [&] { static_cast<void>(largest.no_sync()); });
  });
}

TEST(Bf16Compression, gives_the_bits_of_an_all_reduce_of_bf16) {
  on_ranks({2, 1}, [](Communicator& comm) {
    const int first = comm.layout().first(comm.rank());
    std::vector<Gradients> gradients(static_cast<std::size_t>(comm.local_replicas()));
    std::vector<Gradients> expected(gradients.size());
    std::vector<Gradients> exact(gradients.size());
    GradientBuckets buckets(comm, views_of(gradients), {.bucket_bytes = 1, .hook = bf16_compression()});
    for (int step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        for (std::vector<Gradients>* each : {&gradients, &expected, &exact})
          (*each)[i].compute(first + static_cast<int>(i), step);
      }
      std::vector<std::jthread> threads;
      for (int i = 0; i < comm.local_replicas(); ++i) {
        threads.emplace_back([&, i] {
          buckets.ready(i, 0);
          buckets.finish(i);
        });
      }
      threads.clear();
      all_reduce(comm, expected);
      all_reduce(comm, exact);
      std::size_t different = 0;
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        expect_same_bits(gradients[i].narrow, expected[i].narrow);  // bf16 is exchanged as it is
        for (std::size_t k = 0; k < count; ++k) {
          EXPECT_EQ(gradients[i].wide[k], static_cast<float>(expected[i].narrow[k]));
          EXPECT_NEAR(gradients[i].wide[k], exact[i].wide[k], 6 * 0x1p-8);  // 3 terms of at most 1, and the result
          different += gradients[i].wide[k] != exact[i].wide[k] ? 1 : 0;
        }
      }
      EXPECT_GT(different, count / 2);
    }
  });
}

TEST(Bf16Compression, halves_the_bytes_of_f32_tensors) {
  const auto bytes_with = [](const CommunicationHook& hook) {
    const Counted counted;
    on_ranks({1, 1}, [&](Communicator& comm) {
      std::vector<float> gradient(count);
      const std::vector<std::vector<TensorView>> views{{view_of(std::span(gradient))}};
      GradientBuckets buckets(comm, views, {.hook = hook});
      buckets.finish(0);
    });
    return counted.since_start().bytes;
  };
  EXPECT_EQ(bytes_with({}), 2 * count * sizeof(float));
  EXPECT_EQ(bytes_with(bf16_compression()), count * sizeof(float));
}

/// Exchanges nothing and fails.
class FailingExchange final : public BucketExchange {
 private:
  void do_start() override { throw std::runtime_error("no exchange today"); }
  bool do_test() override { return true; }
  void do_wait() override {}
};

TEST(CommunicationHook, hands_its_errors_to_finish) {
  on_ranks({1, 1}, [](Communicator& comm) {
    std::vector<Gradients> gradients(1);
    const CommunicationHook hook = [](const Communicator&, std::span<const Item>, ReduceOp) {
      return std::make_unique<FailingExchange>();
    };
    GradientBuckets buckets(comm, views_of(gradients), {.bucket_bytes = 1, .hook = hook});
    EXPECT_THROW(buckets.finish(0), std::runtime_error);
  });
}

}  // namespace
}  // namespace lockstep::test
