// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/mpi/stale_transfers.hpp"

#include "bindings/mpi/mpi.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::detail {

StaleTransfers::~StaleTransfers() {
  for (std::vector<Kept>* const list : {&kept_, &dropped_}) {
    for (Kept& kept : *list) {
      for (Buffer& buffer : kept.buffers) buffer.leak();
    }
  }
}

void StaleTransfers::keep(std::vector<MPI_Request>&& requests, std::vector<Buffer>&& buffers) {
  Kept& kept = kept_.emplace_back();  // throws before anything is moved
  kept = {std::move(requests), std::move(buffers)};
}

void StaleTransfers::change_tag(int old, int now) noexcept {
  if (tags_.size() == most_tags) tags_.erase(tags_.begin());
  tags_.push_back(old);
  std::erase(tags_, now);  // a tag is used again after many epochs
}

void StaleTransfers::advance(MPI_Comm comm) {
  free_complete(kept_);
  free_complete(dropped_);
  if (tags_.empty()) return;
  const int tag = tags_.front();
  while (dropped_.size() < most_dropped_at_once) {
    if (drop_one(comm, tag)) continue;
    std::rotate(tags_.begin(), tags_.begin() + 1, tags_.end());  // the next call continues with the next tag
    break;
  }
}

void StaleTransfers::drop_all(MPI_Comm comm, int tag) {
  while (drop_one(comm, tag)) {}
}

void StaleTransfers::free_complete(std::vector<Kept>& list) {
  std::erase_if(list, [](Kept& kept) {
    int flag = 0;
    mpi::check(MPI_Testall(static_cast<int>(kept.requests.size()), kept.requests.data(), &flag, MPI_STATUSES_IGNORE),
               "MPI_Testall");
    return flag != 0;
  });
}

/// Begins to receive a message with `tag`, in order to drop it. Returns false if there is no such message.
bool StaleTransfers::drop_one(MPI_Comm comm, int tag) {
  int flag = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  mpi::check(MPI_Improbe(MPI_ANY_SOURCE, tag, comm, &flag, &message, &status), "MPI_Improbe");
  if (flag == 0) return false;
  int bytes = 0;
  mpi::check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  Kept& dropped = dropped_.emplace_back();
  dropped.buffers.emplace_back(static_cast<std::size_t>(bytes));
  dropped.requests.push_back(MPI_REQUEST_NULL);
  mpi::check(MPI_Imrecv(dropped.buffers.front().data(), bytes, MPI_BYTE, &message, &dropped.requests.front()),
             "MPI_Imrecv");
  return true;
}

}  // namespace lockstep::detail
