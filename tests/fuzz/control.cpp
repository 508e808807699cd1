// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Messages of other ranks: every input is a sequence of messages, each behind a byte with the rank that sends it and
// two with its size. None ends the process, and what a rank asks of the channel afterwards is valid.

#include "target.hpp"

#include "collectives/engine/control_channel.hpp"
#include "support/silent_transport.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

namespace {

using namespace lockstep::detail;

constexpr int ranks = 4;

class Sent final : public lockstep::test::SilentTransport {
 public:
  explicit Sent(std::span<const std::uint8_t> input)
      : SilentTransport(std::vector<int>(ranks, 0)), input_(std::as_bytes(input)) {}

  std::optional<ReceivedMessage> poll() override {
    constexpr std::size_t head = 3;
    if (input_.size() < head) return std::nullopt;
    const int source = 1 + std::to_integer<int>(input_[0]) % (ranks - 1);
    const std::size_t bytes = std::to_integer<std::size_t>(input_[1]) + 256 * std::to_integer<std::size_t>(input_[2]);
    input_ = input_.subspan(head);
    const auto message = input_.first(std::min(bytes, input_.size()));
    input_ = input_.subspan(message.size());
    return ReceivedMessage{source, message};
  }

 private:
  std::span<const std::byte> input_;
};

// make_corpus.py has these numbers
static_assert(sizeof(ControlMessage) == 1520 && offsetof(ControlMessage, traced) == 28 &&
              offsetof(ControlMessage, failure) == 72 && offsetof(ControlMessage, summary) == 640);
static_assert(offsetof(FailureRecord, text) == 82 && static_cast<int>(ControlKind::withdrawal) == 10);

void use(const ControlChannel& channel, std::uint64_t epoch) {
  for (int rank = 0; rank < ranks; ++rank) {
    for (const int awaited : channel.awaited_by(rank, epoch, 0)) {
      if (awaited < 0 || awaited >= ranks) std::abort();
    }
    static_cast<void>(channel.has_come(rank, epoch, 1));
    static_cast<void>(channel.status(rank, epoch, 0));
  }
  if (const Failure* const failure = channel.abort_record(epoch, 0)) static_cast<void>(failure->error().what());
  if (const auto& loss = channel.late_loss(); loss && !loss->is_loss()) std::abort();
  for (const ControlChannel::Gone& gone : channel.gone_ranks()) static_cast<void>(gone.text.size());
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Sent transport({data, size});
  ControlChannel channel(transport);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    channel.begin_operation();
    while (channel.poll_one()) use(channel, epoch);
    while (const auto* const message = channel.pair_message()) {
      if (!message->data.empty() && !message->message.has_data) std::abort();
      static_cast<void>(channel.has_withdrawal(message->source, message->message.sequence));
      channel.drop_pair_message();
    }
    channel.note_end(epoch, {0, {}});
    channel.enter_epoch(epoch + 1);
    use(channel, epoch + 1);
  }
  return 0;
}
