// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Communicators over MPI.

#include <lockstep/interop/mpi.hpp>

#include "base/check.hpp"
#include "bindings/mpi/mpi.hpp"
#include "cluster/job.hpp"
#include "cluster/library_copies.hpp"
#include "cluster/operation_files.hpp"
#include "cluster/settings.hpp"
#include "collectives/make_communicator.hpp"
#include "transport/mpi/mpi_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

/// Shown in errors of the calls that make communicators over MPI_COMM_WORLD.
constexpr const char* parent_name = "MPI_COMM_WORLD";

std::shared_ptr<detail::Family> family_of_process() {
  return std::make_shared<detail::Family>(detail::ProgressThread::of_process());
}

detail::BetweenNodes between_nodes(const detail::Settings& settings) {
  return {settings.transport,
          {.interface = settings.tcp_interface,
           .first_port = settings.first_port,
           .last_port = settings.last_port,
           .announced_address = settings.tcp_address,
           .encrypts = settings.encrypts,
           .silence = 2 * settings.fail_after}};
}

/// The parent of all communicators over MPI_COMM_WORLD. The job owns this parent.
Communicator job_communicator(const std::shared_ptr<detail::Job>& shared, const detail::Settings& settings) {
  detail::Job& job = *shared;
  const detail::MutexLock lock(job.mutex);
  if (!job.attachment) {
    const ReplicaLayout one_each(std::vector<int>(job.nodes.leaders.size(), 1));
    job.attachment = std::make_shared<Communicator>(CommunicatorAccess::make_internal(
        detail::make_job_transport(shared, settings.share_memory, between_nodes(settings)), {.name = parent_name},
        one_each, family_of_process()));
  }
  return *std::static_pointer_cast<Communicator>(job.attachment);
}

/// Does for the first communicator of a program without an Environment what the first Environment does for this process
/// alone.
void start_without_environment(const detail::Settings& settings, std::string_view call) {
  namespace mpi = detail::mpi;
  detail::check_for_one_copy(call);
  int rank = 0;
  int size = 1;
  mpi::check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  mpi::check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  auto files = detail::OperationFiles::of_this_process(settings, rank, size);
  if (files == nullptr) return;
  files->start();
  detail::OperationFiles::keep_until_finalize(std::move(files));
}

/// The public function `call` makes a communicator over `comm`.
Communicator make_over(MPI_Comm comm, const CommunicatorOptions& options, std::string_view call) {
  namespace mpi = detail::mpi;
  if (!mpi::is_initialized()) {
    detail::throw_error(Code::failed_precondition,
                        "{}: MPI is not initialized; create a lockstep::Environment first, or call MPI_Init_thread",
                        call);
  }
  if (mpi::is_finalized()) detail::throw_error(Code::failed_precondition, "{}: MPI is finalized", call);
  if (comm == MPI_COMM_NULL) detail::throw_error(Code::invalid_argument, "{}: comm is MPI_COMM_NULL", call);
  int is_inter = 0;
  mpi::check(MPI_Comm_test_inter(comm, &is_inter), "MPI_Comm_test_inter");
  if (is_inter != 0) {
    detail::throw_error(Code::invalid_argument, "{}: comm is an intercommunicator; pass an intracommunicator", call);
  }
  if (!mpi::this_thread_may_call()) {
    detail::throw_error(Code::failed_precondition,
                        "{}: this thread may not call MPI: MPI provides less than MPI_THREAD_SERIALIZED, so only the "
                        "main thread may",
                        call);
  }
  const detail::Settings settings = detail::settings_from_environment();
  const auto fail_after = options.fail_after.value_or(settings.fail_after);
  const auto warn_after = options.warn_after.value_or(std::min(settings.warn_after, fail_after));
  const auto job = detail::job_of_this_process();
  if (job && comm == MPI_COMM_WORLD) {
    return CommunicatorAccess::duplicate(job_communicator(job, settings), options,
                                         {"world_communicator", std::source_location(), warn_after, fail_after});
  }
  std::optional<Error> error;  // of this rank alone, so the others get it from the communicator
  try {
    if (!job) start_without_environment(settings, call);
  } catch (const Error& own) {
    error = own;
  } catch (const std::exception& own) {
    error.emplace(Code::unavailable, fmt::format("{}: {}", call, own.what()));
  }
  constexpr std::size_t segment_bytes = std::size_t{1} << 30;
  Communicator made = CommunicatorAccess::make(
      detail::make_mpi_transport(comm, settings.share_memory, segment_bytes, {warn_after, fail_after, options.name},
                                 between_nodes(settings)),
      options, std::nullopt, {}, family_of_process());
  if (!error) return made;
  made.abort(std::string(error->text()));
  throw *error;
}

}  // namespace

Communicator communicator_from(MPI_Comm comm, const CommunicatorOptions& options) {
  return make_over(comm, options, "communicator_from");
}

void set_mpi_collectives(const MpiCollectives& functions) {
  if (functions.allreduce == nullptr || functions.bcast == nullptr || functions.allgather == nullptr) {
    detail::throw_error(Code::invalid_argument, "set_mpi_collectives: {} is null; pass all functions",
                        functions.allreduce == nullptr ? "allreduce"
                        : functions.bcast == nullptr   ? "bcast"
                                                       : "allgather");
  }
  detail::mpi::collectives() = {functions.allreduce, functions.bcast, functions.allgather};
}

Communicator world_communicator(const CommunicatorOptions& options) {
  return make_over(MPI_COMM_WORLD, options, "world_communicator");
}

}  // namespace lockstep
