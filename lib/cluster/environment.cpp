// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/environment.hpp>

#include "base/check.hpp"
#include "base/fork.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/phrases.hpp"
#include "base/process.hpp"
#include "bindings/mpi/mpi.hpp"
#include "bindings/mpi/pending.hpp"
#include "bindings/nccl/nccl.hpp"
#include "cluster/end_of_job.hpp"
#include "cluster/finalize.hpp"
#include "cluster/flight_record.hpp"
#include "cluster/hash_log.hpp"
#include "cluster/job.hpp"
#include "cluster/launcher.hpp"
#include "cluster/quit_signal.hpp"
#include "cluster/reporter.hpp"
#include "cluster/settings.hpp"
#include "cluster/topology.hpp"
#include "cluster/trace_merge.hpp"
#include "kernels/target.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/base/exit_code.hpp>

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

namespace mpi = detail::mpi;

/// Ignores SIGXFSZ, so that a write beyond the limit on file sizes (ulimit -f) fails with an error that names the file.
void ignore_file_size_signal() noexcept {
  struct sigaction now{};
  if (::sigaction(SIGXFSZ, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) ::signal(SIGXFSZ, SIG_IGN);
}

std::atomic<bool> exists{false};  // MPI is initialized once per process, so only one Environment may exist

/// Sets the file of the NCCL library. Throws Error(failed_precondition) if NCCL has already been loaded.
void set_nccl_library(const std::string& file) {
  if (file.empty() || detail::nccl::name_library(file)) return;
  detail::throw_error(Code::failed_precondition,
                      "EnvironmentOptions::nccl_library is \"{}\", but NCCL has already been loaded; create the "
                      "Environment before the first use of a GPU",
                      file);
}

/// An error of this rank in the constructor of Environment, in the form that is sent to the other ranks.
struct StartError {
  static constexpr std::size_t text_bytes = 512;
  int is_set = 0;
  Code code = Code::invalid_argument;
  std::array<char, text_bytes> text{};

  void set(const Error& error) {
    is_set = 1;
    code = error.code();
    error.text().copy(text.data(), text.size() - 1);
  }
};

/// Returns a duplicate of MPI_COMM_WORLD. Collective. Throws Error(deadline_exceeded) if a rank does not make this
/// call.
mpi::Comm wait_for_all_ranks(const detail::Settings& settings) {
  mpi::PendingDuplicate duplicate(MPI_COMM_WORLD);
  try {
    detail::await_all_ranks([&] { return duplicate.test(); }, settings, detail::environment_operation);
  } catch (const Error&) {
    exists = false;
    throw;
  }
  return duplicate.take();
}

/// If a rank has an error, throws the error of the lowest such rank on all ranks. Otherwise returns whether
/// `initialized_mpi` is true on all ranks. Collective over `comm`, which has all ranks of the job.
bool agree_on_start(const StartError& own, bool initialized_mpi, MPI_Comm comm, int rank, int size) {
  constexpr int none = std::numeric_limits<int>::max();
  // the lowest rank that failed; whether all ranks failed; whether all ranks initialized MPI
  std::array<int, 3> failed{own.is_set != 0 ? rank : none, own.is_set, initialized_mpi ? 1 : 0};
  if (size > 1)
    mpi::check(mpi::collectives().allreduce(MPI_IN_PLACE, failed.data(), 3, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
  if (failed[0] == none) return failed[2] != 0;
  StartError first = own;
  if (size > 1) mpi::check(mpi::collectives().bcast(&first, sizeof(first), MPI_BYTE, failed[0], comm), "MPI_Bcast");
  const bool is_on_all = failed[1] != 0;
  exists = false;
  throw Error(first.code, is_on_all ? first.text.data() : fmt::format("rank {}: {}", failed[0], first.text.data()),
              {is_on_all ? -1 : failed[0], -1, detail::environment_operation, -1});
}

}  // namespace

/// The node of this rank: the ranks that share memory.
struct Environment::Node {
  std::string launcher = detail::launcher_of_this_process();  ///< read before MPI sets environment variables
  int count = 1;                                              ///< number of nodes in the job
  int local_rank = 0;
  detail::QuitSignal quit_signal;  ///< constructed before MPI starts threads
  std::vector<detail::ProcessorSet> processors{detail::allowed_processors()};  ///< processors of each rank of this node

  [[nodiscard]] detail::Placement placement(const detail::Topology& topology) const {
    return detail::place(topology, processors, static_cast<std::size_t>(local_rank));
  }
  std::vector<std::shared_ptr<const detail::ProcessWatch>> watches;  ///< by rank; null for ranks of other nodes
  detail::FinalizeOptions finalize{};
  std::unique_ptr<detail::Reporter> reporter;  ///< null if there are no metrics and no trace
  std::string trace_directory;                 ///< of LOCKSTEP_TRACE
  std::shared_ptr<detail::HashLog> hash_log;   ///< null if there is no LOCKSTEP_HASH_LOG
  bool all_initialized_mpi = false;  ///< if false, the program finalizes MPI on some ranks, and they send no messages

  /// Finds the nodes of `job`, and the ranks of this node. Collective over all ranks of `job`; all ranks have passed
  /// wait_for_all_ranks.
  void find_node(detail::Job& job, int rank) {
    job.nodes = mpi::find_nodes(job.comm.get());
    const int leader = job.nodes.leaders[static_cast<std::size_t>(rank)];
    const mpi::Comm here = mpi::Comm::split_of(job.comm.get(), leader, rank);
    count = job.nodes.count;
    local_rank = here.rank();
    const detail::ProcessorSet own = processors.front();
    processors.resize(static_cast<std::size_t>(job.nodes.ranks_here));
    watch_processes(job, leader, here.get());
    // No rank leaves this call, and so none can end, before every rank of the node watches it.
    constexpr int bytes = sizeof(detail::ProcessorSet);
    mpi::check(mpi::collectives().allgather(&own, bytes, MPI_BYTE, processors.data(), bytes, MPI_BYTE, here.get()),
               "MPI_Allgather");
  }

 private:
  void watch_processes(detail::Job& job, int leader, MPI_Comm here) {
    job.processes.resize(processors.size());
    const detail::ProcessId own = detail::id_of_this_process();
    constexpr int bytes = sizeof(detail::ProcessId);
    mpi::check(mpi::collectives().allgather(&own, bytes, MPI_BYTE, job.processes.data(), bytes, MPI_BYTE, here),
               "MPI_Allgather");
    watches.resize(job.nodes.leaders.size());
    auto next = job.processes.begin();
    for (std::size_t rank = 0; rank < watches.size(); ++rank) {
      if (job.nodes.leaders[rank] != leader) continue;
      if (*next != own) watches[rank] = detail::ProcessWatch::of(*next);
      ++next;
    }
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
  ignore_file_size_signal();
  if (!mpi::is_initialized()) {
    int level = MPI_THREAD_SINGLE;
    mpi::check(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    initialized_mpi_ = true;
  }
  mpi::check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  mpi::check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  detail::set_log_rank(rank_);
  detail::install_terminate_handler(rank_);
  detail::Settings settings;
  StartError error;
  try {
    settings = detail::settings_from_environment();
    set_nccl_library(options.nccl_library);
    if (!settings.metrics_file.empty() || !settings.trace_directory.empty())
      node->reporter = std::make_unique<detail::Reporter>(settings, rank_, size_);
    if (!settings.hash_log_directory.empty())
      node->hash_log = std::make_shared<detail::HashLog>(settings.hash_log_directory, rank_, size_);
  } catch (const Error& own) {
    error.set(own);
  }
  auto job = std::make_shared<detail::Job>();
  // MPI_Comm_split_type has no nonblocking form in MPI-3.1, so this timer bounds the call. The timeout of
  // wait_for_all_ranks is shorter.
  const detail::AbortTimer timer(
      settings.fail_after + std::chrono::seconds(1),
      fmt::format("Environment: timed out after {} s in MPI_Comm_split_type", detail::seconds(settings.fail_after)));
  job->comm = wait_for_all_ranks(settings);
  node->all_initialized_mpi = agree_on_start(error, initialized_mpi_, job->comm.get(), rank_, size_);
  if (size_ == 1 && !settings.allow_singleton) {
    const std::string suspicion = detail::launcher_mismatch(mpi::library_version());
    if (!suspicion.empty()) {
      job.reset();
      if (initialized_mpi_) MPI_Finalize();
      exists = false;
      detail::throw_error(Code::failed_precondition, "Environment: {}", suspicion);
    }
  }
  if (size_ > 1) {
    node->find_node(*job, rank_);
  } else {
    job->nodes.leaders = {0};
  }
  detail::set_job(std::move(job));
  detail::set_record_rank(rank_, size_);
  if (settings.recorder_entries > 0 && !settings.recorder_directory.empty() && node->local_rank == 0)
    detail::prepare_record_directory(settings.recorder_directory);
  settings.recorder_entries > 0 ? node->quit_signal.start() : node->quit_signal.stop();
  if (node->reporter != nullptr) node->reporter->start();
  detail::set_hash_log(node->hash_log);
  node->trace_directory = settings.trace_directory;
  node->finalize = {settings.warn_after, options.finalize_after.value_or(settings.fail_after)};
  if (node->count > 1) detail::note_other_nodes();
  node_ = std::move(node);
  if (rank_ == 0) detail::report_unknown_variables();
}

Environment::~Environment() {
  if (detail::fork_depth() != fork_depth_) return;  // in a forked child: only the parent finalizes MPI
  exists = false;
  node_->reporter.reset();  // closes the file of the trace before the last barrier
  detail::set_hash_log(nullptr);
  if (std::uncaught_exceptions() > exceptions_) {
    detail::log_warning("Environment is destroyed by an exception; aborting the job in 2 s");
    detail::tell_members("an exception has destroyed its Environment");
    detail::abort_job_soon(exit_code::failure);
    return;
  }
  if (!mpi::is_active()) return;
  const std::shared_ptr<detail::Job> job = detail::job_of_this_process();
  {
    const detail::MutexLock lock(job->mutex);
    node_->finalize.is_absent = job->attachment == nullptr;
  }
  detail::set_job(nullptr);
  if (!initialized_mpi_) return;
  // if a rank has exceeded the deadline of a communicator, this rank does not wait much longer than that deadline
  constexpr std::chrono::milliseconds least(5000);
  if (const auto known = detail::shortest_deadline())
    node_->finalize.fail_after = std::min(node_->finalize.fail_after, std::max(*known, least));
  node_->finalize.warn_after = std::min(node_->finalize.warn_after, node_->finalize.fail_after);
  mpi::Comm comm = std::move(job->comm);
  if (!node_->all_initialized_mpi) comm = {};
  detail::finalize_within_deadline(std::move(comm), node_->watches, node_->finalize);
  // all ranks have closed their files
  if (rank_ == 0 && node_->all_initialized_mpi && !node_->trace_directory.empty())
    detail::merge_trace_of_this_job(node_->trace_directory, size_);
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
