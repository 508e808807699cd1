// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Messages between two ranks, for any transport. Every rank of `comm` calls each case; its tensors are on `device`.

#pragma once

#include "support/batch.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace lockstep::test {

/// The tensors of one message, on one of its two ranks.
class Message {
 public:
  Message(const std::vector<TensorCase>& tensors, std::uint64_t seed, Device device = {}) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      expected_.push_back(awkward_values(tensors[i].dtype, tensors[i].count, seed + i));
      memory_.emplace_back(expected_.back(), device);
      views_.push_back({memory_.back().data(), tensors[i].dtype, Shape{tensors[i].count}, device});
    }
  }
  [[nodiscard]] std::vector<ConstTensorView> sent() const { return {views_.begin(), views_.end()}; }
  /// Views of the tensors, filled with a pattern that does not occur in messages.
  [[nodiscard]] std::vector<TensorView> received() {
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i].write(Bytes(expected_[i].size(), std::byte{0xa5}));
    return views_;
  }
  void expect_arrived() const {
    for (std::size_t i = 0; i < views_.size(); ++i) EXPECT_EQ(read(views_[i]), expected_[i]) << "tensor " << i;
  }

 private:
  std::vector<Bytes> expected_;
  std::vector<PlacedBytes> memory_;
  std::vector<TensorView> views_;
};

inline std::vector<TensorCase> message_list() {
  return {{DType::f32, 5}, {DType::u8, 0}, {DType::bf16, 1033}, {DType::f64, 20'001}};
}

/// Passes a message around a ring: each rank sends to the next rank, beginning with rank 0.
inline void check_ring(Communicator& comm, Device device = {}) {
  if (comm.size() == 1) return;
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  Message message(message_list(), 40, device);
  const auto receive = [&] {
    Message received(message_list(), 40, device);
    comm.recv(received.received(), previous);
    received.expect_arrived();
  };
  if (comm.rank() != 0) receive();
  comm.send(message.sent(), next);
  if (comm.rank() == 0) receive();
}

/// Several messages between all pairs of ranks at once, concurrent with collectives, and waited for in a different
/// order.
inline void check_messages_to_all(Communicator& comm, Device device = {}) {
  constexpr int messages = 3;
  const auto seed = [&](int source, int target, int k) {
    return static_cast<std::uint64_t>(100 * (source * comm.size() + target) + 10 * k);
  };
  std::vector<Message> sent;
  std::vector<Message> received;
  sent.reserve(static_cast<std::size_t>(messages * comm.size()));
  received.reserve(static_cast<std::size_t>(messages * comm.size()));
  std::vector<Request> requests;
  for (int k = 0; k < messages; ++k) {
    for (int other = 0; other < comm.size(); ++other) {
      if (other == comm.rank()) continue;
      // the receives of even ranks are posted first
      for (const bool is_receive : {comm.rank() % 2 == 0, comm.rank() % 2 != 0}) {
        if (is_receive) {
          Message& message = received.emplace_back(message_list(), seed(other, comm.rank(), k), device);
          requests.push_back(comm.recv_async(message.received(), other));
        } else {
          Message& message = sent.emplace_back(message_list(), seed(comm.rank(), other, k), device);
          requests.push_back(comm.send_async(message.sent(), other));
        }
      }
    }
    comm.barrier();
  }
  for (auto request = requests.rbegin(); request != requests.rend(); ++request) request->wait();
  for (const Message& message : received) message.expect_arrived();
}

inline void check_every_message(Communicator& comm, Device device = {}) {
  check_ring(comm, device);
  check_messages_to_all(comm, device);
}

}  // namespace lockstep::test
