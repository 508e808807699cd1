// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "drop_in/service.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

namespace lockstep::drop_in {
namespace {

std::array<Count, static_cast<std::size_t>(Call::count)> counts;

/// The class of errors that MPI has no class for. Local.
int error_class() {
  static const int added = [] {
    int result = MPI_ERR_OTHER;
    if (PMPI_Add_error_class(&result) != MPI_SUCCESS) return MPI_ERR_OTHER;
    PMPI_Add_error_string(result, "lockstep: a rank is missing or has failed; the text is on standard error");
    return result;
  }();
  return added;
}

std::atomic<bool> has_lost_rank{false};

int error_code_of(const Error& error) {
  switch (error.code()) {
    case Code::mismatch:
    case Code::invalid_argument: return MPI_ERR_ARG;
    default: return error_class();
  }
}

}  // namespace

lockstep_calls real{};
thread_local bool is_inside = false;

std::string_view name_of(Call call) noexcept {
  static constexpr std::array names{
#define LOCKSTEP_NAME(name, parameters, arguments) std::string_view("MPI_" #name),
      LOCKSTEP_EACH_CALL(LOCKSTEP_NAME)
#undef LOCKSTEP_NAME
  };
  return names[static_cast<std::size_t>(call)];
}

Count& count_of(Call call) noexcept { return counts[static_cast<std::size_t>(call)]; }

int report_error(Call call, MPI_Comm comm, const Error& error) {
  int rank = 0;
  int world_rank = 0;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  PMPI_Comm_get_errhandler(comm, &handler);
  const bool ends_job = handler == MPI_ERRORS_ARE_FATAL;
  if (handler != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&handler);
  // Most errors have the same text on all ranks. If the job ends, rank 0 writes the text and ends the job; the other
  // ranks write it if rank 0 does not, because it is the rank that is missing.
  if (ends_job && rank != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  const std::string text = fmt::format("lockstep: rank {}: {}: {}\n", world_rank, name_of(call), error.what());
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  if (error.code() == Code::deadline_exceeded || error.code() == Code::unavailable) has_lost_rank = true;
  const int code = error_code_of(error);
  PMPI_Comm_call_errhandler(comm, code);
  return code;
}

std::optional<std::chrono::milliseconds> finalize_limit() noexcept {
  constexpr std::chrono::seconds limit(10);
  return has_lost_rank ? std::optional<std::chrono::milliseconds>(limit) : std::nullopt;
}

}  // namespace lockstep::drop_in
