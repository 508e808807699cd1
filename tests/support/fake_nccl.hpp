// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// NCCL without GPUs: the whole table, over a fake CUDA's memory and streams. Ranks are threads of one process or
// processes of one host, in any mix. Sums are computed in the elements' own type and in random order: their bits are
// not those of the canonical tree.

#pragma once

#include "bindings/nccl/nccl.hpp"
#include "support/fake_calls.hpp"
#include "support/fake_communicator.hpp"
#include "support/fake_cuda.hpp"
#include "support/fake_handles.hpp"
#include "support/fake_mailbox.hpp"
#include "support/fake_nccl_call.hpp"
#include "support/fake_nccl_record.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::test {

/// Stricter than NCCL:
/// - Work in progress advances only in comm_get_async_error.
/// - A send ends when it has been received, even if it is small.
/// - All ranks of a collective wait for each other and compare their calls. A difference is recorded; the
///   communicator's error becomes internal_error on the rank that found it and remote_error elsewhere. The streams hang
///   until the communicator is aborted or destroyed, as NCCL's kernels do.
/// - Host memory is refused unless it is pinned, as is an overlap that is not in place.
/// Before version 2.27.3, as NCCL: the state of a group in progress belongs to the thread that made it. A further group
/// of the thread is invalid usage until this thread has polled the former one to its end.
/// The destructor aborts the remaining communicators.
class FakeNccl final : public detail::nccl::Api {
 public:
  using Result = detail::nccl::Result;
  using Comm = detail::nccl::Comm;
  using Stream = detail::nccl::Stream;
  using RedOp = detail::nccl::RedOp;

  explicit FakeNccl(std::shared_ptr<FakeCuda> cuda, FakeNcclOptions options = {});
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;
  ~FakeNccl() override;

  // The table.
  Result get_version(int& version) override;
  Result get_unique_id(detail::nccl::UniqueId& id) override;
  Result comm_init_rank(Comm& comm, int ranks, const detail::nccl::UniqueId& id, int rank) override;
  Result comm_finalize(Comm comm) override;
  Result comm_destroy(Comm comm) override;
  Result comm_abort(Comm comm) override;
  Result comm_get_async_error(Comm comm, Result& error) override;
  [[nodiscard]] std::string error_string(Result result) const override;
  [[nodiscard]] std::string last_error(Comm comm) const override;
  Result group_start() override;
  Result group_end() override;
  Result all_reduce(const void* source, void* target, std::size_t count, DType dtype, RedOp op, Comm comm,
                    Stream stream) override;
  Result reduce(const void* source, void* target, std::size_t count, DType dtype, RedOp op, int root, Comm comm,
                Stream stream) override;
  Result broadcast(const void* source, void* target, std::size_t count, DType dtype, int root, Comm comm,
                   Stream stream) override;
  Result reduce_scatter(const void* source, void* target, std::size_t count, DType dtype, RedOp op, Comm comm,
                        Stream stream) override;
  Result all_gather(const void* source, void* target, std::size_t count, DType dtype, Comm comm,
                    Stream stream) override;
  Result send(const void* source, std::size_t count, DType dtype, int peer, Comm comm, Stream stream) override;
  Result recv(void* target, std::size_t count, DType dtype, int peer, Comm comm, Stream stream) override;

  // For tests. Ranks are those of communicators; launches are counted over all communicators, a group of calls as one.

  /// Counts calls by name, and makes chosen ones fail at once.
  [[nodiscard]] FakeCalls<Result>& calls() { return calls_; }
  /// The `nth` launch of `rank` from now on, 1 being the next, runs until it is aborted.
  void never_end(int rank, int nth = 1) { record_->add_fault(rank, nth, {.kind = FakeFault::Kind::never_ends}); }
  /// The same, and the communicator's error becomes `result`.
  void fail_launch(int rank, Result result, int nth = 1) {
    record_->add_fault(rank, nth, {.kind = FakeFault::Kind::fails, .result = result});
  }
  /// The process ends there.
  void exit_inside(int rank, int exit_code, int nth = 1) {
    record_->add_fault(rank, nth, {.kind = FakeFault::Kind::exits, .exit_code = exit_code});
  }
  /// The announcement of `rank` to the others when it joins a communicator.
  void pretend_version(int rank, int version) { record_->pretend_version(rank, version); }
  /// Differences between the calls of ranks that ranks of this process have found.
  [[nodiscard]] std::vector<std::string> mismatches() const { return record_->mismatches(); }
  /// Communicators neither destroyed nor aborted.
  [[nodiscard]] std::size_t communicators() const;

 private:
  using CommunicatorPointer = std::shared_ptr<FakeCommunicator>;
  struct Group {
    int depth = 0;
    Result error = Result::success;  // error of the first call in it that failed
    std::vector<std::pair<CommunicatorPointer, FakeCall>> calls;
    std::vector<CommunicatorPointer> in_progress;  // those that the thread has not seen completing; before 2.27.3
  };

  [[nodiscard]] Group& this_group() const;
  [[nodiscard]] bool has_groups_per_thread() const { return options_.version < 22703; }
  [[nodiscard]] CommunicatorPointer find(Comm comm) const;
  [[nodiscard]] CommunicatorPointer remove(Comm comm);
  Result add(Comm comm, const FakeCall& call);
  Result enter(std::string_view name, Comm comm, const FakeCall& call);
  Result launch(Group& group);
  Result refuse(Result result, const std::string& text);

  const std::shared_ptr<FakeCuda> cuda_;
  const FakeNcclOptions options_;
  const void* const key_ = new_handle();  // of the state that a thread keeps for this object
  const std::shared_ptr<FakeNcclRecord> record_ = std::make_shared<FakeNcclRecord>();
  FakeCalls<Result> calls_;
  mutable std::mutex mutex_;
  std::map<Comm, CommunicatorPointer> communicators_;  // guarded by mutex_
  std::vector<FakeMailbox> own_directories_;           // of the ids made here; guarded by mutex_
};

}  // namespace lockstep::test
