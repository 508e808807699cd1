// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "doctor/job.hpp"

#include "base/json_reader.hpp"
#include "doctor/host_facts.hpp"
#include "doctor/measure.hpp"
#include "doctor/messages.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/cluster/build_info.hpp>
#include <lockstep/cluster/environment.hpp>
#include <lockstep/cluster/environment_variables.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/device/arena.hpp>
#include <lockstep/device/gpu.hpp>

#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace doctor {
namespace {

using lockstep::detail::read_json;

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::string library_path() {
  Dl_info info{};
  auto* const function = reinterpret_cast<void*>(&lockstep::arena_status);
  if (dladdr(function, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(info.dli_fname, error);
  return error ? info.dli_fname : path.string();
}

void read_library(RankFacts& facts) {
  facts.library = library_path();
  facts.library_hash = hash_of_file(facts.library);
  for (const std::string_view name : lockstep::environment_variables()) facts.library_variables.emplace_back(name);
  static_cast<void>(lockstep::arena_memory_resource());
  const lockstep::ArenaStatus arena = lockstep::arena_status();
  facts.has_arena = arena.is_available;
  facts.arena = arena.text;
  facts.gpus.status = lockstep::gpu_status();
  facts.gpus.usable = lockstep::gpu_count();
}

/// The word after "MPICH Device:" in MPI's text about itself; empty if there is none.
std::string device_of_mpich() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string_view rest(text.data(), static_cast<std::size_t>(length));
  constexpr std::string_view title = "MPICH Device:";
  const std::size_t at = rest.find(title);
  if (at == std::string_view::npos) return {};
  rest.remove_prefix(at + title.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  return std::string(rest.substr(0, rest.find_first_of(" \t\n")));
}

void read_mpi(RankFacts& facts, int level) {
  MPI_Comm_rank(MPI_COMM_WORLD, &facts.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &facts.size);
  facts.has_mpi = true;
  facts.thread_level = level == MPI_THREAD_MULTIPLE     ? "multiple"
                       : level == MPI_THREAD_SERIALIZED ? "serialized"
                       : level == MPI_THREAD_FUNNELED   ? "funneled"
                                                        : "single";
  facts.mpi_version = lockstep::build_info().mpi_version;
  facts.mpi_device = device_of_mpich();
}

/// The lowest rank that shares memory with this one. Blocks; the parent process bounds it.
int find_node(const RankFacts& facts) {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, facts.rank, MPI_INFO_NULL, &node);
  int lowest = facts.rank;
  MPI_Bcast(&lowest, 1, MPI_INT, 0, node);
  MPI_Comm_free(&node);
  return lowest;
}

/// One rank's part of the job; the commands of rank 0 are {"do": NAME, ...}.
class Rank {
 public:
  Rank(RankFacts facts, const JobOptions& options, const Progress& progress)
      : facts_(std::move(facts)), options_(options), progress_(progress) {}

  /// Ranks other than 0: sends the facts, and obeys until the end.
  void serve() {
    messages_.send(0, nlohmann::json(facts_).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    for (;;) {
      const auto text = messages_.receive(0, after(options_.start_seconds + options_.seconds + 20));
      if (!text) return;
      const auto document = read_json(*text);
      const nlohmann::json& command = *document;
      const std::string what = command.at("do");
      if (what == "end") return;
      if (what == "clock") answer_clock();
      if (what == "compute") messages_.send(0, nlohmann::json(compute_ms()).dump());
      if (what == "world") make_world();
      if (what == "link") obey_link(command);
      if (what == "reduce") obey_reduce(command);
    }
  }

  /// Rank 0.
  JobFacts lead() {
    JobFacts job;
    job.size = facts_.size;
    progress_.begin("the collection of facts", options_.start_seconds + 10);
    collect(job);
    if (facts_.size == 1) {
      job.not_measured = "there is one rank";
    } else if (!job.missing.empty()) {
      job.not_measured = "since ranks do not answer";
    } else {
      progress_.begin("the measurement of clocks and processors", options_.start_seconds + 10);
      compare_clocks(job);
      compare_processors(job);
      measure(job);
    }
    for (int rank = 1; rank < facts_.size; ++rank) command(rank, {{"do", "end"}});
    return job;
  }

 private:
  void command(int rank, const nlohmann::json& text) { messages_.send(rank, text.dump()); }
  void command_all(const nlohmann::json& text) {
    for (int rank = 1; rank < facts_.size; ++rank) command(rank, text);
  }

  void collect(JobFacts& job) {
    job.ranks.push_back(facts_);
    const auto deadline = after(options_.start_seconds);
    for (int rank = 1; rank < facts_.size; ++rank) {
      const auto text = messages_.receive(rank, deadline);
      if (text) {
        job.ranks.push_back(read_json(*text)->get<RankFacts>());
      } else {
        job.missing.push_back(rank);
      }
    }
  }

  /// One rank of each node is asked, and stands for the others there.
  void compare_clocks(JobFacts& job) {
    for (RankFacts& each : job.ranks) {
      const RankFacts& leader = job.ranks[static_cast<std::size_t>(each.node)];
      if (each.node == 0) {
        each.clock_error_s = 0;
      } else if (each.rank == each.node) {
        command(each.rank, {{"do", "clock"}});
        measure_clock(each.rank, each);
      } else {
        each.clock_error_s = leader.clock_error_s;
        each.clock_offset_s = leader.clock_offset_s;
      }
    }
  }

  void compare_processors(JobFacts& job) {
    command_all({{"do", "compute"}});
    job.ranks.front().compute_ms = compute_ms();
    const auto deadline = after(std::min(20.0, options_.start_seconds));
    for (int rank = 1; rank < facts_.size; ++rank) {
      const auto text = messages_.receive(rank, deadline);
      if (text) {
        job.ranks[static_cast<std::size_t>(rank)].compute_ms = read_json(*text)->get<double>();
      } else {
        job.missing.push_back(rank);
      }
    }
  }

  void make_world() {
    try {
      world_ = lockstep::world_communicator(communicator_options());
    } catch (const std::exception& error) {
      world_error_ = error.what();
    }
  }

  void measure(JobFacts& job) {
    if (options_.is_quick || !job.missing.empty() || !facts_.environment_error.empty()) {
      job.not_measured = options_.is_quick ? "because of --quick" : "because of the errors above";
      return;
    }
    progress_.begin("the measurement of links", options_.start_seconds + options_.seconds + 30);
    command_all({{"do", "world"}});
    make_world();
    if (world_ && world_->nodes() > 1) {
      job.transport = world_->transport();
      if (const auto reason = world_->transport_reason(); !reason.empty())
        job.transport += " (" + std::string(reason) + ")";
    }
    constexpr double least_seconds = 0.1;
    job.links = choose_links(job.ranks, static_cast<std::size_t>(std::max(1.0, options_.seconds / least_seconds)));
    const double seconds = std::min(1.0, options_.seconds / static_cast<double>(job.links.size()));
    const auto deadline = after(options_.seconds + 15);
    for (std::size_t i = 0; i < job.links.size(); ++i) {
      measure_one(job.links[i], seconds);
      if (job.links[i].error.empty() && Clock::now() < deadline) continue;
      job.links.resize(i + 1);  // the ranks of a broken link no longer follow the commands of rank 0
      return;
    }
  }

  /// First messages between the two ranks alone, then an all_reduce, for which all ranks split the world.
  void measure_one(Link& link, double seconds) {
    nlohmann::json order{{"do", "link"}, {"link", link}, {"seconds", seconds / 2}};
    for (const int rank : {link.first, link.second}) {
      if (rank != 0) command(rank, order);
    }
    if (link.first == 0) {
      measure_link(link, 0, seconds / 2);
    } else {
      take_result(link, seconds);
    }
    if (!link.error.empty()) return;
    order = {{"do", "reduce"}, {"link", link}, {"seconds", seconds / 2}};
    command_all(order);
    reduce(link, seconds / 2);
    if (link.first != 0 && link.error.empty()) take_result(link, seconds);
  }

  void take_result(Link& link, double seconds) {
    const auto text = messages_.receive(link.first, after(seconds + 12));
    if (text) {
      link = read_json(*text)->get<Link>();
    } else {
      link.error = "no answer from rank " + std::to_string(link.first) + " within the deadline";
    }
  }

  void obey_link(const nlohmann::json& order) {
    Link link = order.at("link").get<Link>();
    measure_link(link, facts_.rank, order.at("seconds"));
    if (facts_.rank == link.first) messages_.send(0, nlohmann::json(link).dump());
  }

  void obey_reduce(const nlohmann::json& order) {
    Link link = order.at("link").get<Link>();
    reduce(link, order.at("seconds"));
    if (facts_.rank == link.first) messages_.send(0, nlohmann::json(link).dump());
  }

  void reduce(Link& link, double seconds) {
    try {
      if (!world_) throw std::runtime_error("lockstep::world_communicator: " + world_error_);
      const bool is_member = facts_.rank == link.first || facts_.rank == link.second;
      const auto pair = world_->split(is_member ? 0 : -1, facts_.rank, communicator_options());
      if (pair) link.all_reduce_us = all_reduce_us(*pair, seconds);
    } catch (const std::exception& error) {
      link.error = error.what();
    }
  }

  static lockstep::CommunicatorOptions communicator_options() {
    lockstep::CommunicatorOptions options;
    options.warn_after = std::chrono::seconds(5);
    options.fail_after = std::chrono::seconds(5);
    options.name = "lockstep-doctor";
    return options;
  }

  RankFacts facts_;
  const JobOptions& options_;
  const Progress& progress_;
  Messages messages_;
  std::optional<lockstep::Communicator> world_;
  std::string world_error_;
};

/// Creates the Environment as every program does, with a shorter timeout than the default.
std::unique_ptr<lockstep::Environment> start_environment(double seconds, std::string& error) {
  setenv("LOCKSTEP_TIMEOUT", std::to_string(seconds).c_str(), 0);
  try {
    return std::make_unique<lockstep::Environment>();
  } catch (const std::exception& failure) {
    error = failure.what();
    return nullptr;
  }
}

}  // namespace

void run_job(const JobOptions& options, const Progress& progress, const std::function<int(const JobFacts&)>& report) {
  RankFacts facts = host_facts();
  progress.begin("MPI_Init_thread", options.start_seconds);
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  read_mpi(facts, level);
  progress.begin("lockstep::Environment", options.start_seconds + 5);
  const auto environment = start_environment(options.start_seconds, facts.environment_error);
  progress.begin("MPI_Comm_split_type", options.start_seconds);
  facts.node = find_node(facts);
  progress.begin("the look at memory and GPUs", options.start_seconds);
  read_library(facts);
  int code = 0;
  {
    progress.begin("the work for rank 0", 2 * options.start_seconds + options.seconds + 60);
    Rank rank(facts, options, progress);
    if (facts.rank == 0) {
      const JobFacts job = rank.lead();
      code = report(job);
      progress.done(code);
      if (!job.missing.empty()) std::_Exit(code);  // MPI_Finalize would wait for them
    } else {
      rank.serve();
      progress.done(0);
    }
  }
  MPI_Finalize();
}

}  // namespace doctor
