// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "transport/transport.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::test {

/// A transport that never moves data: shows what an operation waits for.
class SilentTransport : public detail::Transport {
 public:
  explicit SilentTransport(std::vector<int> node_leaders) : leaders_(std::move(node_leaders)) {}
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return static_cast<int>(leaders_.size()); }
  int nodes() const noexcept override { return 1; }
  std::span<const int> node_leaders() const noexcept override { return leaders_; }
  detail::NodeGroup* node_group() noexcept override { return nullptr; }
  detail::NodeGroup* local_group() noexcept override { return nullptr; }
  std::string_view name() const noexcept override { return "silent"; }
  detail::GroupIdentity identity() const override { return {}; }
  bool has_free_threads() const noexcept override { return true; }
  bool this_thread_may_call() const override { return true; }
  void post(int, std::span<const std::byte>) override {}
  std::optional<detail::ReceivedMessage> poll() override { return std::nullopt; }
  bool is_alive() const override { return true; }
  void enter_epoch(std::uint64_t, bool) override {}
  detail::Transfer send(int, std::span<const std::byte>) override { return detail::Transfer{0}; }
  detail::Transfer receive(int, std::span<std::byte>) override { return detail::Transfer{1}; }
  detail::Transfer send_aside(int, std::span<const std::byte>) override { return detail::Transfer{0}; }
  detail::Transfer receive_aside(int, std::span<std::byte>) override { return detail::Transfer{1}; }
  bool test(detail::Transfer transfer) override { return transfer == detail::Transfer{0}; }
  bool has_native_all_reduce(DType) const noexcept override { return false; }
  detail::Transfer start_native_all_reduce(void*, std::int64_t, DType, ReduceOp) override {
    return detail::Transfer{0};
  }
  detail::TransferCount count() const noexcept override { return {}; }
  void abandon(std::span<const detail::Transfer> transfers, std::vector<detail::Buffer>&& memory) noexcept override {
    abandoned += transfers.size();
    for (const detail::Buffer& buffer : memory) abandoned_bytes += buffer.size();
    memory.clear();
  }
  void quarantine(detail::Buffer&&) noexcept override {}
  std::unique_ptr<detail::NewGroup> begin_group() override { return nullptr; }

  std::size_t abandoned = 0;
  std::size_t abandoned_bytes = 0;

 private:
  std::vector<int> leaders_;
};

}  // namespace lockstep::test
