// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "group.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/cluster/environment.hpp>
#include <lockstep/interop/mpi.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <vector>

namespace lockstep_torch {
namespace {

std::unique_ptr<lockstep::Environment>& environment() {
  static auto* const value = new std::unique_ptr<lockstep::Environment>;  // `finish` ends it, not static destruction
  return *value;
}

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw lockstep::Error(lockstep::Code::unavailable, std::string(call) + ": " + text.data());
}

class Group {
 public:
  Group() { check(MPI_Comm_group(MPI_COMM_WORLD, &group_), "MPI_Comm_group"); }
  Group(const Group& world, const std::vector<int>& ranks) {
    check(MPI_Group_incl(world.group_, static_cast<int>(ranks.size()), ranks.data(), &group_), "MPI_Group_incl");
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() { MPI_Group_free(&group_); }
  [[nodiscard]] MPI_Group get() const noexcept { return group_; }

 private:
  MPI_Group group_ = MPI_GROUP_NULL;
};

class Subset {
 public:
  Subset(const Group& group, int tag) {
    check(MPI_Comm_create_group(MPI_COMM_WORLD, group.get(), tag, &comm_), "MPI_Comm_create_group");
  }
  Subset(const Subset&) = delete;
  Subset& operator=(const Subset&) = delete;
  ~Subset() { MPI_Comm_free(&comm_); }
  [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace

Place start() {
  if (!environment()) {
    environment() =
        std::make_unique<lockstep::Environment>(lockstep::EnvironmentOptions{}, std::source_location::current());
  }
  const lockstep::Environment& job = *environment();
  return {job.rank(), job.size(), job.local_rank(), job.local_size(), job.nodes()};
}

std::string text_of_rank_0(const std::string& text) {
  std::array<std::uint8_t, 256> bytes{};
  if (text.size() > bytes.size()) throw lockstep::Error(lockstep::Code::invalid_argument, "the text is too long");
  std::copy(text.begin(), text.end(), bytes.begin());
  lockstep::world_communicator({.name = "start of lockstep_torch"}).broadcast(bytes, 0);
  return {bytes.begin(), std::find(bytes.begin(), bytes.end(), 0)};
}

void finish() {
  shut_all_down();
  environment().reset();
}

lockstep::Communicator make_communicator(const BackendOptions& options) {
  start();
  lockstep::CommunicatorOptions ours;
  ours.fail_after = options.timeout;
  ours.name = options.name;
  ours.recovery_advice = "create a new process group on every rank, then restore the model from a checkpoint";
  if (options.ranks_in_world.empty()) return lockstep::world_communicator(ours);
  // MPI_Comm_create_group has no form that does not wait. All members have met in the store of torch (_await_members),
  // within the timeout of the group and with an error that names the missing ranks. So the call takes long only if a
  // member ends in between, or if threads of two ranks create two common groups in different orders.
  static std::mutex mutex;  // threads of one process that create groups would mix up their messages
  const std::lock_guard lock(mutex);
  const Group world;
  const Group members(world, options.ranks_in_world);
  const Subset subset(members, options.tag);
  return lockstep::communicator_from(subset.get(), ours);
}

}  // namespace lockstep_torch
