// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/strategy/strategy_cost.hpp"

#include "apps/options/counted.hpp"
#include "bench/harness/statistics.hpp"

#include <lockstep/lockstep.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <utility>

namespace perf {
namespace {

using lockstep::PerReplica;
using lockstep::ReduceOp;
using lockstep::ReplicaContext;
using Clock = std::chrono::steady_clock;

/// The number of ResNet-50's gradients. Each tensor is small, so that the calls count, not the bytes.
constexpr int tensor_count = 161;
constexpr std::size_t tensor_elements = 16;
/// Calls per round; several, so that the clock is read seldom.
constexpr int calls_per_round = 50;

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

/// Rounds of `ours` and `below`, interleaved; each round makes `calls_per_round` calls and returns its time.
class Pairs {
 public:
  using Round = std::function<double()>;
  Pairs(std::int64_t rounds, const Round& ours, const Round& below) {
    for (std::int64_t k = -1; k < rounds; ++k) {
      const double our_time = ours();
      const double below_time = below ? below() : 0;
      if (k < 0) continue;  // the first round warms up
      ours_.push_back(our_time / calls_per_round);
      below_.push_back(below_time / calls_per_round);
    }
  }
  [[nodiscard]] double ours() const { return median(ours_); }
  [[nodiscard]] double below() const { return median(below_); }

 private:
  std::vector<double> ours_;
  std::vector<double> below_;
};

Pairs::Round timed(const std::function<void()>& call) {
  return [call] {
    const auto begin = Clock::now();
    for (int k = 0; k < calls_per_round; ++k) call();
    return microseconds(Clock::now() - begin);
  };
}

/// Measures the calls of the strategy layer with some replicas per rank, and the calls below them.
class StrategyBench {
 public:
  StrategyBench(const lockstep::Communicator& job, int replicas, std::int64_t rounds)
      : strategy_(job, {.devices = devices(replicas), .communication = {}}),
        below_(job.duplicate(with_replicas(job.options(), replicas))),
        replicas_(replicas),
        rounds_(rounds) {}

  void add_to(std::vector<StrategyCost>& costs) {
    costs.push_back(empty_run());
    costs.push_back(reduce_of_a_scalar());
    costs.push_back(all_reduce(1, 1));
    costs.push_back(all_reduce(tensor_count, tensor_elements));
    costs.push_back(batch_reduce());
    costs.push_back(update());
  }

 private:
  static std::vector<lockstep::Device> devices(int count) {
    std::vector<lockstep::Device> result;
    for (int i = 0; i < count; ++i) result.push_back({lockstep::DeviceKind::cpu, i});
    return result;
  }
  static lockstep::CommunicatorOptions with_replicas(lockstep::CommunicatorOptions options, int replicas) {
    options.local_replicas = replicas;
    options.name = "below the strategy";
    return options;
  }

  [[nodiscard]] StrategyCost cost(std::string call, std::string below, const Pairs& rounds, bool is_right) const {
    return {std::move(call), std::move(below), replicas_, rounds.ours(), rounds.below(), is_right};
  }
  [[nodiscard]] int first_replica() const {
    const lockstep::Communicator& communicator = strategy_.communicator();
    return communicator.layout().first(communicator.rank());
  }
  [[nodiscard]] float all_replicas() const { return static_cast<float>(strategy_.num_replicas_in_sync()); }

  StrategyCost empty_run() {
    int direct_calls = 0;
    int runs = 0;
    // a volatile pointer: the direct call is not inlined away
    void (*volatile step)(int&) = [](int& count) { ++count; };
    const Pairs rounds(rounds_, timed([&] {
                         strategy_.run([&](ReplicaContext& replica) {
                           if (replica.local_replica() == 0) step(runs);
                         });
                       }),
                       timed([&] { step(direct_calls); }));
    return cost("run of an empty function", "direct call", rounds, runs == direct_calls);
  }

  StrategyCost reduce_of_a_scalar() {
    const PerReplica<float> ones(replicas_, first_replica(), [](int) { return 1.0F; });
    float sum = 0;
    std::vector<float> inputs(static_cast<std::size_t>(replicas_), 1.0F);
    float below_sum = 0;
    const auto views = views_of(inputs);
    const lockstep::TensorView output = lockstep::tensor_traits<float>::view(below_sum);
    const lockstep::Item item{views, std::span(&output, 1)};
    const Pairs rounds(rounds_, timed([&] { sum = strategy_.reduce(ReduceOp::sum, ones); }),
                       timed([&] { below_.all_reduce(std::span(&item, 1), ReduceOp::sum); }));
    return cost("reduce of a scalar", "communicator.all_reduce", rounds, sum == all_replicas() && below_sum == sum);
  }

  /// Every replica reduces its own buffers in place. The call below: the same buffers as items, from one thread.
  StrategyCost all_reduce(int tensors, std::size_t elements) {
    Gradients ours(replicas_, tensors, elements);
    Gradients theirs(replicas_, tensors, elements);
    const auto our_round = [&] {
      double time = 0;
      strategy_.run([&](ReplicaContext& replica) {
        const std::span<const lockstep::TensorView> mine = ours.views(replica.local_replica());
        const auto begin = Clock::now();
        for (int k = 0; k < calls_per_round; ++k) replica.all_reduce(ReduceOp::mean, mine);
        if (replica.local_replica() == 0) time = microseconds(Clock::now() - begin);
      });
      return time;
    };
    const auto items = theirs.items();
    const Pairs rounds(rounds_, our_round, timed([&] { below_.all_reduce(items, ReduceOp::mean); }));
    return cost(tensors == 1 ? "all_reduce of a scalar, in a step"
                             : fmt::format("all_reduce of {} tensors, in a step", tensors),
                "communicator.all_reduce", rounds, ours.are_all(1.0F) && theirs.are_all(1.0F));
  }

  StrategyCost batch_reduce() {
    using Gradient = PerReplica<lockstep::Tensor>;
    std::vector<std::pair<Gradient, lockstep::Device>> pairs;
    const std::vector<float> ones(tensor_elements, 1.0F);
    for (int k = 0; k < tensor_count; ++k) {
      pairs.emplace_back(Gradient(replicas_, first_replica(), [&](int) { return lockstep::Tensor::from(ones); }),
                         lockstep::Device{});
    }
    Gradients theirs(replicas_, tensor_count, tensor_elements);
    const auto items = theirs.items();
    bool is_right = true;
    const Pairs rounds(rounds_, timed([&] {
                         const auto sums = strategy_.extended().batch_reduce_to(ReduceOp::sum, pairs);
                         is_right = is_right && sums.back().value().elements<float>().back() == all_replicas();
                       }),
                       timed([&] { below_.all_reduce(items, ReduceOp::mean); }));
    return cost(fmt::format("batch_reduce_to of {} tensors", tensor_count), "communicator.all_reduce", rounds,
                is_right);
  }

  StrategyCost update() {
    const auto variable = strategy_.variable<float>(std::vector<float>(tensor_elements));
    const Pairs rounds(rounds_, timed([&] {
                         strategy_.extended().update(variable,
                                                     [](const auto& copy) { copy.updatable_component().front() += 1; });
                       }),
                       {});
    const float expected = static_cast<float>((rounds_ + 1) * calls_per_round);
    return cost("update of one variable", "", rounds, variable.elements().front() == expected);
  }

  static std::vector<lockstep::ConstTensorView> views_of(const std::vector<float>& values) {
    std::vector<lockstep::ConstTensorView> views;
    for (const float& value : values) views.push_back(lockstep::tensor_traits<float>::view(value));
    return views;
  }

  /// Tensors of ones for each local replica.
  class Gradients {
   public:
    Gradients(int replicas, int tensors, std::size_t elements) : views_(static_cast<std::size_t>(replicas)) {
      const std::vector<float> ones(elements, 1.0F);
      for (auto& views : views_) {
        for (int k = 0; k < tensors; ++k) {
          tensors_.push_back(lockstep::Tensor::from(ones));
          views.push_back(tensors_.back().view());
        }
      }
      for (std::size_t k = 0; k < static_cast<std::size_t>(tensors); ++k) {
        auto& column = columns_.emplace_back();
        auto& inputs = inputs_.emplace_back();
        for (const auto& views : views_) {
          column.push_back(views[k]);
          inputs.push_back(views[k]);
        }
      }
    }
    [[nodiscard]] std::span<const lockstep::TensorView> views(int replica) const {
      return views_[static_cast<std::size_t>(replica)];
    }
    [[nodiscard]] std::vector<lockstep::Item> items() const {
      std::vector<lockstep::Item> items;
      for (std::size_t k = 0; k < columns_.size(); ++k) items.push_back({inputs_[k], columns_[k]});
      return items;
    }
    [[nodiscard]] bool are_all(float value) const {
      return std::ranges::all_of(tensors_, [value](const lockstep::Tensor& tensor) {
        return std::ranges::all_of(tensor.elements<float>(), [value](float element) { return element == value; });
      });
    }

   private:
    std::vector<lockstep::Tensor> tensors_;
    std::vector<std::vector<lockstep::TensorView>> views_;
    std::vector<std::vector<lockstep::TensorView>> columns_;
    std::vector<std::vector<lockstep::ConstTensorView>> inputs_;
  };

  lockstep::MultiWorkerMirroredStrategy strategy_;
  lockstep::Communicator below_;
  int replicas_;
  std::int64_t rounds_;
};

}  // namespace

std::vector<StrategyCost> measure_strategy(const lockstep::Communicator& job, std::int64_t iterations) {
  std::vector<StrategyCost> costs;
  for (const int replicas : {1, 2, 4}) StrategyBench(job, replicas, iterations).add_to(costs);
  return costs;
}

void print_strategy_costs(const std::vector<StrategyCost>& costs, const lockstep::Communicator& job) {
  fmt::print(
      "# lockstep-perf {}: the strategy layer, medians on rank 0; each call alternates with the call below it\n"
      "# job         {} on {}, {} here\n"
      "# replicas    per rank; with more replicas than free processors a call waits for the scheduler\n#\n"
      "# {:38} {:>8} {:>10} {:>10} {:>10}  {}\n",
      lockstep::build_info().version, options::counted(job.size(), "rank"), options::counted(job.nodes(), "node"),
      options::counted(std::thread::hardware_concurrency(), "processor"), "call", "replicas", "us", "below us",
      "added us", "below");
  for (const StrategyCost& cost : costs) {
    fmt::print("  {:38} {:>8} {:>10.3f} ", cost.call, cost.replicas_per_rank, cost.us);
    if (cost.below.empty()) {
      fmt::print("{:>10} {:>10}  -", "-", "-");
    } else {
      fmt::print("{:>10.3f} {:>10.3f}  {}", cost.below_us, cost.us - cost.below_us, cost.below);
    }
    fmt::print("{}\n", cost.is_right ? "" : "  WRONG RESULT");
  }
}

}  // namespace perf
