// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/environment.hpp>

#include "base/check.hpp"
#include "base/fork.hpp"
#include "base/log.hpp"
#include "bindings/mpi/mpi.hpp"
#include "bindings/nccl/nccl.hpp"
#include "cluster/launcher.hpp"
#include "cluster/settings.hpp"
#include "cluster/topology.hpp"
#include "kernels/target.hpp"

#include <lockstep/base/error.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

/// Operation of the errors that Environment itself throws. Every rank throws the same ones.
constexpr const char* environment_operation = "Environment";

namespace mpi = detail::mpi;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds grace{2};
std::atomic<int> terminate_rank{-1};
std::atomic<Clock::rep> abort_time{0};

[[noreturn]] void abort_job() noexcept {
  if (mpi::is_active()) MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  std::_Exit(EXIT_FAILURE);
}

[[noreturn]] void abort_when_due() noexcept {
  std::this_thread::sleep_until(Clock::time_point(Clock::duration(abort_time.load())));
  abort_job();
}

struct AbortReason {
  std::string text = "an unknown exception";
  bool is_shared = false;  // every rank throws the same error
  bool is_echo = false;    // the error was propagated by another rank, which prints it
};

AbortReason current_abort_reason() noexcept {
  AbortReason reason;
  try {
    if (const auto exception = std::current_exception()) std::rethrow_exception(exception);
    reason.text = "std::terminate was called";
  } catch (const Error& error) {
    reason.text = error.what();
    reason.is_shared = error.code() == Code::mismatch || error.code() == Code::deadline_exceeded ||
                       error.operation() == environment_operation;
    reason.is_echo = error.code() == Code::unavailable;
  } catch (const std::exception& error) {
    reason.text = error.what();
  } catch (...) {}
  return reason;
}

[[noreturn]] void on_terminate() noexcept {
  const AbortReason reason = current_abort_reason();
  // the rank that prints the text aborts the job in the meantime; a launcher may need a second or two for that
  if (reason.is_echo || (reason.is_shared && terminate_rank.load() != 0)) {
    std::this_thread::sleep_for(grace + std::chrono::seconds(5));
  }
  detail::log_warning("uncaught exception: {}", reason.text);
  std::this_thread::sleep_for(grace);
  abort_job();
}

/// Installs a terminate handler that prints the text of an uncaught exception and aborts the job 2 s later, so that
/// other ranks can print theirs. An error that is the same on every rank is printed by rank 0 only; another rank prints
/// it only if rank 0 does not abort the job first.
void install_terminate_handler(int rank) noexcept {
  terminate_rank.store(rank);
  std::set_terminate(on_terminate);
}

/// Schedules an abort of the job in 2 s, also if the program ends earlier. Returns at once, so that the handler of an
/// exception in flight can still print its text.
void abort_job_soon() noexcept {
  abort_time.store((Clock::now() + grace).time_since_epoch().count());
  try {
    std::atexit([] { abort_when_due(); });
    std::thread(abort_when_due).detach();
  } catch (...) {
    abort_when_due();
  }
}

std::atomic<bool> exists{false};  // MPI is initialized once per process, so there is one Environment

/// Reads the settings. A wrong value is wrong on all ranks, so its error is marked to be printed once.
detail::Settings read_settings() {
  try {
    return detail::settings_from_environment();
  } catch (const Error& error) {
    exists = false;
    throw Error(error.code(), error.text(), {-1, -1, environment_operation, -1});
  }
}

/// Sets the file of NCCL. An error is marked as above, because all ranks run the same program.
void set_nccl_library(const std::string& file) {
  if (file.empty() || detail::nccl::name_library(file)) return;
  exists = false;
  throw Error(Code::failed_precondition,
              fmt::format("EnvironmentOptions::nccl_library is \"{}\", but NCCL has already been loaded; create the "
                          "Environment before the first use of a GPU",
                          file),
              {-1, -1, environment_operation, -1});
}

}  // namespace

/// This rank's node: the ranks that share memory with it.
struct Environment::Node {
  std::string launcher = detail::launcher_of_this_process();  ///< read before MPI sets variables of its own
  int count = 1;                                              ///< number of nodes in the job
  int local_rank = 0;
  std::vector<detail::ProcessorSet> processors{detail::allowed_processors()};  ///< processors of each rank of this node

  [[nodiscard]] detail::Placement placement(const detail::Topology& topology) const {
    return detail::place(topology, processors, static_cast<std::size_t>(local_rank));
  }
  /// Collective over MPI_COMM_WORLD.
  void find_node(int rank) {
    const mpi::Nodes nodes = mpi::find_nodes(MPI_COMM_WORLD);
    const mpi::Comm here = mpi::Comm::split_of(MPI_COMM_WORLD, nodes.leaders[static_cast<std::size_t>(rank)], rank);
    count = nodes.count;
    local_rank = here.rank();
    const detail::ProcessorSet own = processors.front();
    processors.resize(static_cast<std::size_t>(nodes.ranks_here));
    constexpr int bytes = sizeof(detail::ProcessorSet);
    mpi::check(MPI_Allgather(&own, bytes, MPI_BYTE, processors.data(), bytes, MPI_BYTE, here.get()), "MPI_Allgather");
  }
};

Environment::Environment(int& argc, char**& argv, const EnvironmentOptions& options) { start(&argc, &argv, options); }
Environment::Environment(const EnvironmentOptions& options) { start(nullptr, nullptr, options); }

void Environment::start(int* argc, char*** argv, const EnvironmentOptions& options) {
  if (mpi::is_finalized()) {
    detail::throw_error(Code::failed_precondition,
                        "Environment: MPI has been finalized and cannot be initialized again");
  }
  if (exists.exchange(true)) {
    detail::throw_error(Code::failed_precondition, "Environment: another Environment exists; create only one, in main");
  }
  exceptions_ = std::uncaught_exceptions();
  fork_depth_ = detail::fork_depth();
  auto node = std::make_shared<Node>();
  if (!mpi::is_initialized()) {
    int level = MPI_THREAD_SINGLE;
    mpi::check(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    initialized_mpi_ = true;
  }
  mpi::check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  mpi::check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  detail::set_log_rank(rank_);
  install_terminate_handler(rank_);
  const detail::Settings settings = read_settings();
  set_nccl_library(options.nccl_library);
  if (size_ == 1 && !settings.allow_singleton) {
    const std::string suspicion = detail::launcher_mismatch(mpi::library_version());
    if (!suspicion.empty()) {
      if (initialized_mpi_) MPI_Finalize();
      exists = false;
      detail::throw_error(Code::failed_precondition, "Environment: {}", suspicion);
    }
  }
  if (size_ > 1) node->find_node(rank_);
  node_ = std::move(node);
  if (rank_ == 0) detail::report_unknown_variables();
}

Environment::~Environment() {
  if (detail::fork_depth() != fork_depth_) return;  // a forked child: only the parent finalizes MPI
  exists = false;
  if (std::uncaught_exceptions() > exceptions_) {
    detail::log_warning("Environment is destroyed by an exception; aborting the job in 2 s");
    abort_job_soon();
    return;
  }
  if (initialized_mpi_ && mpi::is_active()) MPI_Finalize();
}

std::string Environment::thread_level() const { return mpi::thread_level_name(mpi::thread_level()); }
std::string Environment::kernel_target() const { return std::string(detail::kernel_target()); }
std::string Environment::mpi_version() const { return mpi::library_version(); }

int Environment::local_rank() const noexcept { return node_->local_rank; }
int Environment::local_size() const noexcept { return static_cast<int>(node_->processors.size()); }
int Environment::nodes() const noexcept { return node_->count; }
int Environment::threads_per_rank() const { return node_->placement(detail::Topology()).threads; }

std::string Environment::describe() const {
  const detail::Topology topology;
  const auto& own = node_->processors[static_cast<std::size_t>(node_->local_rank)];
  return fmt::format(
      "{} rank{} on {} node{}, started by {}\n"
      "  this rank: {}, of its node {} of {} (from MPI)\n"
      "  MPI: {}, thread level {}; kernels for {}\n"
      "  host: {}\n"
      "  cores: {}\n",
      size_, size_ == 1 ? "" : "s", nodes(), nodes() == 1 ? "" : "s", node_->launcher, rank_, local_rank(),
      local_size(), mpi_version(), thread_level(), kernel_target(),
      to_string(detail::host_topology_of(topology, own, detail::device_backends())),
      detail::to_string(node_->placement(topology)));
}

}  // namespace lockstep
