// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
//   fault-soak SECONDS FOLDER SEED [KILL_SECONDS]
//
// Random operations, sizes, communicators, strategies, checkpoints and faults for some time. Every few seconds all
// communicators are destroyed, and each rank appends to FOLDER/samples.RANK: seconds since the start, KiB of private
// and of shared memory, file descriptors, threads, operations, errors and sent messages so far, KiB of the arena that
// are allocated and that have been. Ranks draw the same random numbers. After KILL_SECONDS the last rank kills itself,
// at a random moment; the next job resumes from its checkpoint.

#include "report.hpp"
#include "work.hpp"

#include <lockstep/lockstep.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace faults {
namespace {

namespace fs = std::filesystem;
using lockstep::ReduceOp;

constexpr double sample_seconds = 3;
constexpr double warm_up_seconds = 60;  // as in soak_test.py, which needs so many samples after it
constexpr int least_samples = 10;
constexpr auto short_deadline = std::chrono::milliseconds(200);
constexpr auto late = std::chrono::milliseconds(500);
constexpr int most_communicators = 4;

/// A number of /proc/self/status, such as that of "RssAnon:".
long status_of(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    if (word != name) continue;
    long number = 0;
    file >> number;
    return number;
  }
  return 0;
}

long open_files() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()) - 1;  // without its own
}

class Soak {
 public:
  Soak(double seconds, fs::path folder, unsigned seed, const lockstep::Environment& environment)
      : begin_(now()),
        seconds_(seconds),
        folder_(std::move(folder)),
        random_(seed),
        rank_(environment.rank()),
        ranks_(environment.size()),
        base_(lockstep::world_communicator({.name = "base"})) {}

  void run() {
    resume();
    for (double next_sample = sample_seconds; !is_over();) {
      for (int i = 0; i < 20; ++i) act();
      // rank 0's clock decides for all
      if (base_.all_reduce(rank_ == 0 && now() - begin_ > next_sample ? 1 : 0, ReduceOp::max) == 0) continue;
      next_sample += sample_seconds;
      communicators_.clear();
      strategy_.reset();
      base_.barrier();
      sample();
      resume();
    }
  }

 private:
  [[nodiscard]] bool is_over() const {
    const bool has_enough = now() - begin_ > seconds_ && (seconds_ < warm_up_seconds || samples_ >= least_samples);
    return base_.all_reduce(rank_ == 0 && has_enough ? 1 : 0, ReduceOp::max) != 0;
  }
  [[nodiscard]] int draw(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }

  /// Makes a strategy with a variable, and restores it from the last checkpoint, if there is one.
  void resume() {
    strategy_.emplace();
    variable_.emplace(
        strategy_->variable(lockstep::Tensor(lockstep::DType::f32, lockstep::Shape{10'000}), {.name = "weights"}));
    lockstep::Checkpoint checkpoint(*strategy_, {.keep_last = 2});
    checkpoint.track("weights", *variable_);
    const auto step = checkpoint.restore_latest((folder_ / "checkpoints").string());
    const float expected = static_cast<float>(step.value_or(0) % 1000);
    const lockstep::Tensor weights = variable_->component(0);
    for (const float value : weights.elements<float>()) {
      if (value != expected) throw WrongResult("a restored variable has another value than the saved one");
    }
    if (step) saved_ = *step;
  }

  void act() {
    ++operations_;
    switch (draw(20)) {
      case 0: return change_communicators();
      case 1: return with_errors([&](const auto& comm) { mismatch(comm); });
      case 2: return draw(4) == 0 ? with_errors([&](const auto& comm) { be_late(comm); }) : void();
      case 3: return with_errors([&](const auto& comm) { abort(comm); });
      case 4: return with_errors([&](const auto& comm) { invalid(comm); });
      case 5: return step_that_throws();
      case 6: return draw(4) == 0 ? save() : void();
      case 7: return with_errors([&](const auto& comm) { message_of_another_size(comm); });
      case 8:
      case 9:
      case 10:
      case 11: return messages();
      default: return operation();
    }
  }

  void change_communicators() {
    if (communicators_.size() == most_communicators || (!communicators_.empty() && draw(2) == 0)) {
      communicators_.erase(communicators_.begin() + draw(static_cast<int>(communicators_.size())));
    } else if (draw(2) == 0) {
      communicators_.push_back(base_.duplicate({.name = "duplicate"}));
    } else {
      communicators_.push_back(*base_.split(0, rank_, {.name = "split"}));
    }
  }

  [[nodiscard]] const lockstep::Communicator& any_communicator() {
    if (communicators_.empty()) return base_;
    return communicators_[static_cast<std::size_t>(draw(static_cast<int>(communicators_.size())))];
  }

  [[nodiscard]] WorkShape any_shape() {
    const int magnitude = draw(20);
    return {.elements = 1 + draw(1 << magnitude), .tensors = 1 + draw(3), .in_arena = draw(2) == 0};
  }

  void operation() {
    const lockstep::Communicator& comm = any_communicator();
    const int k = draw(50);
    Work work(any_shape(), value_of(rank_, k));
    switch (draw(4)) {
      case 0: comm.all_reduce_async(work.items(), ReduceOp::sum).wait(); break;
      case 1: {
        std::vector<float> all(static_cast<std::size_t>(work.views()[0].element_count() * ranks_));
        comm.all_gather(work.views()[0], all);
        if (all.back() != static_cast<float>(value_of(ranks_ - 1, k))) throw WrongResult("all_gather");
        return;
      }
      case 2:
        strategy_->run([&](lockstep::ReplicaContext& replica) { replica.all_reduce(ReduceOp::sum, work.views()); });
        break;
      default: comm.all_reduce(work.items(), ReduceOp::sum);
    }
    work.check(sum_of(ranks_, k), "sum");
  }

  /// Each rank sends messages to the next one and receives as many from the one before it, all in flight at once.
  void messages() {
    const lockstep::Communicator& comm = any_communicator();
    const int next = (rank_ + 1) % ranks_;
    const int before = (rank_ + ranks_ - 1) % ranks_;
    const auto count = static_cast<std::size_t>(1 << draw(9));
    const auto elements = static_cast<std::size_t>(1 + draw(1 << draw(17))) / count + 1;
    const float k = static_cast<float>(draw(50));
    const bool is_in_arena = draw(2) == 0;
    std::vector<float> ordinary(is_in_arena ? 0 : 2 * count * elements, -1.0F);
    std::vector<float, lockstep::ArenaAllocator<float>> shared(is_in_arena ? 2 * count * elements : 0, -1.0F);
    const std::span<float> sent(is_in_arena ? shared.data() : ordinary.data(), count * elements);
    const std::span<float> received(sent.data() + sent.size(), sent.size());
    std::fill(sent.begin(), sent.end(), static_cast<float>(rank_) + k);
    std::vector<lockstep::Request> requests;
    for (std::size_t i = 0; i < count; ++i) {
      requests.push_back(comm.send_async(std::span<const float>(sent).subspan(i * elements, elements), next));
      requests.push_back(comm.recv_async(received.subspan(i * elements, elements), before));
    }
    for (lockstep::Request& request : requests) request.wait();
    messages_ += static_cast<long>(count);
    for (const float value : received)
      if (value != static_cast<float>(before) + k) throw WrongResult("a message");
  }

  /// Calls `fault` on some communicator; after its error the communicator must work.
  template <class Fault>
  void with_errors(const Fault& fault) {
    const lockstep::Communicator& comm = any_communicator();
    try {
      fault(comm);
    } catch (const lockstep::Error&) {
      ++errors_;
    }
    recover(comm);
  }

  void recover(const lockstep::Communicator& comm) {
    for (int attempt = 0;; ++attempt) {
      try {
        (void)comm.recover();
        if (comm.all_reduce(1, ReduceOp::sum, {.name = "recover"}) != ranks_) throw WrongResult("recover");
        return;
      } catch (const lockstep::Error& error) {
        ++errors_;
        if (attempt == 20) throw;
      }
    }
  }

  void mismatch(const lockstep::Communicator& comm) {
    const bool differs = draw(ranks_) == rank_;
    Work work(WorkShape{.elements = differs ? 101 : 100}, 1);
    comm.all_reduce(work.items(), ReduceOp::sum);
  }
  /// One message to rank 0 does not fit; the others of these ranks do.
  void message_of_another_size(const lockstep::Communicator& comm) {
    std::vector<float> values(100);
    const int wrong = 1 + draw(ranks_ - 1);
    for (int sender = 1; sender < ranks_; ++sender) {
      try {
        if (rank_ == sender) comm.send(std::span<const float>(values).first(sender == wrong ? 99 : 100), 0);
        if (rank_ == 0) comm.recv(std::span(values), sender);
        if (sender == wrong && (rank_ == sender || rank_ == 0)) throw WrongResult("a message of another size");
      } catch (const lockstep::Error&) {
        if (sender != wrong) throw WrongResult("a message that fits");
        ++errors_;
      }
    }
  }
  void be_late(const lockstep::Communicator& comm) {
    if (draw(ranks_) == rank_) std::this_thread::sleep_for(late);
    Work work(WorkShape{}, 1);
    comm.all_reduce(work.items(), ReduceOp::sum, {.fail_after = short_deadline});
  }
  void abort(const lockstep::Communicator& comm) {
    if (draw(ranks_) == rank_) comm.abort("a reason");
    Work work(WorkShape{}, 1);
    comm.all_reduce(work.items(), ReduceOp::sum);
  }
  void invalid(const lockstep::Communicator& comm) {
    Work work(WorkShape{}, 1);
    comm.reduce(work.items(), ReduceOp::sum, draw(ranks_) == rank_ ? -1 : 0);
  }

  void step_that_throws() {
    const bool throws = draw(ranks_) == rank_;
    const bool in_merge = draw(2) == 0;
    try {
      strategy_->run([&](lockstep::ReplicaContext& replica) {
        if (throws && !in_merge) throw Boom();
        replica.merge_call([&](lockstep::Strategy&) {
          if (throws) throw Boom();
        });
        Work work(WorkShape{}, 1);
        replica.all_reduce(ReduceOp::sum, work.views());
      });
    } catch (const Boom&) {
      ++errors_;
    } catch (const lockstep::Error&) {
      ++errors_;
    }
    recover(strategy_->communicator());
  }

  void save() {
    ++saved_;
    strategy_->run([&](lockstep::ReplicaContext& replica) {
      replica.update(*variable_, [&](const lockstep::Variable& variable) {
        const lockstep::TensorView view = variable.updatable_component();
        float* values = static_cast<float*>(view.data);
        std::fill(values, values + view.element_count(), static_cast<float>(saved_ % 1000));
      });
    });
    lockstep::Checkpoint checkpoint(*strategy_, {.keep_last = 2, .parallel_bytes = draw(2) == 0 ? 0U : 64U << 20U});
    checkpoint.track("weights", *variable_);
    checkpoint.save((folder_ / "checkpoints").string(), saved_);
  }

  void sample() {
    if (now() - begin_ >= warm_up_seconds) ++samples_;
    const lockstep::ArenaStatus arena = lockstep::arena_status();
    std::ofstream(folder_ / ("samples." + std::to_string(rank_)), std::ios::app)
        << now() - begin_ << ' ' << status_of("RssAnon:") << ' ' << status_of("RssShmem:") << ' ' << open_files() << ' '
        << status_of("Threads:") << ' ' << operations_ << ' ' << errors_ << ' ' << messages_ << ' '
        << arena.used_bytes / 1024 << ' ' << arena.populated_bytes / 1024 << '\n';
  }

  double begin_;
  double seconds_;
  fs::path folder_;
  std::mt19937 random_;
  int rank_;
  int ranks_;
  lockstep::Communicator base_;
  std::vector<lockstep::Communicator> communicators_;
  std::optional<lockstep::MultiWorkerMirroredStrategy> strategy_;
  std::optional<lockstep::Variable> variable_;
  std::int64_t saved_ = 0;
  int samples_ = 0;  // after the warm-up
  long operations_ = 0;
  long errors_ = 0;
  long messages_ = 0;
};

}  // namespace
}  // namespace faults

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const lockstep::Environment environment(argc, argv);
  std::jthread killer;
  if (argc > 4 && environment.rank() == environment.size() - 1) {
    killer = std::jthread([seconds = std::stod(argv[4])] {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      kill(getpid(), SIGKILL);
    });
  }
  faults::Soak(std::stod(argv[1]), argv[2], static_cast<unsigned>(std::stoul(argv[3])), environment).run();
  return 0;
}
