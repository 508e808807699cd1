// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// all_to_all_v between GPUs, shared or not: the use of NCCL, and the error of each rank if rows differ or something
// fails. Its bits are checked with those of all collectives.

#include "support/errors.hpp"
#include "support/late_ranks.hpp"
#include "support/part_cases.hpp"
#include "support/quick.hpp"
#include "support/shared_gpus.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::test {
namespace {

using ExchangeBody = std::function<void(Communicator&, const DeviceOf&)>;

/// Three ranks and four replicas: each rank has a GPU; two share one; one is a proxy and has a proxy; all share one.
const std::vector<SharedGpus> exchange_layouts{
    {{0}, {1, 1}, {2}}, {{0}, {0, 0}, {1}}, {{0}, {0, 1}, {1}}, {{0}, {0, 0}, {0}}};
const std::vector<SharedGpus> own_and_shared{exchange_layouts[0], exchange_layouts[2]};

/// The errors of `body`, by rank; exchanges rows before and after it.
std::vector<std::string> exchange_errors(const FakeGpus& fakes, const SharedGpus& ranks, const ExchangeBody& body) {
  std::vector<std::string> errors(ranks.size());
  on_sharing_ranks(fakes, ranks, [&](Communicator& comm, const DeviceOf& device_of) {
    check_all_to_all(comm, AllToAllForm::uneven, device_of);
    comm.barrier();
    errors[static_cast<std::size_t>(comm.rank())] = error_of([&] { body(comm, device_of); });
    comm.barrier();
    check_all_to_all(comm, AllToAllForm::uneven, device_of);
  });
  return errors;
}

void expect_on_all(const std::vector<std::string>& errors, const std::vector<std::string>& parts) {
  for (const std::string& error : errors) {
    EXPECT_EQ(error, errors.front());
    for (const std::string& part : parts) EXPECT_NE(error.find(part), std::string::npos) << error;
  }
}

ReduceOptions within(std::chrono::milliseconds timeout) {
  ReduceOptions options;
  options.fail_after = timeout;
  return options;
}

TEST(GpuExchange, uses_nccl_if_replicas_are_on_several_gpus) {
  for (const SharedGpus& ranks : exchange_layouts) {
    const FakeGpus fakes(cuda_of(ranks));
    on_sharing_ranks(fakes, ranks, [](Communicator& comm, const DeviceOf& device_of) {
      check_all_to_all(comm, AllToAllForm::uneven, device_of);
    });
    EXPECT_EQ(fakes.nccl().calls().count("send") > 0, count_gpus(ranks) > 1);
    EXPECT_EQ(fakes.nccl().calls().count("send"), fakes.nccl().calls().count("recv"));
  }
}

TEST(GpuExchange, is_a_mismatch_before_nccl_is_probed_if_sender_and_receiver_differ) {
  for (const SharedGpus& ranks : exchange_layouts) {
    for (const auto& [sent, expected] : {std::pair(5, 4), std::pair(0, 2), std::pair(100'000, 0)}) {
      const FakeGpus fakes(cuda_of(ranks));
      const auto errors = exchange_errors(fakes, ranks, [&](Communicator& comm, const DeviceOf& device_of) {
        const int before = fakes.nccl().calls().count("send");
        comm.barrier();
        const auto error = thrown_by([&] { exchange_rows(comm, DType::f32, sent, expected, device_of); });
        EXPECT_EQ(fakes.nccl().calls().count("send"), before);
        if (error) throw Error(*error);
      });
      expect_on_all(errors, {"mismatch:", "all_to_all_v on GPUs of f32 in rows of shape [3]", "replica 2 (rank 1)",
                             "sends " + std::to_string(sent) + " rows to replica 0 (rank 0)",
                             "of that replica has " + std::to_string(expected)});
    }
  }
}

TEST(GpuExchange, is_a_mismatch_if_rows_differ_in_type) {
  for (const SharedGpus& ranks : exchange_layouts) {
    const FakeGpus fakes(cuda_of(ranks));
    const auto errors = exchange_errors(fakes, ranks, [&](Communicator& comm, const DeviceOf& device_of) {
      exchange_rows(comm, comm.rank() == 1 ? DType::u8 : DType::f32, 1, 1, device_of);
    });
    expect_on_all(errors, {"mismatch:", "rank 0 calls all_to_all_v on GPUs of f32 in rows of shape [3]",
                           "of u8 in rows of shape [3]"});
  }
}

TEST(GpuExchange, times_out_on_every_rank_if_one_is_missing) {
  for (const SharedGpus& ranks : own_and_shared) {
    const FakeGpus fakes(cuda_of(ranks));
    LateRanks late(static_cast<int>(ranks.size()), {1});
    const auto errors = exchange_errors(fakes, ranks, [&](Communicator& comm, const DeviceOf& device_of) {
      late.call(comm, [&] {
        if (comm.rank() == 1) comm.barrier();  // hears of it
        exchange_rows(comm, DType::f32, 1, 1, device_of, within(std::chrono::seconds(1)));
      });
    });
    expect_on_all(errors, {"deadline_exceeded:", "timed out after 1 s"});
    if (virtual_time::is_active()) expect_on_all(errors, {"waiting for rank 1"});
  }
}

TEST(GpuExchange, fails_on_every_rank_if_nccl_hangs_or_fails) {
  for (const SharedGpus& ranks : own_and_shared) {
    for (const bool is_fault : {false, true}) {
      const FakeGpus fakes(cuda_of(ranks));
      const auto errors = exchange_errors(fakes, ranks, [&](Communicator& comm, const DeviceOf& device_of) {
        if (comm.rank() == 0) {
          is_fault ? fakes.nccl().fail_launch(1, detail::nccl::Result::remote_error) : fakes.nccl().never_end(1);
        }
        comm.barrier();
        exchange_rows(comm, DType::f32, 1, 1, device_of, is_fault ? ReduceOptions{} : within(std::chrono::seconds(2)));
      });
      if (is_fault) {
        expect_on_all(errors, {"unavailable:", "NCCL"});
      } else {
        for (const std::string& error : errors)
          expect_all(error, {"deadline_exceeded:", "timed out after 2 s", "work on the GPUs is not complete"});
      }
    }
  }
}

TEST(GpuExchange, fails_on_every_rank_if_cuda_fails) {
  for (const SharedGpus& ranks : exchange_layouts) {
    const FakeGpus fakes(cuda_of(ranks));
    const auto errors = exchange_errors(fakes, ranks, [&](Communicator& comm, const DeviceOf& device_of) {
      comm.barrier();
      // after the ranks have agreed on their rows
      if (comm.rank() == 0) fakes.cuda().calls().fail("copy", 1, detail::cuda::Status::launch_failure);
      comm.barrier();
      exchange_rows(comm, DType::f32, 1, 1, device_of);
    });
    expect_on_all(errors, {"unavailable:", "copy kernel"});
  }
}

/// One call that fails: the `nth` of `name` after the negotiation, on any rank.
struct BadExchangeCall {
  std::string name;
  int nth;
  bool is_cuda;
};

class GpuExchangeBadCalls : public testing::TestWithParam<BadExchangeCall> {};

TEST_P(GpuExchangeBadCalls, are_errors_in_bounded_time) {
  const SharedGpus& ranks = exchange_layouts[2];
  const FakeGpus fakes(cuda_of(ranks));
  const auto begin = std::chrono::steady_clock::now();
  on_ranks({1, 2, 1}, [&](Communicator& comm) {
    const DeviceOf device_of = devices_of(ranks, comm.rank());
    exchange_rows(comm, DType::f32, 1, 1, device_of);
    comm.barrier();
    if (comm.rank() == 0) {
      if (GetParam().is_cuda) {
        fakes.cuda().calls().fail(GetParam().name, GetParam().nth, detail::cuda::Status::launch_failure);
      } else {
        fakes.nccl().calls().fail(GetParam().name, GetParam().nth, detail::nccl::Result::internal_error);
      }
    }
    comm.barrier();
    for (int k = 0; k < 3; ++k) {
      static_cast<void>(
          error_of([&] { exchange_rows(comm, DType::f32, 1, 1, device_of, within(std::chrono::seconds(1))); }));
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            virtual_time::is_active() ? std::chrono::minutes(1) : std::chrono::minutes(4));
}

std::vector<BadExchangeCall> bad_exchange_calls() {
  std::vector<BadExchangeCall> calls;
  for (const char* const name : {"group_end", "send", "recv"}) calls.push_back({name, 1, false});
  for (const char* const name : {"malloc_from_pool_async", "event_create", "event_record", "event_query",
                                 "stream_wait_event", "copy", "memcpy_async"}) {
    for (const int nth : {1, 4}) calls.push_back({name, nth, true});
  }
  return calls;
}

INSTANTIATE_TEST_SUITE_P(Each, GpuExchangeBadCalls, testing::ValuesIn(some_of(bad_exchange_calls())),
                         [](const auto& instance) {
                           return instance.param.name + "_" + std::to_string(instance.param.nth);
                         });

}  // namespace
}  // namespace lockstep::test
