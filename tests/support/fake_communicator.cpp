// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The work of the calling thread: connecting, checking, launching, ending. fake_communicator_work.cpp has the rest.

#include "support/fake_communicator.hpp"

#include "base/log.hpp"
#include "support/fake_communicator_launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace lockstep::test {
namespace {

using detail::cuda::MemoryKind;

std::string name_of_rank(const char* what, int rank) { return fmt::format("{}.{}", what, rank); }

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

const void* forward(const void* address, std::size_t bytes) { return static_cast<const std::byte*>(address) + bytes; }

}  // namespace

FakeCommunicator::FakeCommunicator(FakeCuda& cuda, std::shared_ptr<FakeNcclRecord> record,
                                   const FakeNcclOptions& options, const std::filesystem::path& directory, int ranks,
                                   int rank)
    : cuda_(cuda),
      record_(std::move(record)),
      options_(options),
      mailbox_(directory),
      ranks_(ranks),
      rank_(rank),
      device_(cuda_.current_device()),
      cards_(static_cast<std::size_t>(ranks)),
      seed_(std::hash<std::string>{}(directory.string())),
      polls_left_(options.init_polls),
      sent_(static_cast<std::size_t>(ranks)),
      received_(static_cast<std::size_t>(ranks)) {}

FakeCommunicator::Result FakeCommunicator::refuse(Result result, const std::string& text) {
  record_->set_last_error(text);
  return result;
}

FakeCommunicator::Result FakeCommunicator::join() {
  Card card;
  card.version = record_->version_of(rank_, options_.version);
  card.ranks = ranks_;
  card.uuid = cuda_.uuid(device_);
  card.seed = options_.seed;
  const std::string name = name_of_rank("rank", rank_);
  if (mailbox_.post({name}, std::as_bytes(std::span(&card, 1)))) return Result::in_progress;
  if (mailbox_.has(name))
    return refuse(Result::invalid_usage, fmt::format("Bootstrap : rank {} has come twice", rank_));
  return refuse(Result::system_error, "Bootstrap : the root of this unique id is gone");
}

FakeCommunicator::Result FakeCommunicator::poll() {
  const std::scoped_lock lock(mutex_);
  if (error_ != Result::success) return error_;
  if (polls_left_ > 0) {
    --polls_left_;
    return Result::in_progress;
  }
  if (!is_connected_) {
    connect();
    if (error_ != Result::success) return error_;
    if (!is_connected_) return Result::in_progress;
  }
  if (!held_.empty()) submit(std::exchange(held_, {}));
  return is_finalized_ && outstanding_ > 0 ? Result::in_progress : error_;
}

void FakeCommunicator::connect() {
  bool all_here = true;
  for (int rank = 0; rank < ranks_; ++rank) {
    std::optional<Card>& card = cards_[static_cast<std::size_t>(rank)];
    if (!card) {
      const auto message = mailbox_.read(name_of_rank("rank", rank));
      if (message && message->size() == sizeof(Card)) std::memcpy(&card.emplace(), message->data(), sizeof(Card));
    }
    all_here &= card.has_value();
  }
  if (const auto fault = fault_of_cards()) {
    error_ = refuse(Result::invalid_usage, *fault);
  } else if (all_here) {
    seed_ += cards_.front()->seed;
    is_connected_ = true;
  }
}

// of the ranks that have arrived; in the same order on every rank
std::optional<std::string> FakeCommunicator::fault_of_cards() const {
  for (int second = 0; second < ranks_; ++second) {
    for (int first = 0; first < second; ++first) {
      const auto& a = cards_[static_cast<std::size_t>(first)];
      const auto& b = cards_[static_cast<std::size_t>(second)];
      if (!a || !b) continue;
      if (a->ranks != b->ranks) {
        return fmt::format("Bootstrap : mismatch in rank count from ranks {} : {} and {} : {}", first, a->ranks, second,
                           b->ranks);
      }
      if (a->version != b->version) {
        return fmt::format("Mismatched NCCL version detected : rank {} {} rank {} {}", first, a->version, second,
                           b->version);
      }
      if (a->uuid == b->uuid) {
        return fmt::format("Duplicate GPU detected : rank {} and rank {} both on CUDA device {:x}", first, second,
                           (a->uuid.back() + 1) << 12);
      }
    }
  }
  return std::nullopt;
}

FakeCommunicator::Result FakeCommunicator::check(const FakeCall& call) {
  {
    const std::scoped_lock lock(mutex_);
    if (error_ != Result::success) return error_;
    if (!is_connected_ || polls_left_ > 0 || !held_.empty()) {
      return refuse(Result::invalid_argument,
                    "Attempt to use communicator before the previous operation returned ncclSuccess");
    }
    if (is_finalized_) return refuse(Result::invalid_usage, "Communicator has been finalized");
  }
  const std::string what = describe(heading_of(call));
  if (!detail::nccl::is_reducible(call.dtype)) {
    return refuse(Result::invalid_argument, fmt::format("{} : invalid type {}", what, to_string(call.dtype)));
  }
  const bool has_root = call.kind == FakeKind::reduce || call.kind == FakeKind::broadcast || !is_collective(call.kind);
  if (has_root && (call.root < 0 || call.root >= ranks_)) {
    return refuse(
        Result::invalid_argument,
        fmt::format("{} : invalid root or peer {} (it should be in the 0..{} range)", what, call.root, ranks_));
  }
  if (cuda_.streams().device_of(call.stream) != device_ ||
      cuda_.streams().state(device_) != detail::cuda::Status::success) {
    return refuse(Result::unhandled_cuda_error, fmt::format("{} : the stream's device fails", what));
  }
  if (call.count == 0) return Result::success;
  const Result source = check_place("sendbuff", call.source, source_bytes(call, rank_, ranks_));
  if (source != Result::success) return source;
  const Result target = check_place("recvbuff", call.target, target_bytes(call, rank_, ranks_));
  return target == Result::success ? check_overlap(call) : target;
}

FakeCommunicator::Result FakeCommunicator::check_place(const char* name, const void* address, std::size_t bytes) {
  if (bytes == 0) return Result::success;
  const auto place = cuda_.memory().find(address, bytes);
  if (!place || place->kind == MemoryKind::unregistered) {
    return refuse(Result::invalid_argument, fmt::format("{} {} is not a valid pointer", name, address));
  }
  if (place->kind == MemoryKind::device && place->device != device_) {
    return refuse(Result::invalid_argument,
                  fmt::format("{} allocated on device {} mismatchs with NCCL device {}", name, place->device, device_));
  }
  return Result::success;
}

// exactly the cases that NCCL treats as in place
FakeCommunicator::Result FakeCommunicator::check_overlap(const FakeCall& call) {
  const std::size_t read = source_bytes(call, rank_, ranks_);
  const std::size_t written = target_bytes(call, rank_, ranks_);
  if (read == 0 || written == 0 || !overlap(call.source, read, call.target, written)) return Result::success;
  const std::size_t before = static_cast<std::size_t>(rank_) * call.count * size_of(call.dtype);
  const bool is_in_place = call.kind == FakeKind::all_gather       ? call.source == forward(call.target, before)
                           : call.kind == FakeKind::reduce_scatter ? call.target == forward(call.source, before)
                                                                   : call.source == call.target;
  if (is_in_place) return Result::success;
  return refuse(Result::invalid_argument, "sendbuff and recvbuff overlap, and are not in place");
}

FakeCommunicator::Result FakeCommunicator::check_group(const std::vector<FakeCall>& calls) {
  const auto with_itself = [&](FakeKind kind) {
    return std::ranges::count_if(calls, [&](const FakeCall& call) { return call.kind == kind && call.root == rank_; });
  };
  if (with_itself(FakeKind::send) == with_itself(FakeKind::recv)) return Result::success;
  return refuse(Result::invalid_usage, fmt::format("Trying to send to self without a matching recv on rank {}", rank_));
}

FakeCommunicator::Result FakeCommunicator::launch(std::vector<FakeCall> calls) {
  const std::scoped_lock lock(mutex_);
  if (options_.launch_polls == 0) {
    submit(calls);
    return Result::success;
  }
  held_ = std::move(calls);
  polls_left_ = options_.launch_polls;
  return Result::in_progress;
}

void FakeCommunicator::submit(const std::vector<FakeCall>& calls) {
  auto launch = std::make_shared<Launch>();
  std::vector<detail::cuda::Stream> streams;
  for (const bool collectives : {true, false}) {
    for (const FakeCall& call : calls) {
      if (is_collective(call.kind) != collectives) continue;
      Step& step = launch->steps.emplace_back();
      step.call = call;
      number(step);
      if (std::ranges::find(streams, call.stream) == streams.end()) streams.push_back(call.stream);
    }
  }
  launch->fault = record_->next_launch(rank_);
  ++outstanding_;
  // a launch that is skipped because the device has failed ends too: when it is destroyed
  launch->end = std::shared_ptr<void>(nullptr, [self = shared_from_this()](void*) {
    const std::scoped_lock lock(self->mutex_);
    --self->outstanding_;
    self->ended_.notify_all();
  });
  // none is kept here: its destructor takes the mutex
  cuda_.streams().submit_joint(
      streams, [self = shared_from_this(), launch = std::move(launch)] { return self->carry_out(*launch); });
}

void FakeCommunicator::number(Step& step) {
  const FakeCall& call = step.call;
  step.sends.resize(static_cast<std::size_t>(ranks_));
  step.receives.resize(static_cast<std::size_t>(ranks_));
  if (is_collective(call.kind)) step.number = collectives_++;
  for (int other = 0; other < ranks_; ++other) {
    const auto index = static_cast<std::size_t>(other);
    const bool is_partner = is_collective(call.kind) ? other != rank_ : other == call.root;
    if (is_partner && call.kind != FakeKind::recv) step.sends[index] = sent_[index]++;
    if (is_partner && call.kind != FakeKind::send) step.receives[index] = received_[index]++;
  }
}

FakeCommunicator::Result FakeCommunicator::finalize() {
  const std::scoped_lock lock(mutex_);
  if (error_ != Result::success) return error_;
  is_finalized_ = true;
  return outstanding_ > 0 || !held_.empty() ? Result::in_progress : Result::success;
}

void FakeCommunicator::destroy() {
  {
    std::unique_lock lock(mutex_);
    if (!held_.empty() && error_ == Result::success) submit(std::exchange(held_, {}));
    is_closing_ = true;
    FakeMailbox::ring();
    if (!ended_.wait_for(lock, options_.timeout, [&] { return outstanding_ == 0; })) {
      detail::log_warning("a fake NCCL communicator is destroyed while it works: rank {}", rank_);
      is_aborted_ = true;
    }
  }
  leave();
}

void FakeCommunicator::abort() {
  {
    std::unique_lock lock(mutex_);
    is_aborted_ = true;
    FakeMailbox::ring();
    // earlier work on its streams will find that it is over
    if (!ended_.wait_for(lock, options_.timeout, [&] { return running_ == 0; })) {
      detail::log_warning("a fake NCCL communicator does not end: rank {}", rank_);
    }
  }
  leave();
}

// the last one removes the directory
void FakeCommunicator::leave() {
  static_cast<void>(mailbox_.post({name_of_rank("left", rank_)}, {}));
  if (mailbox_.count("left.") == static_cast<std::size_t>(ranks_)) mailbox_.remove();
}

}  // namespace lockstep::test
