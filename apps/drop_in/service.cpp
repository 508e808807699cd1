// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "drop_in/service.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/base/exit_code.hpp>
#include <lockstep/collectives/detail/propagate.hpp>

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
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

struct Description {
  std::string text;
  int code = MPI_ERR_OTHER;
  bool is_local = true;        // only this rank writes the error
  bool is_argument = false;    // lockstep does not know the error
  bool is_after_call = false;  // the other ranks have completed the call
  bool misses_rank = false;
};

/// Describes the exception that is being handled.
Description current_error() {
  try {
    throw;
  } catch (const BadArgument& bad) {
    return {.text = bad.text, .code = bad.error_class, .is_argument = true, .is_after_call = bad.is_after_call};
  } catch (const Error& error) {
    const bool is_of_arguments = error.code() == Code::mismatch || error.code() == Code::invalid_argument;
    return {.text = error.what(),
            .code = is_of_arguments ? MPI_ERR_ARG : error_class(),
            .is_local = false,
            .misses_rank = error.code() == Code::deadline_exceeded || error.code() == Code::unavailable};
  } catch (const std::exception& error) {
    return {.text = error.what()};
  } catch (...) {
    return {.text = "an exception of an unknown type"};
  }
}

}  // namespace

lockstep_calls real{};
thread_local bool is_inside = false;

std::string_view name_of(Call call) noexcept {
  static constexpr std::array names{
#define LOCKSTEP_NAME(name, parameters, arguments) std::string_view("MPI_" #name),
      LOCKSTEP_EACH_OPERATION(LOCKSTEP_NAME)
#undef LOCKSTEP_NAME
  };
  return names[static_cast<std::size_t>(call)];
}

Count& count_of(Call call) noexcept { return counts[static_cast<std::size_t>(call)]; }

void let_launcher_read() {
  std::fflush(stderr);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

int report_error(Call call, MPI_Comm comm, Group* group) {
  const Description error = current_error();
  int rank = 0;
  int world_rank = 0;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  if (group != nullptr) {
    group->misses_rank = error.misses_rank;
    const Inside inside;
    // a second abort of one call, or one after it, would end the next call of the other ranks, but not of this one
    if (error.is_argument && !error.is_after_call) {
      group->communicator.abort(fmt::format("{}: {}", name_of(call), error.text), {});
    } else if (error.is_local && !error.is_argument) {
      detail::propagate_current_exception(group->communicator, detail::FoundBy::this_rank);
    }
  }
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  PMPI_Comm_get_errhandler(comm, &handler);
  const bool ends_job = handler == MPI_ERRORS_ARE_FATAL;
  if (handler != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&handler);
  // Most errors have the same text on all ranks. If the job ends, rank 0 writes the text and ends the job; the other
  // ranks write it if rank 0 does not, because it is the rank that is missing.
  if (ends_job && rank != 0 && !error.is_local) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  const std::string text = fmt::format("lockstep: rank {}: {}: {}\n", world_rank, name_of(call), error.text);
  std::fputs(text.c_str(), stderr);
  if (ends_job) let_launcher_read();
  // MPI ends the job with the number of the error class, which is not the same in all MPI libraries
  if (ends_job && error.code == error_class())
    PMPI_Abort(MPI_COMM_WORLD, error.misses_rank ? exit_code::unavailable : exit_code::failure);
  PMPI_Comm_call_errhandler(comm, error.code);
  return error.code;
}

}  // namespace lockstep::drop_in
