// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/base/error.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/training/gradient_buckets.hpp>

#include "support/batch.hpp"
#include "support/errors.hpp"
#include "unit/strategy/strategies.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <latch>
#include <numeric>
#include <random>

namespace lockstep::test {
namespace {

const std::vector<TensorCase> gradients{{DType::f32, 1000}, {DType::f32, 3},      {DType::bf16, 7001}, {DType::f32, 0},
                                        {DType::f64, 513},  {DType::f32, 20'000}, {DType::f16, 17}};

/// The tensors of one replica.
struct Replica {
  std::vector<Tensor> tensors;
  std::vector<TensorView> views;

  void fill(int id) {
    tensors.clear();
    views.clear();
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      tensors.emplace_back(gradients[k].dtype, Shape{gradients[k].count});
      views.push_back(tensors.back().view());
    }
    refill(id);
  }
  void refill(int id) {
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      const Bytes values = leaf(gradients[k], k, id);
      if (!values.empty()) std::memcpy(views[k].data, values.data(), values.size());
    }
  }
  void expect_sums(int replicas) const {
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      const auto* const begin = static_cast<const std::byte*>(views[k].data);
      EXPECT_EQ(Bytes(begin, begin + views[k].byte_count()), reduced(ReduceOp::sum, gradients[k], k, replicas))
          << "tensor " << k;
    }
  }
};

std::vector<std::vector<TensorView>> views_of(std::span<const Replica> replicas) {
  std::vector<std::vector<TensorView>> views;
  for (const Replica& replica : replicas) views.push_back(replica.views);
  return views;
}

TEST(GradientBuckets, take_their_size_from_communication_options_that_ask_for_one) {
  Replica replica;
  replica.fill(0);
  const Communicator communicator = self_communicator();
  const auto buckets_of = [&](const CommunicationOptions& options) {
    const GradientBucketsOptions chosen = GradientBucketsOptions{.bucket_bytes = std::size_t{1} << 30}.with(options);
    return GradientBuckets(communicator, views_of(std::span(&replica, 1)), chosen).bucket_count();
  };
  EXPECT_EQ(buckets_of({}), 1U);
  EXPECT_GT(buckets_of({.bytes_per_pack = 5000}), 1U);
}

TEST(GradientBuckets, give_the_bits_of_one_call_per_tensor) {
  for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{1} << 30}) {
    on_ranks({1, 2, 1}, [&](Communicator& comm) {
      std::vector<Replica> replicas(static_cast<std::size_t>(comm.local_replicas()));
      const int first = comm.layout().first(comm.rank());
      for (std::size_t i = 0; i < replicas.size(); ++i) replicas[i].fill(first + static_cast<int>(i));
      GradientBuckets buckets(comm, views_of(replicas), {.bucket_bytes = bucket_bytes});
      EXPECT_EQ(buckets.bucket_count(), bucket_bytes == 1 ? 6u : bucket_bytes == 5000 ? 3u : 1u);
      for (int step = 0; step < 4; ++step) {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < replicas.size(); ++i) {
          threads.emplace_back([&, i] {
            const int id = first + static_cast<int>(i);
            replicas[i].refill(id);
            std::vector<std::size_t> order(gradients.size());
            std::iota(order.begin(), order.end(), 0);
            std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(100 * step + id)));
            if (step == 3) order.resize(2);  // the rest is declared by finish
            for (const std::size_t k : order) buckets.ready(static_cast<int>(i), k);
            buckets.finish(static_cast<int>(i));
          });
        }
        threads.clear();
        for (const Replica& replica : replicas) replica.expect_sums(comm.layout().replicas());
      }
      EXPECT_GT(buckets.wait_seconds(), 0);
    });
  }
}

TEST(GradientBuckets, go_out_while_later_tensors_are_computed) {
  on_ranks({1, 1}, [](Communicator& comm) {
    Replica replica;
    replica.fill(comm.rank());
    const std::vector<TensorView> views = views_of({&replica, 1}).front();
    GradientBuckets buckets(comm, views, {.bucket_bytes = 1});
    buckets.ready(0, 0);
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (buckets.reduced_count() == 0 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    EXPECT_EQ(buckets.reduced_count(), 1u);
    buckets.finish(0);
    replica.expect_sums(2);
  });
}

TEST(GradientBuckets, of_one_replica_are_reduced_when_they_are_ready) {
  on_ranks({1}, [](Communicator& comm) {
    Replica replica;
    replica.fill(0);
    GradientBuckets buckets(comm, views_of({&replica, 1}), {.bucket_bytes = 5000});
    buckets.ready(0, 0);
    EXPECT_EQ(buckets.reduced_count(), 0u);
    for (std::size_t k = 1; k < gradients.size(); ++k) buckets.ready(0, k);
    EXPECT_EQ(buckets.reduced_count(), gradients.size());
    buckets.finish(0);
    replica.expect_sums(1);
  });
}

TEST(GradientBuckets, hand_a_failure_to_every_replica_and_work_again) {
  on_ranks({2, 1}, [](Communicator& comm) {
    std::vector<Replica> replicas(static_cast<std::size_t>(comm.local_replicas()));
    const int first = comm.layout().first(comm.rank());
    for (std::size_t i = 0; i < replicas.size(); ++i) replicas[i].fill(first + static_cast<int>(i));
    auto views = views_of(replicas);
    // a list that is shorter on one rank
    if (comm.rank() == 1) views[0].pop_back();
    GradientBuckets unequal(comm, views);
    std::vector<Code> codes(replicas.size(), Code::internal);
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          unequal.finish(static_cast<int>(i));
        } catch (const Error& error) {
          codes[i] = error.code();
        }
      });
    }
    threads.clear();
    for (const Code code : codes) EXPECT_EQ(code, Code::mismatch);
    comm.barrier();
  });
}

TEST(GradientBuckets, throw_an_error_of_reduced_count_again_in_finish_and_say_how_to_go_on) {
  std::latch is_posted(1);
  on_ranks({1, 1}, [&](Communicator& comm) {
    Replica replica;
    replica.fill(comm.rank());
    std::vector<TensorView> views = replica.views;
    if (comm.rank() == 1) views[0].shape = Shape{views[0].shape.element_count() - 1};
    GradientBuckets unequal(comm, views, {.bucket_bytes = 1});
    if (comm.rank() == 0) {
      unequal.ready(0, 0);
      unequal.ready(0, 1);
      is_posted.count_down();
    } else {
      is_posted.wait();
      unequal.ready(0, 0);
      // this rank knows of the mismatch before it starts the second bucket
      const auto reduce = [&] {
        while (unequal.reduced_count() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      };
      expect_all(error_of(reduce), {"mismatch:"});
    }
    expect_all(error_of([&] { unequal.finish(0); }), {"mismatch:"});
    for (int step = 0; step < 2; ++step) {
      const std::string error = error_of([&] { unequal.finish(0); });
      expect_all(error, {"mismatch:", "different operations", "create a new GradientBuckets on every rank"});
      EXPECT_EQ(error.find("recover"), std::string::npos) << error;
    }
    GradientBuckets buckets(comm, replica.views, {.bucket_bytes = 1});
    replica.refill(comm.rank());
    buckets.finish(0);
    replica.expect_sums(2);
  });
}

TEST(GradientBuckets, serve_the_replicas_of_a_step) {
  on_workers({2, 1}, [](Strategy& strategy) {
    const Communicator& comm = strategy.communicator();
    std::vector<Replica> replicas(static_cast<std::size_t>(comm.local_replicas()));
    const int first = comm.layout().first(comm.rank());
    for (std::size_t i = 0; i < replicas.size(); ++i) replicas[i].fill(first + static_cast<int>(i));
    GradientBuckets buckets(comm, views_of(replicas), {.bucket_bytes = 5000});
    for (int step = 0; step < 3; ++step) {
      strategy.run([&](ReplicaContext& replica) {
        replicas[static_cast<std::size_t>(replica.local_replica())].refill(replica.replica_id_in_sync_group());
        for (std::size_t k = 0; k < gradients.size(); ++k) buckets.ready(replica, k);
        buckets.finish(replica);
      });
      for (const Replica& replica : replicas) replica.expect_sums(3);
    }
    EXPECT_GT(buckets.wait_seconds(), 0);
  });
}

TEST(GradientBuckets, do_not_wait_for_a_replica_that_has_left_the_step) {
  on_ranks({2}, [](Communicator& comm) {
    MultiWorkerMirroredStrategy strategy(comm);
    std::vector<Replica> replicas(2);
    for (int i = 0; i < 2; ++i) replicas[static_cast<std::size_t>(i)].fill(i);
    GradientBuckets buckets(comm, views_of(replicas));
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THROW(strategy.run([&](ReplicaContext& replica) {
      if (replica.local_replica() == 1) throw std::runtime_error("out of luck");
      buckets.finish(replica);
    }),
                 std::exception);
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              virtual_time::is_active() ? std::chrono::seconds(1) : std::chrono::minutes(2));
  });
}

TEST(GradientBuckets, give_up_on_a_local_replica_after_the_deadline_and_work_again) {
  on_ranks({2},
           [](Communicator& comm) {
             std::vector<Replica> replicas(2);
             for (int i = 0; i < 2; ++i) replicas[static_cast<std::size_t>(i)].fill(i);
             GradientBuckets buckets(comm, views_of(replicas));
             expect_error(Code::deadline_exceeded, {"1 of 2 local replicas"}, [&] { buckets.finish(0); });
             for (int i = 0; i < 2; ++i) replicas[static_cast<std::size_t>(i)].refill(i);
             std::jthread other([&] { buckets.finish(1); });
             buckets.finish(0);
             other.join();
             for (const Replica& replica : replicas) replica.expect_sums(2);
           },
           // of real time: enough for the call that follows
           {.fail_after = virtual_time::is_active() ? std::chrono::milliseconds(300) : std::chrono::seconds(10)});
}

TEST(GradientBuckets, refuse_what_makes_no_sense) {
  on_ranks({1}, [](Communicator& comm) {
    Replica replica;
    replica.fill(0);
    EXPECT_EQ(code_of([&] { GradientBuckets buckets(comm, std::span<const std::vector<TensorView>>()); }),
              Code::invalid_argument);
    GradientBuckets buckets(comm, views_of({&replica, 1}));
    EXPECT_EQ(code_of([&] { buckets.ready(0, 99); }), Code::invalid_argument);
    EXPECT_EQ(code_of([&] { buckets.ready(1, 0); }), Code::invalid_argument);
    buckets.ready(0, 0);
    EXPECT_EQ(code_of([&] { buckets.ready(0, 0); }), Code::failed_precondition);
    buckets.finish(0);
    replica.expect_sums(1);
  });
}

TEST(GradientBuckets, refuse_an_op_that_changes_the_dtype) {
  on_ranks({1}, [](Communicator& comm) {
    Tensor tensor(DType::i32, Shape{4});
    const std::vector<std::vector<TensorView>> lists{{tensor.view()}};
    GradientBucketsOptions options;
    options.op = ReduceOp::mean;
    expect_error(Code::invalid_argument, {"GradientBuckets: tensor 0 is i32, whose mean is f64"},
                 [&] { GradientBuckets buckets(comm, lists, options); });
  });
}

TEST(GradientBuckets, refuse_lists_of_different_shapes) {
  on_ranks({2}, [](Communicator& comm) {
    Tensor four(DType::f32, Shape{4});
    Tensor three(DType::f32, Shape{3});
    const std::vector<std::vector<TensorView>> lists{{four.view()}, {three.view()}};
    expect_error(Code::invalid_argument,
                 {"GradientBuckets: tensor 0 is f32 [3] in gradients[1] but f32 [4] in gradients[0]"},
                 [&] { GradientBuckets buckets(comm, lists); });
  });
}

}  // namespace
}  // namespace lockstep::test
