// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/environment.hpp>

#include "base/check.hpp"
#include "base/fork.hpp"
#include "base/log.hpp"
#include "bindings/mpi/mpi.hpp"
#include "cluster/abort.hpp"
#include "cluster/launcher.hpp"
#include "cluster/settings.hpp"
#include "kernels/target.hpp"

#include <atomic>
#include <exception>

namespace lockstep {
namespace {
std::atomic<bool> exists{false};  // MPI is one per process, and so is its frame

/// A value that is wrong is wrong on all ranks: marked so that its text is printed once.
detail::Settings read_settings() {
  try {
    return detail::settings_from_environment();
  } catch (const Error& error) {
    exists = false;
    throw Error(error.code(), error.text(), {-1, -1, detail::environment_operation, -1});
  }
}
}  // namespace

Environment::Environment(int& argc, char**& argv) { start(&argc, &argv); }
Environment::Environment() { start(nullptr, nullptr); }

void Environment::start(int* argc, char*** argv) {
  namespace mpi = detail::mpi;
  if (mpi::is_finalized()) {
    detail::throw_error(Code::failed_precondition,
                        "Environment: MPI is finalised already, and cannot be started again");
  }
  if (exists.exchange(true)) {
    detail::throw_error(Code::failed_precondition, "Environment: another one exists; make one, in main");
  }
  exceptions_ = std::uncaught_exceptions();
  fork_depth_ = detail::fork_depth();
  if (!mpi::is_initialized()) {
    int level = MPI_THREAD_SINGLE;
    mpi::check(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    initialized_mpi_ = true;
  }
  mpi::check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  mpi::check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  detail::set_log_rank(rank_);
  detail::install_terminate_handler(rank_);
  const detail::Settings settings = read_settings();
  if (size_ == 1 && !settings.allow_singleton) {
    const std::string suspicion = detail::suspicion_of_wrong_launcher(mpi::library_version());
    if (!suspicion.empty()) {
      if (initialized_mpi_) MPI_Finalize();
      exists = false;
      detail::throw_error(Code::failed_precondition, "Environment: {}", suspicion);
    }
  }
  if (rank_ == 0) detail::report_unknown_variables();
}

Environment::~Environment() {
  if (detail::fork_depth() != fork_depth_) return;  // MPI is the parent's to end
  exists = false;
  if (std::uncaught_exceptions() > exceptions_) {
    detail::log_warning("the program leaves by an exception; the job is aborted in 2 s");
    detail::abort_job_soon();
    return;
  }
  if (initialized_mpi_ && detail::mpi::is_active()) MPI_Finalize();
}

std::string Environment::thread_level() const { return detail::mpi::thread_level_name(detail::mpi::thread_level()); }
std::string Environment::kernel_target() const { return std::string(detail::kernel_target()); }
std::string Environment::mpi_version() const { return detail::mpi::library_version(); }

}  // namespace lockstep
