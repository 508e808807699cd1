// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Messages between two ranks: they arrive, whatever other operations are pending; errors occur on both ends.

#include "collectives/make_communicator.hpp"
#include "support/errors.hpp"
#include "support/function_ref.hpp"
#include "support/late_ranks.hpp"
#include "support/pair_cases.hpp"
#include "support/ranks.hpp"
#include "transport/loopback/loopback_transport.hpp"
#include "transport/shm/node_group.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <latch>
#include <regex>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using detail::TestHooks;

void send(Communicator& comm, int target, std::vector<float> values, const ReduceOptions& options = {}) {
  const ConstTensorView view = view_of(std::span<const float>(values));
  comm.send(std::span(&view, 1), target, options);
}

std::vector<float> recv(Communicator& comm, int source, std::size_t count, const ReduceOptions& options = {}) {
  std::vector<float> values(count, -1.0F);
  const TensorView view = view_of(std::span(values));
  comm.recv(std::span(&view, 1), source, options);
  return values;
}

/// The first message of a pair of ranks goes by the transport; the later ones go by the memory of their node.
void exchange_first_messages(Communicator& comm) {
  const int other = 1 - comm.rank();
  for (const bool sends : {comm.rank() == 0, comm.rank() != 0}) {
    if (sends) {
      send(comm, other, {7});
    } else {
      EXPECT_EQ(recv(comm, other, 1), std::vector{7.0F});
    }
  }
}

/// What each of two ranks throws; `number` is that of the first message of `body` in each direction.
std::array<std::string, 2> errors_of_message(int number, FunctionRef<void(Communicator&)> body,
                                             const CommunicatorOptions& options) {
  std::array<std::string, 2> errors;
  on_ranks(
      {1, 1},
      [&](Communicator& comm) {
        if (number == 1) exchange_first_messages(comm);
        errors[static_cast<std::size_t>(comm.rank())] = error_of([&] { body(comm); });
        // the sequence of the pair is in order, and so are the collectives
        if (virtual_time::is_active() || options.fail_after > std::chrono::minutes(1)) check_ring(comm);
        comm.barrier(long_deadline());
      },
      options);
  return errors;
}

void expect_same_but_number(const std::array<std::string, 2>& later, const std::array<std::string, 2>& errors) {
  for (std::size_t rank = 0; rank < errors.size(); ++rank)
    EXPECT_EQ(std::regex_replace(later[rank], std::regex("#1 of communicator"), "#0 of communicator"), errors[rank]);
}

/// Two ranks; what each of them throws. Messages have the deadline of their communicator. Checks that the errors are
/// the same on both paths of a message.
std::array<std::string, 2> errors_of(FunctionRef<void(Communicator&)> body,
                                     const CommunicatorOptions& options = minutes_to_fail()) {
  std::array<std::string, 2> errors = errors_of_message(0, body, options);
  expect_same_but_number(errors_of_message(1, body, options), errors);
  return errors;
}

TEST(Messages, arrive_beside_collectives_in_any_order_of_waiting) {
  for (const auto& counts : {std::vector{1}, std::vector{1, 1}, std::vector{2, 1, 3}, std::vector{1, 1, 1, 1, 1}})
    on_ranks(counts, [](Communicator& comm) { check_every_message(comm); });
}

TEST(Messages, do_not_wait_for_a_collective_that_was_called_before) {
  on_ranks({1, 1}, [](Communicator& comm) {
    if (comm.rank() == 0) {
      Request barrier = comm.barrier_async();
      send(comm, 1, {1, 2, 3});
      EXPECT_EQ(recv(comm, 1, 1), std::vector{4.0F});
      barrier.wait();
    } else {
      EXPECT_EQ(recv(comm, 0, 3), (std::vector<float>{1, 2, 3}));
      send(comm, 0, {4});
      comm.barrier();
    }
  });
}

TEST(Messages, of_several_threads_arrive) {
  on_ranks({1, 1}, [](Communicator& comm) {
    const int other = 1 - comm.rank();
    std::jthread receiver([&] {
      for (int k = 0; k < 200; ++k) ASSERT_EQ(recv(comm, other, 1), std::vector{static_cast<float>(k)});
    });
    for (int k = 0; k < 200; ++k) send(comm, other, {static_cast<float>(k)});
  });
}

/// All sizes, more messages than have room, on all paths.
void check_many_sizes(const TestHooks& hooks) {
  on_ranks({1, 1}, [&](Communicator& comm) {
    CommunicatorAccess::set_test_hooks(comm, &hooks);
    const int other = 1 - comm.rank();
    constexpr int count = 50;
    for (const std::size_t size : std::initializer_list<std::size_t>{0, 1, 24, 25, 1024, 1025, 8192, 8193, 100'000}) {
      std::vector<std::vector<float>> sent;
      std::vector<std::vector<float>> received(count, std::vector(size, -1.0F));
      for (int k = 0; k < count; ++k) sent.emplace_back(size, static_cast<float>(100 * comm.rank() + k));
      std::vector<Request> requests;
      for (int k = 0; k < count; ++k) requests.push_back(comm.send_async(sent[static_cast<std::size_t>(k)], other));
      for (int k = 0; k < count; ++k) requests.push_back(comm.recv_async(received[static_cast<std::size_t>(k)], other));
      if (size % 2 == 0) std::reverse(requests.begin(), requests.end());
      for (Request& request : requests) request.wait();
      for (int k = 0; k < count; ++k) {
        ASSERT_EQ(received[static_cast<std::size_t>(k)], std::vector(size, static_cast<float>(100 * other + k)))
            << size << " elements, message " << k;
      }
      check_ring(comm);
    }
    comm.barrier();
    CommunicatorAccess::set_test_hooks(comm, nullptr);
  });
}

TEST(Messages, of_all_sizes_arrive_if_more_are_in_flight_than_have_room) { check_many_sizes({}); }

TEST(Messages, of_all_sizes_arrive_from_memory_that_the_other_rank_cannot_access) {
  check_many_sizes({.hides_memory = [](const void*) { return true; }});
}

/// The middle one of several long messages fails, on both ends.
void check_failure_among_long_messages(const TestHooks& hooks, std::size_t received_size) {
  on_ranks({1, 1}, [&](Communicator& comm) {
    CommunicatorAccess::set_test_hooks(comm, &hooks);
    exchange_first_messages(comm);
    constexpr std::size_t size = 300'000;
    std::vector<std::vector<float>> values;
    for (int k = 0; k < 5; ++k)
      values.emplace_back(comm.rank() == 1 && k == 2 ? received_size : size, static_cast<float>(k));
    std::vector<Request> requests;
    for (auto& each : values) {
      if (comm.rank() == 0) {
        requests.push_back(comm.send_async(each, 1));
      } else {
        each.assign(each.size(), -1.0F);
        requests.push_back(comm.recv_async(each, 0));
      }
    }
    for (std::size_t k = 0; k < requests.size(); ++k) {
      const std::string error = error_of([&] { requests[k].wait(); });
      if (k == 2) {
        expect_all(error, {"mismatch: message #3 of communicator from rank 0 to rank 1", "send of f32 [300000]"});
      } else {
        EXPECT_EQ(error, "none") << k;
        EXPECT_EQ(values[k], std::vector(size, static_cast<float>(k))) << k;
      }
    }
    check_ring(comm);
    comm.barrier();
    CommunicatorAccess::set_test_hooks(comm, nullptr);
  });
}

TEST(Messages, that_do_not_fit_leave_the_long_ones_around_them_alone) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{400'000}}) {
    check_failure_among_long_messages({}, size);
    check_failure_among_long_messages({.hides_memory = [](const void*) { return true; }}, size);
  }
}

TEST(Messages, survive_a_failure_of_the_collectives) {
  on_ranks({1, 1}, [](Communicator& comm) {
    std::vector<float> values(100'000, 3.0F);
    const ConstTensorView input = view_of(std::span<const float>(values));
    const TensorView output = view_of(std::span(values));
    Request request = comm.rank() == 0 ? comm.send_async(std::span(&input, 1), 1) : Request();
    if (comm.rank() == 0) {
      comm.abort("changed its mind");
    } else {
      expect_all(error_of([&] { comm.barrier(); }), {"changed its mind"});
      std::fill(values.begin(), values.end(), 0.0F);
      comm.recv(std::span(&output, 1), 0);
      EXPECT_EQ(values, std::vector<float>(100'000, 3.0F));
    }
    request.wait();
    comm.barrier();
  });
}

TEST(Messages, that_do_not_fit_are_one_mismatch_on_both_ends) {
  const auto errors = errors_of([](Communicator& comm) {
    if (comm.rank() == 0) {
      send(comm, 1, {1, 2, 3});
    } else {
      (void)recv(comm, 0, 4);
    }
  });
  EXPECT_EQ(errors[0], errors[1]);
  expect_all(errors[0], {"mismatch: message #0 of communicator from rank 0 to rank 1: rank 0 calls send of f32 [3]",
                         "but rank 1 calls recv of f32 [4]"});
}

TEST(Messages, that_differ_in_a_later_tensor_are_a_mismatch_that_says_so) {
  const auto errors = errors_of([](Communicator& comm) {
    std::array<float, 8> values{};
    const TensorView first{values.data(), DType::f32, Shape{2}, Device{}};
    const TensorView second{values.data() + 2, DType::f32, comm.rank() == 0 ? Shape{2, 3} : Shape{3, 2}, Device{}};
    if (comm.rank() == 0) {
      comm.send(std::array<ConstTensorView, 2>{first, second}, 1);
    } else {
      comm.recv(std::array{first, second}, 0);
    }
  });
  EXPECT_EQ(errors[0], errors[1]);
  expect_all(errors[0], {"rank 0 calls send of 2 tensors (first f32 [2], 8 elements in all)",
                         "rank 1 calls recv of 2 tensors (first f32 [2], 8 elements in all)",
                         "; the first difference is in tensor 1 (counted from 0)"});
}

TEST(Messages, of_other_names_do_not_fit) {
  const auto errors = errors_of([](Communicator& comm) {
    if (comm.rank() == 0) {
      send(comm, 1, {1}, {.order = std::nullopt, .name = "weights"});
    } else {
      (void)recv(comm, 0, 1, {.order = std::nullopt, .name = "biases"});
    }
  });
  EXPECT_EQ(errors[0], errors[1]);
  expect_all(errors[0], {"mismatch:", "weights", "biases"});
}

/// The errors of a message from rank 0 to rank 1 for which rank `late` comes too late.
std::array<std::string, 2> errors_of_a_message_without(int late) {
  const auto errors_of_number = [late](int number) {
    LateRanks ranks(2, {late});
    const auto body = [&](Communicator& comm) {
      ranks.call(comm, [&] {
        if (comm.rank() == 0) {
          send(comm, 1, {1, 2, 3});
        } else {
          (void)recv(comm, 0, 3);
        }
      });
    };
    return errors_of_message(number, body, short_deadline());
  };
  std::array<std::string, 2> errors = errors_of_number(0);
  expect_same_but_number(errors_of_number(1), errors);
  return errors;
}

TEST(Messages, that_are_not_received_time_out_on_both_ends) {
  const auto errors = errors_of_a_message_without(1);
  EXPECT_EQ(errors[0], errors[1]);
  expect_all(errors[0], {"deadline_exceeded: send #0 of communicator from rank 0 to rank 1, send of f32 [3]",
                         "timed out after 1 s waiting for rank 1 to call recv"});
}

TEST(Messages, that_are_not_sent_time_out_on_both_ends) {
  const auto errors = errors_of_a_message_without(0);
  EXPECT_EQ(errors[0], errors[1]);
  expect_all(errors[0], {"deadline_exceeded: recv #0 of communicator from rank 0 to rank 1, recv of f32 [3]",
                         "timed out after 1 s waiting for rank 0 to call send"});
}

TEST(Messages, that_a_rank_waits_for_are_named_to_ranks_that_wait_for_it_in_a_collective) {
  on_ranks(
      {1, 1},
      [](Communicator& comm) {
        if (comm.rank() == 0) {
          const std::string error = error_of([&] { comm.barrier({.fail_after = std::chrono::milliseconds(1500)}); });
          expect_all(error, {"deadline_exceeded:", "waiting for rank 1"});
          if (virtual_time::is_active()) {
            expect_all(
                error,
                {"rank 1 waits in recv #0 of communicator from rank 0 to rank 1, recv of f32 [3] at collectives/"});
          }
          send(comm, 1, {1, 2, 3});
        } else {
          EXPECT_EQ(recv(comm, 0, 3), (std::vector<float>{1, 2, 3}));
          EXPECT_NE(error_of([&] { comm.barrier(); }), "none");
        }
      },
      minutes_to_fail());
}

TEST(Messages, of_many_ranks_that_a_rank_waits_for_are_cut_to_what_other_ranks_are_told) {
  if (!virtual_time::is_active()) return;  // all ranks must have come to their receives
  if (std::getenv("LOCKSTEP_SHARED_MEMORY") != nullptr) GTEST_SKIP() << "a rank awaits messages of few others";
  constexpr int ranks = 9;
  std::array<std::string, ranks> errors;
  on_ranks(
      std::vector<int>(ranks, 1),
      [&](Communicator& comm) {
        std::string& error = errors.at(static_cast<std::size_t>(comm.rank()));
        if (comm.rank() < 2) {
          error = error_of([&] { comm.barrier({.fail_after = std::chrono::milliseconds(1500)}); });
          if (comm.rank() == 1) return;
          for (int rank = 2; rank < ranks; ++rank) send(comm, rank, {1, 2, 3});
        } else {
          EXPECT_EQ(recv(comm, 0, 3), (std::vector<float>{1, 2, 3}));
          error = error_of([&] { comm.barrier(); });
        }
      },
      minutes_to_fail());
  for (const std::string& error : errors) {
    expect_all(error, {"waiting for ranks 2, 3, 4, 5, 6, 7, 8",
                       "rank 2 waits in recv #0 of communicator from rank 0 to rank 2", "8 wait in other calls"});
    EXPECT_TRUE(error.ends_with(" wait in other calls")) << error;
  }
}

/// Two ranks of two nodes, whose messages take `delay`.
void on_two_nodes(std::chrono::milliseconds delay, FunctionRef<void(Communicator&)> body,
                  const CommunicatorOptions& options) {
  detail::LoopbackHooks hooks;
  hooks.delay = [delay](int, int) { return delay; };
  auto transports = detail::make_loopback_transports({0, 1}, true, hooks);
  std::vector<std::jthread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&] {
      Communicator comm = CommunicatorAccess::make(std::move(transport), options, ReplicaLayout({1, 1}), {});
      body(comm);
    });
  }
}

/// The receiver accepts while the sender does nothing; then the sender gives up before it looks. Either both succeed,
/// or none does.
void check_receiver_that_comes_after(std::chrono::microseconds time, bool is_first_message,
                                     std::chrono::milliseconds delay = {}) {
  std::latch is_offered(1);
  std::latch is_given_up(1);
  std::array<std::string, 2> errors;
  const auto run = [&](FunctionRef<void(Communicator&)> body) {
    delay.count() == 0 ? on_ranks({1, 1}, body, short_deadline()) : on_two_nodes(delay, body, short_deadline());
  };
  run([&](Communicator& comm) {
    if (!is_first_message) exchange_first_messages(comm);
    std::string& error = errors[static_cast<std::size_t>(comm.rank())];
    if (comm.rank() == 0) {
      std::vector<float> values{1, 2, 3};
      const ConstTensorView view = view_of(std::span<const float>(values));
      error = error_of([&] {
        Request request = comm.send_async(std::span(&view, 1), 1);
        is_offered.count_down();
        request.wait();
      });
      EXPECT_TRUE(error == "none" || error.starts_with("deadline_exceeded:")) << error;
      is_given_up.count_down();
    } else {
      is_offered.wait();
      std::this_thread::sleep_for(time);
      error = error_of([&] { EXPECT_EQ(recv(comm, 0, 3), (std::vector<float>{1, 2, 3})); });
      EXPECT_TRUE(error == "none" || error.starts_with("deadline_exceeded:")) << error;
      is_given_up.wait();
    }
    if (!virtual_time::is_active()) return;  // any message may be late
    check_ring(comm);
    check_messages_to_all(comm);
  });
  if (virtual_time::is_active()) {
    EXPECT_EQ(errors[0], errors[1]) << time.count() << " us, " << is_first_message;
  }
}

TEST(Messages, that_were_accepted_too_late_leave_nothing_behind) {
  using namespace std::chrono_literals;
  for (const bool is_first_message : {true, false}) {
    check_receiver_that_comes_after(995ms, is_first_message);  // about when the sender gives up
    if (!virtual_time::is_active()) continue;
    for (const auto time :
         {890'000us, 898'000us, 899'000us, 899'900us, 900'000us, 900'100us, 901'000us, 910'000us, 980'000us, 990'000us,
          998'000us, 999'000us, 999'900us, 1'000'000us, 1'000'100us, 1'001'000us, 1'010'000us})
      check_receiver_that_comes_after(time, is_first_message);
  }
  if (!virtual_time::is_active()) return;
  for (auto time = 850ms; time < 1050ms; time += 5ms) check_receiver_that_comes_after(time, true, 20ms);
}

TEST(Messages, with_wrong_arguments_are_refused_and_told_to_the_other_rank) {
  std::array<std::string, 2> errors = errors_of([](Communicator& comm) {
    if (comm.rank() == 0) {
      const ConstTensorView nowhere{nullptr, DType::f32, Shape{3}};
      comm.send(std::span(&nowhere, 1), 1);
    } else {
      (void)recv(comm, 0, 3);
    }
  });
  expect_all(errors[0], {"invalid_argument: send: the tensor has 3 elements, but its address is null"});
  expect_all(errors[1], {"unavailable: rank 0 failed at collectives/pair_test.cpp:",
                         ": invalid_argument: send: the tensor has 3 elements, but its address is null"});
  errors = errors_of([](Communicator& comm) {
    if (comm.rank() == 0) {
      send(comm, 1, {1, 2});
    } else {
      std::array<float, 2> values{};
      const TensorView view = view_of(std::span<float>(values));
      comm.recv(std::array{view, view}, 0);
    }
  });
  expect_all(errors[1], {"invalid_argument: recv: tensor 1 overlaps tensor 0 by 8 bytes"});
  expect_all(errors[0],
             {"unavailable: rank 1 failed at collectives/pair_test.cpp:", ": invalid_argument: recv: ", "overlaps"});
}

/// The rank whose recv was refused does not call this communicator any more.
TEST(Messages, with_wrong_arguments_are_told_to_a_rank_that_sends_later) {
  std::string error;
  on_ranks({1, 1}, [&](Communicator& comm) {
    Communicator other = comm.duplicate({});
    std::array<float, 2> values{};
    const TensorView view = view_of(std::span<float>(values));
    if (comm.rank() == 1) {
      expect_all(error_of([&] { comm.recv(std::array{view, view}, 0); }), {"overlaps"});
      other.barrier();
      other.barrier();
    } else {
      other.barrier();
      error = error_of([&] { send(comm, 1, {1, 2}); });
      other.barrier();
    }
    check_ring(comm);
  });
  expect_all(error, {"unavailable: rank 1 failed at collectives/pair_test.cpp:", "overlaps"});
}

TEST(Messages, that_wait_together_share_a_warning) {
  if (!virtual_time::is_active() || virtual_time::has_delays())
    GTEST_SKIP() << "how many lines there are depends on the machine";
  constexpr std::size_t count = 300;
  auto options = minutes_to_fail();
  options.warn_after = std::chrono::seconds(1);
  testing::internal::CaptureStderr();
  on_ranks(
      {1, 1},
      [](Communicator& comm) {
        std::vector<float> values(count);
        std::vector<Request> requests;
        if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        for (float& value : values) {
          requests.push_back(comm.rank() == 0 ? comm.send_async(std::span<const float>(&value, 1), 1)
                                              : comm.recv_async(std::span(&value, 1), 0));
        }
        for (Request& request : requests) request.wait();
      },
      options);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  expect_all(
      said,
      {"300 sends and receives of this rank wait for other ranks; it has waited 1.0 s in the first, send of f32 [1]",
       ", for rank 1 to call recv"});
}

TEST(Messages, need_another_rank) {
  on_ranks({1, 1}, [](Communicator& comm) {
    expect_all(error_of([&] { send(comm, 2, {1}); }),
               {"invalid_argument: send: target is 2, but the ranks are 0 to 1"});
    expect_all(error_of([&] { (void)recv(comm, -1, 1); }), {"recv: source is -1, but the ranks are 0 to 1"});
    expect_all(error_of([&] { send(comm, comm.rank(), {1}); }), {"which is this rank"});
    check_ring(comm);
  });
}

}  // namespace
}  // namespace lockstep::test
