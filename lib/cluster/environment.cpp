// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/cluster/environment.hpp>

#include "base/check.hpp"
#include "base/fork.hpp"
#include "base/never_destroyed.hpp"
#include "base/phrases.hpp"
#include "bindings/mpi/mpi.hpp"
#include "cluster/rank_state.hpp"
#include "kernels/target.hpp"

#include <lockstep/base/error.hpp>

#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {
namespace {

namespace mpi = detail::mpi;

/// Ignores SIGXFSZ, so that a write beyond the limit on file sizes (ulimit -f) fails with an error that names the file.
void ignore_file_size_signal() noexcept {
  struct sigaction now{};
  if (::sigaction(SIGXFSZ, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) ::signal(SIGXFSZ, SIG_IGN);
}

std::string text_of(const std::source_location& place) { return fmt::format("{}:{}", place.file_name(), place.line()); }

/// An option that all Environments of the process share, and where it was set.
template <class Value>
class SharedOption {
 public:
  /// Whether `value`, with which an Environment is created at `place`, sets the option: no earlier one did. Throws
  /// Error(failed_precondition) if an earlier Environment set another value. `text` prints a value.
  template <class Text>
  bool is_set_by(const std::optional<Value>& value, std::string_view name, const std::string& place, const Text& text) {
    if (!value || value == value_) return false;
    if (value_) {
      detail::throw_error(
          Code::failed_precondition,
          "Environment: EnvironmentOptions::{} is {} at {}, but an earlier Environment of this process set "
          "it to {} at {}; all of a process share the options",
          name, text(*value), place, text(*value_), place_);
    }
    value_ = value;
    place_ = place;
    return true;
  }

 private:
  std::optional<Value> value_;
  std::string place_;
};

/// The Environments of this process.
class Environments {
 public:
  static Environments& all() {
    static detail::NeverDestroyed<Environments> result;  // static objects may be Environments
    return *result;
  }

  /// Adds one. The first initializes MPI, unless it is initialized, and makes the state. `finalizes` becomes true if
  /// the state may end with this one although there are others that do not delay it.
  std::shared_ptr<detail::RankState> add(int* argc, char*** argv, const EnvironmentOptions& options,
                                         const std::string& place, bool& finalizes) {
    const std::scoped_lock lock(mutex_);
    if (mpi::is_finalized()) {
      detail::throw_error(Code::failed_precondition,
                          "Environment: MPI has been finalized and cannot be initialized again");
    }
    if (state_ != nullptr && fork_depth_ != detail::fork_depth()) {
      detail::throw_error(Code::failed_precondition,
                          "Environment: this process is a child, by fork(), of a process that has an Environment");
    }
    const bool has_initialized = initialize_mpi(argc, argv);
    if (state_ == nullptr) create(options);
    share_options(options, place);
    ++(options.delays_finalize ? delaying_ : others_);
    finalizes = state_->initialized_mpi() && (options.delays_finalize || has_initialized);
    return state_;
  }

  void remove(const std::shared_ptr<detail::RankState>& state, bool delays_finalize, bool finalizes,
              bool by_exception) {
    const std::scoped_lock lock(mutex_);
    if (state_ != state) return;  // the state has ended before this Environment, which did not delay that
    --(delays_finalize ? delaying_ : others_);
    if (delaying_ > 0 || (others_ > 0 && !finalizes && !by_exception)) return;
    state_.reset();
    others_ = 0;
    finalize_after_ = {};
    nccl_library_ = {};
    state->end(by_exception);
  }

 private:
  /// Returns whether this call initialized MPI. Meanwhile a library that takes the place of MPI may add an Environment,
  /// from this thread.
  bool initialize_mpi(int* argc, char*** argv) {
    if (mpi::is_initialized()) return false;
    before_ = std::make_unique<detail::BeforeMpi>();
    initialized_mpi_ = true;
    int level = MPI_THREAD_SINGLE;
    const int code = MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level);
    if (code != MPI_SUCCESS) initialized_mpi_ = false;
    mpi::check(code, "MPI_Init_thread");
    return true;
  }
  void create(const EnvironmentOptions& options) {
    auto before = std::exchange(before_, nullptr);
    if (before == nullptr) before = std::make_unique<detail::BeforeMpi>();
    state_ = std::make_shared<detail::RankState>(std::move(before), initialized_mpi_, options);
    fork_depth_ = detail::fork_depth();
  }
  /// Checks all options before one is taken.
  void share_options(const EnvironmentOptions& options, const std::string& place) {
    const std::optional<std::string> library =
        options.nccl_library.empty() ? std::nullopt : std::optional(options.nccl_library);
    auto finalize_after = finalize_after_;
    auto nccl_library = nccl_library_;
    const bool sets_limit = finalize_after.is_set_by(options.finalize_after, "finalize_after", place, [](auto time) {
      return fmt::format("{} s", detail::seconds(time));
    });
    const bool sets_library = nccl_library.is_set_by(library, "nccl_library", place,
                                                     [](const auto& file) { return fmt::format("\"{}\"", file); });
    if (sets_library) detail::set_nccl_library(*library);
    if (sets_limit) state_->set_finalize_after(*options.finalize_after);
    finalize_after_ = std::move(finalize_after);
    nccl_library_ = std::move(nccl_library);
  }

  // Recursive, because MPI_Init and MPI_Finalize may call a library that adds or removes an Environment of its own.
  std::recursive_mutex mutex_;
  std::unique_ptr<detail::BeforeMpi> before_;  // null if it belongs to a state
  bool initialized_mpi_ = false;
  std::shared_ptr<detail::RankState> state_;  // null if there is no Environment
  std::uint32_t fork_depth_ = 0;              // of the process that has made it
  int delaying_ = 0;                          // number of Environments that delay MPI_Finalize
  int others_ = 0;                            // number of those that do not
  SharedOption<std::chrono::milliseconds> finalize_after_;
  SharedOption<std::string> nccl_library_;
};

}  // namespace

Environment::Environment(int& argc, char**& argv, const EnvironmentOptions& options, const std::source_location& place)
    : Environment(&argc, &argv, options, place) {}
Environment::Environment(const EnvironmentOptions& options, const std::source_location& place)
    : Environment(nullptr, nullptr, options, place) {}

Environment::Environment(int* argc, char*** argv, const EnvironmentOptions& options, const std::source_location& place)
    : exceptions_(std::uncaught_exceptions()),
      fork_depth_(detail::fork_depth()),
      delays_finalize_(options.delays_finalize) {
  ignore_file_size_signal();
  state_ = Environments::all().add(argc, argv, options, text_of(place), finalizes_);
}

Environment::~Environment() {
  if (detail::fork_depth() != fork_depth_) return;  // in a forked child: only the parent finalizes MPI
  Environments::all().remove(state_, delays_finalize_, finalizes_, std::uncaught_exceptions() > exceptions_);
}

int Environment::rank() const noexcept { return state_->rank(); }
int Environment::size() const noexcept { return state_->size(); }
bool Environment::initialized_mpi() const noexcept { return state_->initialized_mpi(); }

std::string Environment::thread_level() const { return mpi::thread_level_name(mpi::thread_level()); }
std::string Environment::kernel_target() const { return std::string(detail::kernel_target()); }
std::string Environment::mpi_version() const { return mpi::library_version(); }

int Environment::local_rank() const noexcept { return state_->local_rank(); }
int Environment::local_size() const noexcept { return static_cast<int>(state_->processors().size()); }
int Environment::nodes() const noexcept { return state_->nodes(); }
int Environment::threads_per_rank() const { return state_->placement(detail::Topology()).threads; }

std::string Environment::describe() const {
  const detail::Topology topology;
  const auto& own = state_->processors()[static_cast<std::size_t>(local_rank())];
  return fmt::format(
      "{} rank{} on {} node{}, started by {}\n"
      "  this rank: {}, of its node {} of {} (from MPI)\n"
      "  MPI: {}, thread level {}; kernels for {}\n"
      "  host: {}\n"
      "  cores: {}\n",
      size(), size() == 1 ? "" : "s", nodes(), nodes() == 1 ? "" : "s", state_->launcher(), rank(), local_rank(),
      local_size(), mpi_version(), thread_level(), kernel_target(),
      to_string(detail::host_topology_of(topology, own, detail::device_backends())),
      detail::to_string(state_->placement(topology)));
}

}  // namespace lockstep
