// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bindings/mpi/pending.hpp"

#include "base/leak.hpp"

#include <utility>

namespace lockstep::detail::mpi {
bool is_complete(MPI_Request& request) {
  if (request == MPI_REQUEST_NULL) return true;
  const auto lock = serialize();
  int flag = 0;
  check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
  return flag != 0;
}

PendingDuplicate::PendingDuplicate(MPI_Comm original) : memory_(std::make_unique<Memory>()) {
  const auto lock = serialize();
  check(MPI_Comm_idup(original, &memory_->copy, &memory_->request), "MPI_Comm_idup");
}

PendingDuplicate::~PendingDuplicate() {
  if (memory_->request != MPI_REQUEST_NULL) {
    leak(memory_.release());
  } else if (memory_->copy != MPI_COMM_NULL && is_active()) {
    static_cast<void>(Comm::adopt(memory_->copy));  // the temporary object frees the duplicate
  }
}

bool PendingDuplicate::test() { return is_complete(memory_->request); }

Comm PendingDuplicate::take() { return Comm::adopt(std::exchange(memory_->copy, MPI_COMM_NULL)); }

PendingAllGather::PendingAllGather(MPI_Comm comm, int size, const void* own, std::size_t bytes)
    : memory_(std::make_unique<Memory>()) {
  const auto* const begin = static_cast<const std::byte*>(own);
  memory_->own.assign(begin, begin + bytes);
  memory_->all.resize(bytes * static_cast<std::size_t>(size));
  const auto count = static_cast<int>(bytes);
  const auto lock = serialize();
  check(MPI_Iallgather(memory_->own.data(), count, MPI_BYTE, memory_->all.data(), count, MPI_BYTE, comm,
                       &memory_->request),
        "MPI_Iallgather");
}

PendingAllGather::~PendingAllGather() {
  if (memory_->request != MPI_REQUEST_NULL) leak(memory_.release());
}

bool PendingAllGather::test() { return is_complete(memory_->request); }

}  // namespace lockstep::detail::mpi
