// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The work of a stream for a fake communicator. A launch first posts everything that it sends, then waits for
// everything that it receives, then writes its targets: no mix of calls waits for itself. Sent data is read before a
// launch ends.

#include "support/fake_communicator.hpp"

#include "base/log.hpp"
#include "support/fake_communicator_launch.hpp"
#include "support/fake_nccl_arithmetic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <span>

namespace lockstep::test {
namespace {

using detail::cuda::Status;

constexpr const char* failure_name = "failure";  // the text of the first failure, for all ranks

}  // namespace

Status FakeCommunicator::carry_out(Launch& launch) {
  {
    const std::scoped_lock lock(mutex_);
    if (is_aborted_) return Status::success;
    ++running_;
  }
  Status status = Status::success;
  if (launch.fault) {
    suffer(*launch.fault);
  } else if (!find_places(launch)) {
    status = Status::illegal_address;
  } else if (post(launch) && collect(launch)) {
    for (const Step& step : launch.steps) store(step);
    if (!wait_until_taken(launch)) wait_for_end();
  } else {
    wait_for_end();
  }
  const std::scoped_lock lock(mutex_);
  --running_;
  ended_.notify_all();
  return status;
}

void FakeCommunicator::suffer(const FakeFault& fault) {
  if (fault.kind == FakeFault::Kind::exits) std::_Exit(fault.exit_code);
  if (fault.kind == FakeFault::Kind::fails) fail(fault.result, "a failure that the test asked for");
  wait_for_end();
}

bool FakeCommunicator::find_places(Launch& launch) {
  const auto reach = [&](const void* address, std::size_t bytes) {
    return bytes == 0 ? nullptr : cuda_.memory().reach(address, bytes, device_);
  };
  for (Step& step : launch.steps) {
    const std::size_t read = source_bytes(step.call, rank_, ranks_);
    const std::size_t written = target_bytes(step.call, rank_, ranks_);
    step.source = reach(step.call.source, read);
    step.target = reach(step.call.target, written);
    if ((read > 0 && step.source == nullptr) || (written > 0 && step.target == nullptr)) return false;
    step.own.assign(step.source, step.source + read);
  }
  return true;
}

bool FakeCommunicator::post(const Launch& launch) {
  // a failed communicator does no more work
  if (!wait_for("its turn", [] { return true; })) return false;
  for (const Step& step : launch.steps) {
    if (post_step(step)) continue;
    if (!is_over()) fail(Result::remote_error, "the messages of the others are gone");
    return false;
  }
  return true;
}

bool FakeCommunicator::post_step(const Step& step) {
  std::vector<std::string> with_bytes;
  std::vector<std::string> without;
  for (int receiver = 0; receiver < ranks_; ++receiver) {
    if (!goes_to(step.call, receiver)) continue;
    const bool is_wanted = step.call.kind != FakeKind::reduce || receiver == step.call.root;
    (is_wanted ? with_bytes : without)
        .push_back(name_of(rank_, receiver, step.sends[static_cast<std::size_t>(receiver)]));
  }
  const FakeHeading heading = heading_of(step.call);
  Bytes message(sizeof(heading));
  std::memcpy(message.data(), &heading, sizeof(heading));
  if (!mailbox_.post(without, message)) return false;
  message.insert(message.end(), step.own.begin(), step.own.end());
  return mailbox_.post(with_bytes, message);
}

bool FakeCommunicator::collect(Launch& launch) {
  for (Step& step : launch.steps) {
    step.received.resize(static_cast<std::size_t>(ranks_));
    if (step.call.kind == FakeKind::send) continue;
    for (int sender = 0; sender < ranks_; ++sender) {
      const bool is_partner = is_collective(step.call.kind) ? sender != rank_ : sender == step.call.root;
      if (is_partner && !collect_from(step, sender)) return false;
    }
  }
  return true;
}

bool FakeCommunicator::collect_from(Step& step, int sender) {
  const auto index = static_cast<std::size_t>(sender);
  const std::string name = name_of(sender, rank_, step.receives[index]);
  const FakeHeading wanted = heading_of(step.call);
  Bytes& message = step.received[index];
  const auto read = [&] {
    auto found = mailbox_.read(name);
    if (found) message = std::move(*found);
    return found.has_value();
  };
  if (!wait_for(fmt::format("rank {}'s {}", sender, describe(wanted)), read)) return false;
  FakeHeading heading;
  std::memcpy(&heading, message.data(), sizeof(heading));
  if (heading == wanted) {
    mailbox_.discard(name);
    return true;
  }
  const std::string text =
      fmt::format("rank {} wants {}, and rank {} does {}", rank_, describe(wanted), sender, describe(heading));
  record_->add_mismatch(text);
  static_cast<void>(mailbox_.post({failure_name}, std::as_bytes(std::span(text))));
  fail(Result::internal_error, text);
  return false;
}

// the contribution of a rank: its message, or for this rank the bytes copied from the source, except sends to itself
const std::byte* FakeCommunicator::body_from(const Step& step, int rank) const {
  if (rank == rank_ && step.call.kind != FakeKind::recv) return step.own.data();
  return step.received[static_cast<std::size_t>(rank)].data() + sizeof(FakeHeading);
}

void FakeCommunicator::store(const Step& step) {
  const FakeCall& call = step.call;
  const std::size_t bytes = call.count * size_of(call.dtype);
  const auto body_of = [&](int rank) { return body_from(step, rank); };
  switch (call.kind) {
    case FakeKind::send: break;
    case FakeKind::recv:
    case FakeKind::broadcast: std::memcpy(step.target, body_of(call.root), bytes); break;
    case FakeKind::all_gather:
      for (int rank = 0; rank < ranks_; ++rank) {
        std::memcpy(step.target + static_cast<std::size_t>(rank) * bytes, body_of(rank), bytes);
      }
      break;
    case FakeKind::reduce_scatter: fold_into(step.target, step, static_cast<std::size_t>(rank_) * bytes); break;
    case FakeKind::reduce:
      if (rank_ == call.root) fold_into(step.target, step, 0);
      break;
    case FakeKind::all_reduce: fold_into(step.target, step, 0); break;
  }
}

void FakeCommunicator::fold_into(std::byte* target, const Step& step, std::size_t offset) {
  std::vector<const std::byte*> sources;
  for (int rank = 0; rank < ranks_; ++rank) {
    sources.push_back(body_from(step, rank) + offset);
  }
  std::uint64_t seed = 0;
  {
    const std::scoped_lock lock(mutex_);
    seed = seed_;
  }
  // the same on every rank, since NCCL adds each block once; the parts of a reduce_scatter are different blocks
  fold_as_nccl(target, sources, step.call.count, step.call.dtype, step.call.op, seed + step.number + (offset << 20));
}

bool FakeCommunicator::wait_until_taken(const Launch& launch) {
  return std::ranges::all_of(launch.steps, [&](const Step& step) {
    if (step.call.kind != FakeKind::send) return true;
    const int receiver = step.call.root;
    const std::string name = name_of(rank_, receiver, step.sends[static_cast<std::size_t>(receiver)]);
    return wait_for(fmt::format("rank {} to take a {}", receiver, describe(heading_of(step.call))),
                    [&] { return !mailbox_.has(name); });
  });
}

// False if the communicator is over or has failed.
bool FakeCommunicator::wait_for(const std::string& what, const std::function<bool()>& has_come) {
  const auto end = std::chrono::steady_clock::now() + options_.timeout;
  for (;;) {
    const std::uint64_t seen = FakeMailbox::changes();
    {
      const std::scoped_lock lock(mutex_);
      if (is_aborted_ || error_ != Result::success) return false;
    }
    if (has_come()) return true;
    if (const auto text = mailbox_.read(failure_name)) {
      fail(Result::remote_error, std::string(reinterpret_cast<const char*>(text->data()), text->size()));
      return false;
    }
    if (std::chrono::steady_clock::now() > end) {
      detail::log_warning("rank {} of a fake NCCL has waited {} ms for {}", rank_, options_.timeout.count(), what);
      fail(Result::internal_error, what + " did not come");
      return false;
    }
    FakeMailbox::wait_for_change(seen);
  }
}

// like a kernel, it ends only by an abort
void FakeCommunicator::wait_for_end() {
  const auto end = std::chrono::steady_clock::now() + options_.timeout;
  while (!is_over()) {
    const std::uint64_t seen = FakeMailbox::changes();
    if (std::chrono::steady_clock::now() > end) {
      detail::log_warning("rank {} of a fake NCCL was not aborted within {} ms", rank_, options_.timeout.count());
      return;
    }
    FakeMailbox::wait_for_change(seen);
  }
}

void FakeCommunicator::fail(Result result, const std::string& text) {
  record_->set_last_error(text);
  const std::scoped_lock lock(mutex_);
  if (error_ == Result::success) error_ = result;
}

std::string FakeCommunicator::name_of(int sender, int receiver, std::uint64_t number) const {
  return fmt::format("{}.to.{}.{}", sender, receiver, number);
}

bool FakeCommunicator::is_over() const {
  const std::scoped_lock lock(mutex_);
  return is_aborted_ || (is_closing_ && error_ != Result::success);
}

bool FakeCommunicator::goes_to(const FakeCall& call, int receiver) const {
  if (call.kind == FakeKind::recv) return false;
  return is_collective(call.kind) ? receiver != rank_ : receiver == call.root;
}

}  // namespace lockstep::test
