// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A group is an attribute of its MPI communicator. MPI calls the attribute's delete function when the program frees the
// communicator. MPI_Finalize deletes the attributes of MPI_COMM_SELF first, while MPI can still be used.

#include "drop_in/communicators.hpp"

#include <lockstep/interop/mpi.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
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

Attribute* make(MPI_Comm comm) {
  auto attribute = std::make_unique<Attribute>();
  int is_inter = 0;
  int size = 1;
  int rank = 0;
  PMPI_Comm_test_inter(comm, &is_inter);
  PMPI_Comm_size(comm, &size);
  PMPI_Comm_rank(comm, &rank);
  if (is_inter == 0 && size > 1) {
    attribute->group.emplace(Group{communicator_from(comm, {.name = name_of(comm)}), rank, size});
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
