// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A group is an attribute of its MPI communicator. MPI calls the attribute's delete function when the program frees the
// communicator. MPI_Finalize deletes the attributes of MPI_COMM_SELF first, while MPI can still be used.

#include "drop_in/communicators.hpp"

#include <lockstep/interop/mpi.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::drop_in {
namespace {

/// The value of the attribute.
struct Attribute {
  std::optional<Group> group;  ///< none if MPI keeps the collectives of the communicator, or after MPI_Finalize
};

std::atomic<bool> has_ended{false};
std::atomic<int> made{0};
/// Incremented when MPI frees a communicator: its handle may then come again for another one.
std::atomic<std::uint64_t> generation{0};

struct All {
  std::mutex mutex;
  std::vector<Attribute*> list;  // in the order of creation
};
All& all() {
  static All& result = *new All;  // never destroyed: MPI may delete attributes while the process ends
  return result;
}

int delete_group(MPI_Comm, int, void* value, void*) {
  auto* const attribute = static_cast<Attribute*>(value);
  ++generation;
  {
    const std::lock_guard lock(all().mutex);
    std::erase(all().list, attribute);
  }
  delete attribute;
  return MPI_SUCCESS;
}

int key_of_groups() {
  static const int key = [] {
    int made_key = MPI_KEYVAL_INVALID;
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_group, &made_key, nullptr);
    return made_key;
  }();
  return key;
}

std::string name_of(MPI_Comm comm) {
  std::array<char, MPI_MAX_OBJECT_NAME> text{};
  int length = 0;
  if (PMPI_Comm_get_name(comm, text.data(), &length) != MPI_SUCCESS || length == 0) return "a communicator";
  return {text.data(), static_cast<std::size_t>(length)};
}

/// Whether all ranks of `comm`, an intracommunicator of `size` ranks, are in MPI_COMM_WORLD. Ranks of other worlds may
/// be without the drop-in. If `comm` has ranks of several worlds, this is false on all of them.
bool is_of_this_world(MPI_Comm comm, int size) {
  std::array<MPI_Group, 2> groups{};
  PMPI_Comm_group(comm, &groups[0]);
  PMPI_Comm_group(MPI_COMM_WORLD, &groups[1]);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> in_world(ranks.size(), MPI_UNDEFINED);
  PMPI_Group_translate_ranks(groups[0], size, ranks.data(), groups[1], in_world.data());
  for (MPI_Group& group : groups) PMPI_Group_free(&group);
  return std::find(in_world.begin(), in_world.end(), MPI_UNDEFINED) == in_world.end();
}

CommunicatorOptions options_of(MPI_Comm comm) {
  CommunicatorOptions options;
  options.name = name_of(comm);
  options.recovery_advice =
      "call MPI_Comm_dup on every rank and use the new communicator, or end the job with MPI_Abort";
  // longer than the default: programs of MPI may wait long for a rank that reads or writes files
  if (std::getenv("LOCKSTEP_TIMEOUT") == nullptr) options.fail_after = std::chrono::hours(1);
  return options;
}

Attribute* make(MPI_Comm comm) {
  auto attribute = std::make_unique<Attribute>();
  const int size = ranks_of(comm);
  if (size > 1 && is_of_this_world(comm, size)) {
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    attribute->group.emplace(Group{communicator_from(comm, options_of(comm)), rank, size});
    ++made;
  }
  PMPI_Comm_set_attr(comm, key_of_groups(), attribute.get());
  const std::lock_guard lock(all().mutex);
  all().list.push_back(attribute.get());
  return attribute.release();
}

void (*call_at_end)() = nullptr;
void (*call_after)() = nullptr;

int finalize(MPI_Comm, int, void*, void*) {
  call_at_end();
  has_ended = true;
  ++generation;
  {
    const std::lock_guard lock(all().mutex);
    for (Attribute* const attribute : all().list) attribute->group.reset();
  }
  call_after();
  return MPI_SUCCESS;
}

}  // namespace

int ranks_of(MPI_Comm comm) {
  int is_inter = 0;
  int size = 0;
  if (comm == MPI_COMM_NULL || PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter != 0) return 0;
  return PMPI_Comm_size(comm, &size) == MPI_SUCCESS ? size : 0;
}

bool misses_rank() {
  const std::lock_guard lock(all().mutex);
  return std::any_of(all().list.begin(), all().list.end(),
                     [](const Attribute* attribute) { return attribute->group && attribute->group->misses_rank; });
}

Group* group_of(MPI_Comm comm) {
  struct Last {
    MPI_Comm comm = MPI_COMM_NULL;
    std::uint64_t generation = 0;
    Group* group = nullptr;
  };
  static thread_local Last last;
  if (has_ended.load(std::memory_order_relaxed) || comm == MPI_COMM_NULL) return nullptr;
  const std::uint64_t now = generation.load();
  if (last.comm == comm && last.generation == now) return last.group;
  void* value = nullptr;
  int is_set = 0;
  if (PMPI_Comm_get_attr(comm, key_of_groups(), static_cast<void*>(&value), &is_set) != MPI_SUCCESS) return nullptr;
  Attribute* const attribute = is_set != 0 ? static_cast<Attribute*>(value) : make(comm);
  last = {comm, now, attribute->group ? &*attribute->group : nullptr};
  return last.group;
}

void watch_finalize(void (*at_end)(), void (*after)()) {
  call_at_end = at_end;
  call_after = after;
  int key = MPI_KEYVAL_INVALID;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalize, &key, nullptr);
  PMPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
  PMPI_Comm_free_keyval(&key);  // the attribute keeps the key alive
}

int groups_made() noexcept { return made; }

}  // namespace lockstep::drop_in
