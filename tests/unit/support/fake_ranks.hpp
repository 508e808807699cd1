// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks of fake communicators as threads of one process, each with a fake GPU.

#pragma once

#include "support/fake_cuda.hpp"
#include "support/fake_nccl.hpp"
#include "support/fake_rank.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::test {

class FakeRanks {
 public:
  explicit FakeRanks(int ranks, FakeNcclOptions nccl = {}, FakeCudaOptions cuda = {})
      : ranks_(ranks),
        cuda_(std::make_shared<FakeCuda>(with_devices(std::move(cuda), ranks))),
        nccl_(cuda_, std::move(nccl)) {}

  [[nodiscard]] FakeCuda& cuda() { return *cuda_; }
  [[nodiscard]] FakeNccl& nccl() { return nccl_; }
  [[nodiscard]] detail::nccl::UniqueId id() {
    detail::nccl::UniqueId id;
    EXPECT_EQ(nccl_.get_unique_id(id), detail::nccl::Result::success);
    return id;
  }

  /// `body` on a thread per rank, rank r with device r.
  void run(const std::function<void(FakeRank&)>& body) {
    const auto shared_id = id();
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks_; ++rank) {
      threads.emplace_back([&, rank] {
        FakeRank self(*cuda_, nccl_, rank, shared_id, ranks_, rank);
        body(self);
      });
    }
  }

 private:
  static FakeCudaOptions with_devices(FakeCudaOptions options, int devices) {
    options.devices = devices;
    return options;
  }

  const int ranks_;
  std::shared_ptr<FakeCuda> cuda_;
  FakeNccl nccl_;
};

}  // namespace lockstep::test
