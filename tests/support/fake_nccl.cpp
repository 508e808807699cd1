// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/fake_nccl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <thread>
#include <unordered_map>

namespace lockstep::test {

using detail::nccl::UniqueId;

namespace {

/// Timeout for ranks of other processes that are about to leave.
constexpr auto farewell = std::chrono::seconds(2);

}  // namespace

FakeNccl::FakeNccl(std::shared_ptr<FakeCuda> cuda, FakeNcclOptions options)
    : cuda_(std::move(cuda)), options_(std::move(options)) {}

FakeNccl::~FakeNccl() {
  for (const auto& [comm, communicator] : communicators_) communicator->abort();
  const auto end = std::chrono::steady_clock::now() + farewell;
  for (const FakeMailbox& mailbox : own_directories_) {
    const auto is_in_use = [&] { return mailbox.count("rank.") > mailbox.count("left."); };
    while (is_in_use() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    mailbox.remove();
  }
}

FakeNccl::Group& FakeNccl::this_group() const {
  thread_local std::unordered_map<const void*, Group> groups;
  return groups[key_];
}

FakeNccl::CommunicatorPointer FakeNccl::find(Comm comm) const {
  const std::scoped_lock lock(mutex_);
  const auto found = communicators_.find(comm);
  return found == communicators_.end() ? nullptr : found->second;
}

FakeNccl::CommunicatorPointer FakeNccl::remove(Comm comm) {
  const std::scoped_lock lock(mutex_);
  auto node = communicators_.extract(comm);
  return node ? std::move(node.mapped()) : nullptr;
}

FakeNccl::Result FakeNccl::refuse(Result result, const std::string& text) {
  record_->set_last_error(text);
  return result;
}

FakeNccl::Result FakeNccl::get_version(int& version) {
  if (const auto failure = calls_.enter("get_version")) return *failure;
  version = options_.version;
  return Result::success;
}

FakeNccl::Result FakeNccl::get_unique_id(UniqueId& id) {
  if (const auto failure = calls_.enter("get_unique_id")) return *failure;
  try {
    const std::string path = FakeMailbox::make_directory().string();
    const std::scoped_lock lock(mutex_);
    own_directories_.emplace_back(path);
    id = {};
    if (path.size() >= id.bytes.size()) return refuse(Result::system_error, path + " : too long for a unique id");
    std::ranges::copy(path, id.bytes.begin());
    return Result::success;
  } catch (const std::filesystem::filesystem_error& error) {
    return refuse(Result::system_error, error.what());
  }
}

FakeNccl::Result FakeNccl::comm_init_rank(Comm& comm, int ranks, const UniqueId& id, int rank) {
  if (const auto failure = calls_.enter("comm_init_rank")) return *failure;
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    return refuse(Result::invalid_argument, fmt::format("Invalid rank requested : {}/{}", rank, ranks));
  }
  if (!cuda_->has_devices()) return refuse(Result::unhandled_cuda_error, "Cuda failure");
  const auto communicator =
      std::make_shared<FakeCommunicator>(*cuda_, record_, options_, std::string(id.bytes.data()), ranks, rank);
  const Result result = communicator->join();
  if (result != Result::in_progress) return result;
  comm = new_handle();
  const std::scoped_lock lock(mutex_);
  communicators_.emplace(comm, communicator);
  return result;
}

FakeNccl::Result FakeNccl::comm_finalize(Comm comm) {
  if (const auto failure = calls_.enter("comm_finalize")) return *failure;
  const auto communicator = find(comm);
  return communicator ? communicator->finalize() : refuse(Result::invalid_argument, "CommFinalize : no communicator");
}

FakeNccl::Result FakeNccl::comm_destroy(Comm comm) {
  if (const auto failure = calls_.enter("comm_destroy")) return *failure;
  if (comm == nullptr) return Result::success;
  const auto communicator = remove(comm);
  if (!communicator) return refuse(Result::invalid_argument, "CommDestroy : no communicator");
  communicator->destroy();
  return Result::success;
}

FakeNccl::Result FakeNccl::comm_abort(Comm comm) {
  if (const auto failure = calls_.enter("comm_abort")) return *failure;
  if (comm == nullptr) return Result::success;
  const auto communicator = remove(comm);
  if (!communicator) return refuse(Result::invalid_argument, "CommAbort : no communicator");
  communicator->abort();
  return Result::success;
}

FakeNccl::Result FakeNccl::comm_get_async_error(Comm comm, Result& error) {
  if (const auto failure = calls_.enter("comm_get_async_error")) return *failure;
  const auto communicator = find(comm);
  if (!communicator) return refuse(Result::invalid_argument, "CommGetAsyncError : no communicator");
  error = communicator->poll();
  if (error != Result::in_progress) std::erase(this_group().in_progress, communicator);
  return Result::success;
}

std::string FakeNccl::error_string(Result result) const {
  constexpr std::array<const char*, 8> texts = {"no error",
                                                "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                                                "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                                                "internal error - please report this issue to the NCCL developers",
                                                "invalid argument (run with NCCL_DEBUG=WARN for details)",
                                                "invalid usage (run with NCCL_DEBUG=WARN for details)",
                                                "remote process exited or there was a network error",
                                                "NCCL operation in progress"};
  return texts.at(static_cast<std::size_t>(result));
}

std::string FakeNccl::last_error(Comm) const { return record_->last_error(); }

FakeNccl::Result FakeNccl::group_start() {
  if (const auto failure = calls_.enter("group_start")) return *failure;
  ++this_group().depth;
  return Result::success;
}

FakeNccl::Result FakeNccl::group_end() {
  Group& group = this_group();
  if (group.depth == 0) return refuse(Result::invalid_usage, "ncclGroupEnd: not in a group call.");
  if (const auto failure = calls_.enter("group_end")) group.error = *failure;
  if (--group.depth > 0) return Result::success;
  return launch(group);
}

// One call; if it fails, its group fails.
FakeNccl::Result FakeNccl::enter(std::string_view name, Comm comm, const FakeCall& call) {
  const auto failure = calls_.enter(name);
  const Result result = failure ? *failure : add(comm, call);
  Group& group = this_group();
  if (result != Result::success && group.error == Result::success) group.error = result;
  return group.depth > 0 ? result : launch(group);
}

FakeNccl::Result FakeNccl::add(Comm comm, const FakeCall& call) {
  const auto communicator = find(comm);
  if (!communicator) return refuse(Result::invalid_argument, "comm argument is NULL or no communicator");
  const Result result = communicator->check(call);
  if (result == Result::success && call.count > 0) this_group().calls.emplace_back(communicator, call);
  return result;
}

// The calls of one communicator together.
FakeNccl::Result FakeNccl::launch(Group& group) {
  const auto calls = std::exchange(group.calls, {});
  Result result = std::exchange(group.error, Result::success);
  if (!group.in_progress.empty()) return refuse(Result::invalid_usage, "a group of this thread is in progress");
  if (result != Result::success) return result;
  std::vector<std::pair<CommunicatorPointer, std::vector<FakeCall>>> launches;
  for (const auto& [communicator, call] : calls) {
    auto found = std::ranges::find(launches, communicator, [](const auto& launch) { return launch.first; });
    if (found == launches.end()) found = launches.insert(found, {communicator, {}});
    found->second.push_back(call);
  }
  for (const auto& [communicator, together] : launches) {
    result = communicator->check_group(together);
    if (result != Result::success) return result;
  }
  for (auto& [communicator, together] : launches) {
    if (communicator->launch(std::move(together)) != Result::in_progress) continue;
    result = Result::in_progress;
    if (has_groups_per_thread()) group.in_progress.push_back(communicator);
  }
  return result;
}

FakeNccl::Result FakeNccl::all_reduce(const void* source, void* target, std::size_t count, DType dtype, RedOp op,
                                      Comm comm, Stream stream) {
  return enter("all_reduce", comm, {FakeKind::all_reduce, source, target, count, dtype, op, -1, stream});
}

FakeNccl::Result FakeNccl::reduce(const void* source, void* target, std::size_t count, DType dtype, RedOp op, int root,
                                  Comm comm, Stream stream) {
  return enter("reduce", comm, {FakeKind::reduce, source, target, count, dtype, op, root, stream});
}

FakeNccl::Result FakeNccl::broadcast(const void* source, void* target, std::size_t count, DType dtype, int root,
                                     Comm comm, Stream stream) {
  return enter("broadcast", comm, {FakeKind::broadcast, source, target, count, dtype, RedOp::sum, root, stream});
}

FakeNccl::Result FakeNccl::reduce_scatter(const void* source, void* target, std::size_t count, DType dtype, RedOp op,
                                          Comm comm, Stream stream) {
  return enter("reduce_scatter", comm, {FakeKind::reduce_scatter, source, target, count, dtype, op, -1, stream});
}

FakeNccl::Result FakeNccl::all_gather(const void* source, void* target, std::size_t count, DType dtype, Comm comm,
                                      Stream stream) {
  return enter("all_gather", comm, {FakeKind::all_gather, source, target, count, dtype, RedOp::sum, -1, stream});
}

FakeNccl::Result FakeNccl::send(const void* source, std::size_t count, DType dtype, int peer, Comm comm,
                                Stream stream) {
  return enter("send", comm, {FakeKind::send, source, nullptr, count, dtype, RedOp::sum, peer, stream});
}

FakeNccl::Result FakeNccl::recv(void* target, std::size_t count, DType dtype, int peer, Comm comm, Stream stream) {
  return enter("recv", comm, {FakeKind::recv, nullptr, target, count, dtype, RedOp::sum, peer, stream});
}

std::size_t FakeNccl::communicators() const {
  const std::scoped_lock lock(mutex_);
  return communicators_.size();
}

}  // namespace lockstep::test
