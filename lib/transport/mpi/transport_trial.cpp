// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/mpi/transport_trial.hpp"

#include "base/leak.hpp"
#include "base/pause.hpp"
#include "bindings/mpi/mpi.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <utility>

namespace lockstep::detail {
namespace {

/// In thousandths of MPI's time: TCP of the same speed saves copies and messages that the trial does not have
/// (transfers by number).
constexpr std::uint64_t most_of_mpi = 1100;
constexpr int repetitions = 4;
constexpr int small_rounds = 16;
constexpr int large_rounds = 2;
constexpr int tag = 1;
constexpr std::chrono::milliseconds time_of_test{5};
constexpr std::uint32_t spins_before_yield = 100;

}  // namespace

/// Integers: all ranks must come to the same result, whatever their processors and libraries.
TrialVerdict verdict_on(std::span<const TrialResult> all) {
  const auto without =
      std::find_if(all.begin(), all.end(), [](const TrialResult& each) { return each.has_no_tcp != 0; });
  if (without != all.end()) {
    return {false, fmt::format("rank {} and its partner on another node could not measure TCP in time",
                               without - all.begin())};
  }
  const auto thousandths = [](std::uint64_t of, std::uint64_t whole) {
    return std::min(1000 * of / std::max<std::uint64_t>(whole, 1), std::uint64_t{1'000'000});
  };
  struct Ratio {
    std::uint64_t product;  // of small and of large data
    const TrialResult* result;
  };
  std::vector<Ratio> ratios;
  for (const TrialResult& each : all) {
    if (each.has_measured == 0) continue;
    ratios.push_back(
        {thousandths(each.tcp_small, each.mpi_small) * thousandths(each.tcp_large, each.mpi_large), &each});
  }
  if (ratios.empty()) return {false, "no two ranks on different nodes"};
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>((ratios.size() - 1) / 2);
  std::nth_element(ratios.begin(), middle, ratios.end(), [](const Ratio& one, const Ratio& other) {
    return std::pair(one.product, one.result) < std::pair(other.product, other.result);
  });
  const TrialResult& median = *middle->result;
  const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000; };
  return {middle->product <= most_of_mpi * most_of_mpi,
          fmt::format("{} B there and back {:.1f} us over TCP, {:.1f} us by MPI; {} KiB {:.0f} us, {:.0f} us",
                      TransportTrial::small_bytes, us(median.tcp_small), us(median.mpi_small),
                      TransportTrial::large_bytes >> 10, us(median.tcp_large), us(median.mpi_large))};
}

struct TransportTrial::Memory {
  std::vector<std::byte> incoming = std::vector<std::byte>(large_bytes);
  std::vector<std::byte> outgoing = std::vector<std::byte>(large_bytes);
  std::array<MPI_Request, 2> requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};  // of the receive and the send
  TcpTransfer receive;
  TcpTransfer send;
};

TransportTrial::TransportTrial(MPI_Comm comm, int size, Pair pair, std::shared_ptr<TcpNetwork> network,
                               std::uint64_t group, std::chrono::milliseconds time_of_tcp)
    : comm_(comm), size_(size), pair_(pair), network_(std::move(network)), group_(group), time_of_tcp_(time_of_tcp) {
  if (pair_.partner < 0) return;
  memory_ = std::make_unique<Memory>();
  for (const Medium medium : {Medium::mpi, Medium::tcp}) {
    const bool is_mpi = medium == Medium::mpi;
    blocks_.push_back({medium, small_bytes, 1, nullptr});
    blocks_.push_back({medium, large_bytes, 1, nullptr});
    for (int i = 0; i < repetitions; ++i) {
      blocks_.push_back(
          {medium, small_bytes, small_rounds, is_mpi ? &TrialResult::mpi_small : &TrialResult::tcp_small});
      blocks_.push_back(
          {medium, large_bytes, large_rounds, is_mpi ? &TrialResult::mpi_large : &TrialResult::tcp_large});
    }
  }
}

TransportTrial::~TransportTrial() {
  if (memory_ == nullptr) return;
  end_pair();
  const auto& requests = memory_->requests;
  if (requests[0] != MPI_REQUEST_NULL || requests[1] != MPI_REQUEST_NULL) leak(memory_.release());
}

bool TransportTrial::test() {
  // a rank whose partner does not come must not hold up the caller
  const Clock::time_point end =
      Clock::now() + (std::exchange(has_advanced_, false) ? time_of_test : Clock::duration(0));
  for (std::uint32_t spins = 0; block_ < blocks_.size(); ++spins) {
    const Clock::time_point now = Clock::now();
    if (now > end_of_tcp_) {
      own_.has_no_tcp = 1;
      break;
    }
    if (!is_in_round_) {
      if (round_ == 0) begin_of_block_ = now;
      if (blocks_[block_].medium == Medium::tcp && end_of_tcp_ == Clock::time_point::max())
        end_of_tcp_ = now + time_of_tcp_;
      begin_round();
    }
    if (ends_round()) {
      is_in_round_ = false;
      has_advanced_ = true;
      if (++round_ == blocks_[block_].rounds) end_block();
      spins = 0;
    } else if (own_.has_no_tcp != 0) {
      break;
    } else if (now > end) {
      return false;
    } else if (spins < spins_before_yield) {
      cpu_relax(spins);
    } else {
      yield_core(spins);
    }
  }
  if (!gather_) {
    own_.has_measured = pair_.is_first && own_.has_no_tcp == 0 ? 1 : 0;
    end_pair();
    gather_ = std::make_unique<mpi::PendingAllGather>(comm_, size_, &own_, sizeof(own_));
  }
  return gather_->test();
}

std::vector<TrialResult> TransportTrial::results() const { return gather_->all_as<TrialResult>(); }

void TransportTrial::begin_round() {
  const Block& block = blocks_[block_];
  const std::span<std::byte> data = std::span(memory_->incoming).first(block.bytes);
  if (block.medium == Medium::tcp) {
    network_->receive(memory_->receive, pair_.peer, group_, tag, data);
  } else {
    const auto lock = mpi::serialize();
    mpi::check(MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, pair_.partner, tag, comm_,
                         memory_->requests.data()),
               "MPI_Irecv");
  }
  is_in_round_ = true;
  has_received_ = false;
  has_sent_ = false;
  if (pair_.is_first) begin_send();
}

void TransportTrial::begin_send() {
  const Block& block = blocks_[block_];
  const auto data = std::span<const std::byte>(memory_->outgoing).first(block.bytes);
  has_sent_ = true;
  if (block.medium == Medium::tcp) return network_->send(memory_->send, pair_.peer, group_, tag, data);
  const auto lock = mpi::serialize();
  mpi::check(
      MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, pair_.partner, tag, comm_, &memory_->requests[1]),
      "MPI_Isend");
}

bool TransportTrial::ends_round() {
  if (!has_received_) has_received_ = is_over(memory_->receive, memory_->requests[0]);
  if (has_received_ && !has_sent_) begin_send();
  return has_sent_ && is_over(memory_->send, memory_->requests[1]) && has_received_;
}

/// Whether the receive or send of this round is over, `transfer` or `request`.
bool TransportTrial::is_over(TcpTransfer& transfer, MPI_Request& request) {
  if (blocks_[block_].medium == Medium::mpi) return mpi::is_complete(request);
  if (network_->state(transfer) == TcpTransfer::State::pending) network_->progress();
  const TcpTransfer::State state = network_->state(transfer);
  if (state == TcpTransfer::State::failed) own_.has_no_tcp = 1;
  return state == TcpTransfer::State::done;
}

void TransportTrial::end_block() {
  const Block& block = blocks_[block_];
  const std::chrono::nanoseconds time = (Clock::now() - begin_of_block_) / block.rounds;
  if (block.result != nullptr) {
    std::uint64_t& result = own_.*block.result;
    const auto ns = static_cast<std::uint64_t>(time.count());
    if (result == 0 || ns < result) result = ns;
  }
  round_ = 0;
  ++block_;
}

/// TCP accesses no memory of the pair afterwards.
void TransportTrial::end_pair() noexcept {
  if (memory_ == nullptr) return;
  network_->cancel(memory_->receive);
  network_->cancel(memory_->send);
  try {
    network_->close_group(group_);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): what comes for it is kept
  }
  block_ = blocks_.size();
}

}  // namespace lockstep::detail
