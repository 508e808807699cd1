// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Messages between two ranks, for any transport: each case is called by every rank of `comm`.

#pragma once

#include "support/batch.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace lockstep::test {

/// The tensors of one message, on one end.
class Letter {
 public:
  Letter(const std::vector<TensorCase>& tensors, std::uint64_t seed) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      expected_.push_back(awkward_values(tensors[i].dtype, tensors[i].count, seed + i));
      memory_.push_back(expected_.back());
      shapes_.push_back({nullptr, tensors[i].dtype, Shape{tensors[i].count}, Device{}});
    }
  }
  [[nodiscard]] std::vector<ConstTensorView> sent() {
    const auto views = received_into();
    return {views.begin(), views.end()};
  }
  /// Filled with a pattern that no letter has.
  [[nodiscard]] std::vector<TensorView> received() {
    for (Bytes& bytes : memory_) std::fill(bytes.begin(), bytes.end(), std::byte{0xa5});
    return received_into();
  }
  void expect_arrived() const { EXPECT_EQ(memory_, expected_); }

 private:
  [[nodiscard]] std::vector<TensorView> received_into() {
    for (std::size_t i = 0; i < shapes_.size(); ++i) shapes_[i].data = memory_[i].data();
    return shapes_;
  }

  std::vector<Bytes> expected_;
  std::vector<Bytes> memory_;
  std::vector<TensorView> shapes_;
};

inline std::vector<TensorCase> letter_list() {
  return {{DType::f32, 5}, {DType::u8, 0}, {DType::bf16, 1033}, {DType::f64, 20'001}};
}

/// A letter goes round: each rank sends to the next one, the first one first.
inline void check_ring(Communicator& comm) {
  if (comm.size() == 1) return;
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  Letter letter(letter_list(), 40);
  const auto receive = [&] {
    Letter received(letter_list(), 40);
    comm.recv(received.received(), previous);
    received.expect_arrived();
  };
  if (comm.rank() != 0) receive();
  comm.send(letter.sent(), next);
  if (comm.rank() == 0) receive();
}

/// Several letters between all pairs at once, under way beside collectives, and waited for in another order.
inline void check_letters_to_all(Communicator& comm) {
  constexpr int letters = 3;
  const auto seed = [&](int source, int target, int k) {
    return static_cast<std::uint64_t>(100 * (source * comm.size() + target) + 10 * k);
  };
  std::vector<Letter> sent;
  std::vector<Letter> received;
  sent.reserve(static_cast<std::size_t>(letters * comm.size()));
  received.reserve(static_cast<std::size_t>(letters * comm.size()));
  std::vector<Request> requests;
  for (int k = 0; k < letters; ++k) {
    for (int other = 0; other < comm.size(); ++other) {
      if (other == comm.rank()) continue;
      // the receives of even ranks are posted first
      for (const bool is_receive : {comm.rank() % 2 == 0, comm.rank() % 2 != 0}) {
        if (is_receive) {
          Letter& letter = received.emplace_back(letter_list(), seed(other, comm.rank(), k));
          requests.push_back(comm.recv_async(letter.received(), other));
        } else {
          Letter& letter = sent.emplace_back(letter_list(), seed(comm.rank(), other, k));
          requests.push_back(comm.send_async(letter.sent(), other));
        }
      }
    }
    comm.barrier();
  }
  for (auto request = requests.rbegin(); request != requests.rend(); ++request) request->wait();
  for (const Letter& letter : received) letter.expect_arrived();
}

inline void check_every_message(Communicator& comm) {
  check_ring(comm);
  check_letters_to_all(comm);
}

}  // namespace lockstep::test
