// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/environment.hpp>

#include "base/check.hpp"
#include "base/fork.hpp"
#include "base/log.hpp"
#include "bindings/mpi/mpi.hpp"
#include "bindings/nccl/nccl.hpp"
#include "cluster/abort.hpp"
#include "cluster/launcher.hpp"
#include "cluster/placement.hpp"
#include "cluster/settings.hpp"
#include "kernels/target.hpp"

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {
std::atomic<bool> exists{false};  // MPI is initialized once per process, so there is one Environment

/// Reads the settings. A wrong value is wrong on all ranks, so its error is marked to be printed once.
detail::Settings read_settings() {
  try {
    return detail::settings_from_environment();
  } catch (const Error& error) {
    exists = false;
    throw Error(error.code(), error.text(), {-1, -1, detail::environment_operation, -1});
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
              {-1, -1, detail::environment_operation, -1});
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
    namespace mpi = detail::mpi;
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
  namespace mpi = detail::mpi;
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
  detail::install_terminate_handler(rank_);
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
    detail::abort_job_soon();
    return;
  }
  if (initialized_mpi_ && detail::mpi::is_active()) MPI_Finalize();
}

std::string Environment::thread_level() const { return detail::mpi::thread_level_name(detail::mpi::thread_level()); }
std::string Environment::kernel_target() const { return std::string(detail::kernel_target()); }
std::string Environment::mpi_version() const { return detail::mpi::library_version(); }

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
