// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Request::when_complete: callbacks in place of waiting threads.

#include <lockstep/base/error.hpp>
#include <lockstep/device/arena.hpp>

#include "support/errors.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

/// The outcome of one operation, as its callback gets it.
class Outcome {
 public:
  [[nodiscard]] std::function<void(const Error*)> callback() const {
    return [promise = promise_](const Error* error) { promise->set_value(error != nullptr ? error->what() : "none"); };
  }
  /// Waits without driving the communicator. "late" after two minutes.
  [[nodiscard]] std::string text() const {
    auto future = promise_->get_future();
    return future.wait_for(std::chrono::minutes(2)) == std::future_status::ready ? future.get() : "late";
  }

 private:
  std::shared_ptr<std::promise<std::string>> promise_ = std::make_shared<std::promise<std::string>>();
};

TEST(Completion, calls_the_callbacks_of_many_requests_in_the_order_of_the_calls_without_a_thread_that_waits) {
  constexpr int count = 50;
  on_ranks({1, 1, 1}, [](Communicator& comm) {
    std::vector<std::vector<float>> values(count);
    std::vector<int> order;  // written by one thread, read after the last callback
    Outcome last;
    for (int k = 0; k < count; ++k) {
      values[static_cast<std::size_t>(k)].assign(1000, static_cast<float>(k + comm.rank()));
      comm.all_reduce_async(values[static_cast<std::size_t>(k)], ReduceOp::sum, long_deadline())
          .when_complete([&order, k, done = last.callback()](const Error* error) {
            order.push_back(error == nullptr ? k : -1);
            if (k == count - 1) done(error);
          });
    }
    ASSERT_EQ(last.text(), "none");
    for (int k = 0; k < count; ++k) {
      EXPECT_EQ(order.at(static_cast<std::size_t>(k)), k);
      EXPECT_EQ(values[static_cast<std::size_t>(k)], std::vector<float>(1000, static_cast<float>(3 * k + 3)));
    }
  });
}

TEST(Completion, calls_the_callbacks_of_messages_in_the_order_of_their_ends) {
  on_ranks({1, 1}, [](Communicator& comm) {
    int first = 0;
    int second = 0;
    const Outcome of_first;
    const Outcome of_second;
    const int other = 1 - comm.rank();
    if (comm.rank() == 0) {
      comm.recv_async(first, other).when_complete(of_first.callback());
      comm.barrier();
      EXPECT_EQ(of_first.text(), "none");
      EXPECT_EQ(first, 7);
      second = 8;
      comm.send_async(second, other).when_complete(of_second.callback());
    } else {
      comm.recv_async(second, other).when_complete(of_second.callback());
      comm.barrier();
      first = 7;
      comm.send_async(first, other).when_complete(of_first.callback());
      EXPECT_EQ(of_first.text(), "none");
    }
    EXPECT_EQ(of_second.text(), "none");
    EXPECT_EQ(second, 8);
  });
}

TEST(Completion, passes_the_error_to_the_callback_and_the_communicator_can_be_used_again) {
  on_ranks({1, 1}, [](Communicator& comm) {
    std::vector<float> values(static_cast<std::size_t>(2 + comm.rank()), 1);
    const Outcome mismatch;
    comm.all_reduce_async(values, ReduceOp::sum, long_deadline()).when_complete(mismatch.callback());
    expect_all(mismatch.text(), {"mismatch: ", "rank 0 calls all_reduce", "f32 [2]", "rank 1 calls", "f32 [3]"});

    const Outcome next;
    std::vector<float> equal(4, 1);
    comm.all_reduce_async(equal, ReduceOp::sum, long_deadline()).when_complete(next.callback());
    EXPECT_EQ(next.text(), "none");
    EXPECT_EQ(equal, std::vector<float>(4, 2));
  });
}

TEST(Completion, passes_the_deadline_to_the_callback) {
  on_ranks(
      {1, 1},
      [](Communicator& comm) {
        const Outcome outcome;
        if (comm.rank() == 0) comm.barrier_async().when_complete(outcome.callback());
        if (comm.rank() == 0) expect_all(outcome.text(), {"deadline_exceeded: ", "rank 1"});
      },
      short_deadline());
}

TEST(Completion, lets_a_callback_make_further_calls_and_wait_for_them) {
  on_ranks({1, 1}, [](Communicator& comm) {
    std::vector<int> first(10, 1);
    std::vector<int> second(10, 2);
    std::vector<int> third(10, 3);
    const Outcome outcome;
    comm.all_reduce_async(first, ReduceOp::sum, long_deadline()).when_complete([&](const Error* error) {
      EXPECT_EQ(error, nullptr);
      comm.all_reduce(second, ReduceOp::sum, long_deadline());
      comm.all_reduce_async(third, ReduceOp::sum, long_deadline()).when_complete(outcome.callback());
    });
    EXPECT_EQ(outcome.text(), "none");
    EXPECT_EQ(first, std::vector<int>(10, 2));
    EXPECT_EQ(second, std::vector<int>(10, 4));
    EXPECT_EQ(third, std::vector<int>(10, 6));
  });
}

TEST(Completion, lets_a_callback_own_the_memory_of_its_operation) {
  on_ranks({1, 1}, [](Communicator& comm) {
    using Values = std::vector<float, ArenaAllocator<float>>;
    for (int k = 0; k < 20; ++k) {
      const Outcome outcome;
      auto owner = std::make_shared<Values>(1000, 1.0F);
      Request request = comm.all_reduce_async(*owner, ReduceOp::sum, long_deadline());
      request.when_complete([owner, done = outcome.callback()](const Error* error) {
        EXPECT_EQ(owner->back(), 2.0F);
        done(error);
      });
      owner.reset();
      EXPECT_TRUE(request.test());  // it has no operation any more
      EXPECT_EQ(outcome.text(), "none");
    }
  });
}

TEST(Completion, calls_the_callback_at_once_if_the_request_has_no_operation) {
  std::optional<std::thread::id> caller;
  Request().when_complete([&](const Error* error) {
    EXPECT_EQ(error, nullptr);
    caller = std::this_thread::get_id();
  });
  EXPECT_EQ(caller, std::this_thread::get_id());
}

TEST(Completion, is_awaited_by_the_end_of_the_communicator) {
  for (int k = 0; k < 20; ++k) {
    std::atomic<int> calls{0};
    std::vector<float> values(2, 1);
    on_ranks({1, 1}, [&](Communicator& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      Communicator own = comm.duplicate(short_deadline(120'000));
      own.all_reduce_async(values[rank], ReduceOp::sum).when_complete([&](const Error* error) {
        EXPECT_EQ(error, nullptr) << error->what();
        ++calls;
      });
    });
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(values, std::vector<float>(2, 2));
  }
}

TEST(Completion, reports_the_end_of_an_operation_that_another_thread_drives) {
  on_ranks({1, 1}, [](Communicator& comm) {
    for (int k = 0; k < 20; ++k) {
      std::vector<float> values(1000, 1);
      const Outcome outcome;
      comm.all_reduce_async(values, ReduceOp::sum, long_deadline()).when_complete(outcome.callback());
      comm.barrier(long_deadline());  // this thread drives, and completes both operations
      EXPECT_EQ(outcome.text(), "none");
      EXPECT_EQ(values.front(), 2.0F);
    }
  });
}

}  // namespace
}  // namespace lockstep::test
