// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One rank of a fake NCCL communicator.

#pragma once

#include "bindings/nccl/nccl.hpp"
#include "support/fake_cuda.hpp"
#include "support/fake_mailbox.hpp"
#include "support/fake_nccl_call.hpp"
#include "support/fake_nccl_record.hpp"

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::test {

/// Messages from one rank to another are numbered in the order of the launches, in one launch collectives first: when
/// two ranks make different calls, the next message between them is not the expected one. Thread-safe except for
/// launches.
class FakeCommunicator : public std::enable_shared_from_this<FakeCommunicator> {
 public:
  using Result = detail::nccl::Result;

  FakeCommunicator(FakeCuda& cuda, std::shared_ptr<FakeNcclRecord> record, const FakeNcclOptions& options,
                   const std::filesystem::path& directory, int ranks, int rank);

  /// Announces this rank to the others.
  [[nodiscard]] Result join();
  /// Success if it is connected, launched and flushed; in_progress; or the error. Makes progress.
  [[nodiscard]] Result poll();
  /// Whether it accepts `call` now; if not, the text of last_error gives the reason.
  [[nodiscard]] Result check(const FakeCall& call);
  /// Whether every receive from itself has a send to itself, without which it would hang.
  [[nodiscard]] Result check_group(const std::vector<FakeCall>& calls);
  /// The calls of one group.
  [[nodiscard]] Result launch(std::vector<FakeCall> calls);
  [[nodiscard]] Result finalize();
  /// Waits for its work, unless that has failed.
  void destroy();
  /// Ends its work at once.
  void abort();

  [[nodiscard]] int rank() const { return rank_; }

 private:
  /// The announcement of a rank to all others.
  struct Card {
    std::int32_t version = 0;
    std::int32_t ranks = 0;
    std::array<std::uint8_t, 16> uuid = {};
    std::uint64_t seed = 0;
  };
  /// A call, its place in the order, and its messages.
  struct Step {
    FakeCall call;
    std::uint64_t number = 0;             // among collectives
    std::vector<std::uint64_t> sends;     // numbers of messages, by receiver
    std::vector<std::uint64_t> receives;  // by sender
    std::byte* source = nullptr;          // address of the bytes
    std::byte* target = nullptr;
    Bytes own;                    // the source's bytes, copied before anything is written
    std::vector<Bytes> received;  // messages, by sender
  };
  struct Launch;

  [[nodiscard]] Result refuse(Result result, const std::string& text);
  [[nodiscard]] Result check_place(const char* name, const void* address, std::size_t bytes);
  [[nodiscard]] Result check_overlap(const FakeCall& call);
  void connect();
  [[nodiscard]] std::optional<std::string> fault_of_cards() const;
  void submit(const std::vector<FakeCall>& calls);
  void number(Step& step);
  void leave();

  // On the stream.
  detail::cuda::Status carry_out(Launch& launch);
  void suffer(const FakeFault& fault);
  [[nodiscard]] bool find_places(Launch& launch);
  [[nodiscard]] bool post(const Launch& launch);
  [[nodiscard]] bool post_step(const Step& step);
  [[nodiscard]] bool collect(Launch& launch);
  [[nodiscard]] bool collect_from(Step& step, int sender);
  [[nodiscard]] const std::byte* body_from(const Step& step, int rank) const;
  void store(const Step& step);
  void fold_into(std::byte* target, const Step& step, std::size_t offset);
  [[nodiscard]] bool wait_until_taken(const Launch& launch);
  [[nodiscard]] bool wait_for(const std::string& what, const std::function<bool()>& has_come);
  void wait_for_end();
  void fail(Result result, const std::string& text);

  [[nodiscard]] std::string name_of(int sender, int receiver, std::uint64_t number) const;
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] bool goes_to(const FakeCall& call, int receiver) const;

  FakeCuda& cuda_;  // its streams may keep this communicator alive
  const std::shared_ptr<FakeNcclRecord> record_;
  const FakeNcclOptions options_;
  const FakeMailbox mailbox_;
  const int ranks_;
  const int rank_;
  const int device_;

  mutable std::mutex mutex_;
  std::condition_variable ended_;           // notified when a launch has ended
  std::vector<std::optional<Card>> cards_;  // this and the rest guarded by mutex_
  std::uint64_t seed_ = 0;
  bool is_connected_ = false;
  bool is_finalized_ = false;
  bool is_closing_ = false;  // failed work does not wait any longer
  bool is_aborted_ = false;
  int polls_left_;
  Result error_ = Result::success;
  std::vector<FakeCall> held_;  // to be launched at a poll
  int outstanding_ = 0;         // launches on streams
  int running_ = 0;             // outstanding launches on a stream's thread
  std::uint64_t collectives_ = 0;
  std::vector<std::uint64_t> sent_;      // messages, by receiver
  std::vector<std::uint64_t> received_;  // by sender
};

}  // namespace lockstep::test
