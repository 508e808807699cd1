// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/rank_state.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/phrases.hpp"
#include "bindings/mpi/mpi.hpp"
#include "bindings/mpi/pending.hpp"
#include "bindings/nccl/nccl.hpp"
#include "cluster/end_of_job.hpp"
#include "cluster/flight_record.hpp"
#include "cluster/library_copies.hpp"
#include "cluster/settings.hpp"
#include "cluster/trace_merge.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/base/exit_code.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <utility>

namespace lockstep::detail {
namespace {

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
mpi::Comm wait_for_all_ranks(const Settings& settings) {
  mpi::PendingDuplicate duplicate(MPI_COMM_WORLD);
  await_all_ranks([&] { return duplicate.test(); }, settings, environment_operation);
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
  throw Error(first.code, is_on_all ? first.text.data() : fmt::format("rank {}: {}", failed[0], first.text.data()),
              {is_on_all ? -1 : failed[0], -1, environment_operation, -1});
}

}  // namespace

void set_nccl_library(const std::string& file) {
  if (nccl::name_library(file)) return;
  throw_error(Code::failed_precondition,
              "EnvironmentOptions::nccl_library is \"{}\", but NCCL has already been loaded; create the Environment "
              "before the first use of a GPU",
              file);
}

RankState::RankState(std::unique_ptr<BeforeMpi> before, bool initialized_mpi, const EnvironmentOptions& options)
    : before_(std::move(before)), initialized_mpi_(initialized_mpi), processors_{before_->processors} {
  mpi::check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  mpi::check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  set_log_rank(rank_);
  install_terminate_handler(rank_);
  start(options);
}

void RankState::start(const EnvironmentOptions& options) {
  Settings settings;
  StartError error;
  try {
    check_for_one_copy("Environment");
    settings = settings_from_environment();
    if (!options.nccl_library.empty()) set_nccl_library(options.nccl_library);
    files_ = OperationFiles::of_this_process(settings, rank_, size_);
  } catch (const Error& own) {
    error.set(own);
  }
  auto job = std::make_shared<Job>();
  // MPI_Comm_split_type has no nonblocking form in MPI-3.1, so this timer bounds the call. The timeout of
  // wait_for_all_ranks is shorter.
  const AbortTimer timer(
      settings.fail_after + std::chrono::seconds(1),
      fmt::format("Environment: timed out after {} s in MPI_Comm_split_type", seconds(settings.fail_after)));
  job->comm = wait_for_all_ranks(settings);
  all_initialized_mpi_ = agree_on_start(error, initialized_mpi_, job->comm.get(), rank_, size_);
  if (size_ == 1 && !settings.allow_singleton) {
    const std::string suspicion = launcher_mismatch(mpi::library_version());
    if (!suspicion.empty()) {
      job.reset();
      if (initialized_mpi_) MPI_Finalize();
      throw_error(Code::failed_precondition, "Environment: {}", suspicion);
    }
  }
  if (size_ > 1) {
    find_node(*job);
  } else {
    job->nodes.leaders = {0};
  }
  set_job(std::move(job));
  set_record_rank(rank_, size_);
  if (settings.recorder_entries > 0 && !settings.recorder_directory.empty() && local_rank_ == 0)
    prepare_record_directory(settings.recorder_directory);
  settings.recorder_entries > 0 ? before_->quit_signal.start() : before_->quit_signal.stop();
  if (files_ != nullptr) files_->start();
  // the program may create another Environment, or communicators without one, which then continue these files
  if (!initialized_mpi_) OperationFiles::keep_until_finalize(files_);
  trace_directory_ = settings.trace_directory;
  finalize_ = {settings.warn_after, options.finalize_after.value_or(settings.fail_after)};
  if (nodes_ > 1) note_other_nodes();
  if (rank_ == 0) report_unknown_variables();
}

/// Finds the nodes of `job`, and the ranks of this node. Collective over all ranks of `job`; all ranks have passed
/// wait_for_all_ranks.
void RankState::find_node(Job& job) {
  job.nodes = mpi::find_nodes(job.comm.get());
  const int leader = job.nodes.leaders[static_cast<std::size_t>(rank_)];
  const mpi::Comm here = mpi::Comm::split_of(job.comm.get(), leader, rank_);
  nodes_ = job.nodes.count;
  local_rank_ = here.rank();
  const ProcessorSet own = processors_.front();
  processors_.resize(static_cast<std::size_t>(job.nodes.ranks_here));
  watch_processes(job, leader, here.get());
  // No rank leaves this call, and so none can end, before every rank of the node watches it.
  constexpr int bytes = sizeof(ProcessorSet);
  mpi::check(mpi::collectives().allgather(&own, bytes, MPI_BYTE, processors_.data(), bytes, MPI_BYTE, here.get()),
             "MPI_Allgather");
}

void RankState::watch_processes(Job& job, int leader, MPI_Comm here) {
  job.processes.resize(processors_.size());
  const ProcessId own = id_of_this_process();
  constexpr int bytes = sizeof(ProcessId);
  mpi::check(mpi::collectives().allgather(&own, bytes, MPI_BYTE, job.processes.data(), bytes, MPI_BYTE, here),
             "MPI_Allgather");
  watches_.resize(job.nodes.leaders.size());
  auto next = job.processes.begin();
  for (std::size_t rank = 0; rank < watches_.size(); ++rank) {
    if (job.nodes.leaders[rank] != leader) continue;
    if (*next != own) watches_[rank] = ProcessWatch::of(*next);
    ++next;
  }
}

void RankState::end(bool by_exception) {
  end_job(by_exception);
  before_->quit_signal.stop();
}

void RankState::end_job(bool by_exception) {
  files_.reset();  // closes the file of the trace before the last barrier
  if (by_exception) {
    log_warning("Environment is destroyed by an exception; aborting the job in 2 s");
    tell_members("an exception has destroyed its Environment");
    abort_job_soon(exit_code::failure);
    return;
  }
  if (!mpi::is_active()) return;
  const std::shared_ptr<Job> job = job_of_this_process();
  {
    const MutexLock lock(job->mutex);
    finalize_.is_absent = job->attachment == nullptr;
  }
  set_job(nullptr);
  if (!initialized_mpi_) return;
  // if a rank has exceeded the deadline of a communicator, this rank does not wait much longer than that deadline
  constexpr std::chrono::milliseconds least(5000);
  if (const auto known = shortest_deadline())
    finalize_.fail_after = std::min(finalize_.fail_after, std::max(*known, least));
  finalize_.warn_after = std::min(finalize_.warn_after, finalize_.fail_after);
  finalize_within_deadline(all_initialized_mpi_ ? &job->comm : nullptr, watches_, finalize_);
  // MPI_Finalize has freed it, but not before communicators that still existed had ended: they receive on it
  static_cast<void>(job->comm.release());
  // all ranks have closed their files
  if (rank_ == 0 && all_initialized_mpi_ && !trace_directory_.empty()) merge_trace_of_this_job(trace_directory_, size_);
}

}  // namespace lockstep::detail
