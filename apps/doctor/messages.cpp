// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "doctor/messages.hpp"

#include <sched.h>

#include <thread>
#include <utility>

namespace doctor {
namespace {

constexpr int text_tag = 1;
constexpr int bytes_tag = 2;

bool complete(MPI_Request& request, Clock::time_point deadline) {
  for (int looks = 1;; ++looks) {
    int is_done = 0;
    MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
    if (is_done != 0) return true;
    if (looks % 100 != 0) continue;
    if (Clock::now() > deadline) return false;
    sched_yield();  // the peer may need this core
  }
}

}  // namespace

void Messages::send(int rank, std::string text) {
  Sent& sent = sent_.emplace_back(Sent{std::move(text)});
  MPI_Isend(sent.text.data(), static_cast<int>(sent.text.size()), MPI_CHAR, rank, text_tag, MPI_COMM_WORLD,
            &sent.request);
}

std::optional<std::string> Messages::receive(int rank, Clock::time_point deadline) {
  for (;;) {
    int is_there = 0;
    MPI_Status status;
    MPI_Iprobe(rank, text_tag, MPI_COMM_WORLD, &is_there, &status);
    if (is_there != 0) {
      int bytes = 0;
      MPI_Get_count(&status, MPI_CHAR, &bytes);
      std::string& text = received_.emplace_back(static_cast<std::size_t>(bytes), '\0');
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Irecv(text.data(), bytes, MPI_CHAR, rank, text_tag, MPI_COMM_WORLD, &request);
      if (!complete(request, deadline)) return std::nullopt;
      return text;
    }
    if (Clock::now() > deadline) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool Messages::send_bytes(int rank, std::span<std::byte> bytes, Clock::time_point deadline) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank, bytes_tag, MPI_COMM_WORLD, &request);
  return complete(request, deadline);
}

bool Messages::receive_bytes(int rank, std::span<std::byte> bytes, Clock::time_point deadline) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank, bytes_tag, MPI_COMM_WORLD, &request);
  return complete(request, deadline);
}

}  // namespace doctor
