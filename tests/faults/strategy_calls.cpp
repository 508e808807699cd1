// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The job as a program that uses a strategy. Each rank has one replica.

#include "calls.hpp"
#include "work.hpp"

#include <lockstep/lockstep.hpp>

#include <atomic>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

namespace faults {
namespace {

using lockstep::PerReplica;
using lockstep::ReduceOp;
using lockstep::ReplicaContext;
using lockstep::Strategy;
using lockstep::Tensor;

constexpr int batches = 12;
constexpr int saves = 5;

lockstep::MultiWorkerOptions strategy_options(const Settings& settings, Change change) {
  lockstep::MultiWorkerOptions options;
  if (!settings.is_culprit()) return options;
  if (change == Change::replicas) options.devices = std::vector<lockstep::Device>(2);
  if (change == Change::options) options.communication_options.bytes_per_pack = 1;
  return options;
}

using Values = std::vector<float>;

void check(const Values& values, double expected, const char* what) {
  for (const float value : values) {
    if (static_cast<double>(value) != expected) throw WrongResult(what);
  }
}

class StrategyCalls : public Calls {
 public:
  StrategyCalls(const Settings& settings, Change change)
      : settings_(settings), strategy_(strategy_options(settings, change)) {}

  void call(Kind kind, int k, Change change) override {
    strategy_.run(
        [&](ReplicaContext& replica) { call_in(replica, change == Change::kind ? Kind::gather : kind, k, change); });
  }

  void recover() override { (void)strategy_.communicator().recover(); }

  void large(int k, Change change) override {
    const bool is_sum = first_kind(settings_) == Kind::sum;
    if (!is_sum || change == Change::kind) return call(first_kind(settings_), k, change);
    const Work work(large_shape().with(change), mine(k));
    strategy_.run([&](ReplicaContext& replica) { replica.all_reduce(op_of(change), work.views(), options(change)); });
    work.check(sum(k), "large all_reduce");
  }

  Then large_with(int k, const Strike& strike) override { return in_buckets(large_shape(), k, strike); }

  Then in_flight(const Strike& strike) override {
    WorkShape shape{.in_arena = settings_.draw(1, 2) == 0};
    return in_buckets(shape, 1, strike);
  }

  void in_merge(const Strike& strike) override {
    const Change change = settings_.is_culprit() ? change_of(settings_.event) : Change::none;
    const bool skips = settings_.is_culprit() && settings_.event == "skip" && settings_.draw(3, 2) == 0;
    strategy_.run([&](ReplicaContext& replica) {
      if (skips) return;
      const Values values(change == Change::count ? 101 : 100, static_cast<float>(mine(1)));
      replica.merge_call(
          [&](Strategy& strategy, const PerReplica<Values>& merged) {
            strike();
            merge(strategy, merged, skips);
          },
          values);
    });
    call(Kind::sum, 9, Change::none);
  }

  void in_dataset(const Strike& strike) override;
  Then in_checkpoint(Events& events) override;

 private:
  [[nodiscard]] double mine(int k) const { return value_of(settings_.rank, k); }
  [[nodiscard]] double sum(int k) const { return sum_of(settings_.ranks, k); }
  [[nodiscard]] static ReduceOp op_of(Change change) { return change == Change::op ? ReduceOp::max : ReduceOp::sum; }
  [[nodiscard]] static lockstep::CommunicationOptions options(Change change) {
    lockstep::CommunicationOptions options;
    if (change == Change::options) options.bytes_per_pack = 1;
    return options;
  }
  [[nodiscard]] WorkShape large_shape() const {
    return {.elements = settings_.large_elements, .tensors = 2, .in_arena = settings_.draw(2, 2) == 0};
  }

  void call_in(ReplicaContext& replica, Kind kind, int k, Change change) const {
    if (kind == Kind::sum) {
      const Work work(WorkShape{.in_arena = settings_.draw(1, 2) == 0}.with(change), mine(k));
      replica.all_reduce(op_of(change), work.views(), options(change));
      work.check(sum(k), "all_reduce");
    } else if (kind == Kind::broadcast) {
      const Values values = replica.broadcast(Values(100, static_cast<float>(mine(k))), change == Change::root ? 1 : 0);
      check(values, value_of(0, k), "broadcast");
    } else {
      const Values all = replica.all_gather(Values(gathered_elements, static_cast<float>(mine(k))), 0);
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i] != static_cast<float>(value_of(static_cast<int>(i / gathered_elements), k))) {
          throw WrongResult("all_gather");
        }
      }
    }
  }

  void merge(Strategy& strategy, const PerReplica<Values>& merged, bool skips) const {
    const Change change = settings_.is_culprit() ? change_of(settings_.event) : Change::none;
    const auto reduce = [&](Change the_change) {
      if (the_change == Change::dtype) {
        (void)strategy.reduce(ReduceOp::sum,
                              PerReplica<std::vector<double>>({std::vector<double>(100, 1.0)}, settings_.rank));
      } else if (the_change == Change::list) {
        (void)strategy.reduce(ReduceOp::sum, std::vector{merged, merged});
      } else if (the_change == Change::kind) {
        (void)strategy.gather(merged, 0);
      } else {
        check(strategy.reduce(op_of(the_change), merged), sum(1), "reduce in merge_call");
      }
    };
    const auto gather = [&] { (void)strategy.gather(merged, 0); };
    if (settings_.event == "skip" && skips) return;
    make_pair(settings_, {[&](Change) { reduce(change); }, gather}, gather);
  }

  /// Two buckets with one tensor each; the strike is between them.
  Then in_buckets(WorkShape shape, int k, const Strike& strike) {
    const Change change = settings_.is_culprit() ? change_of(settings_.event) : Change::none;
    const Work work(shape.with(change), mine(k));
    lockstep::GradientBuckets buckets(
        strategy_.communicator(), work.views(),
        {.op = op_of(change), .bucket_bytes = change == Change::options ? 1U << 30U : 1U});
    Then then = Then::go_on;
    const bool skips = settings_.is_culprit() && settings_.event == "skip";
    const bool twice = settings_.is_culprit() && settings_.event == "extra";
    const bool swaps = settings_.is_culprit() && settings_.event == "swap";
    const bool is_first = settings_.event == "threads";  // the first bucket starts a thread
    for (int i = 0; i < (skips ? 0 : twice ? 2 : 1); ++i) {
      strategy_.run([&](ReplicaContext& replica) {
        if (is_first) then = strike();
        buckets.ready(replica, swaps ? 1 : 0);
        if (!is_first) then = strike();
        if (then == Then::leave) return;
        buckets.ready(replica, swaps ? 0 : 1);
        buckets.finish(replica);
      });
      if (then == Then::leave) return then;
      if (i == 0) work.check(sum(k), "buckets");
    }
    return then;
  }

  const Settings& settings_;
  lockstep::MultiWorkerMirroredStrategy strategy_;
};

/// Batches of two rows with equal elements; the strike is in the function that makes them, on the thread that reads.
void StrategyCalls::in_dataset(const Strike& strike) {
  const Change change = settings_.is_culprit() ? change_of(settings_.event) : Change::none;
  int count = batches;
  if (settings_.is_culprit()) count += settings_.event == "skip" ? -1 : settings_.event == "extra" ? 1 : 0;
  const int when = batches / 2;
  const auto batch = [&, change](int i) {
    const lockstep::Shape shape{2, change == Change::count && i >= when ? 51 : 50};
    Tensor tensor(change == Change::dtype && i >= when ? lockstep::DType::f64 : lockstep::DType::f32, shape);
    return tensor;
  };
  auto dataset = strategy_.distribute_datasets_from_function([&](const lockstep::InputContext&) {
    return lockstep::Dataset<Tensor>::from_generator([&, count] {
      return [&, count, i = 0]() mutable -> std::optional<Tensor> {
        if (i == when) strike();
        return i < count ? std::optional(batch(i++)) : std::nullopt;
      };
    });
  });
  int k = 0;
  auto iterator = dataset.iterate();
  while (auto rows = iterator.get_next_as_optional()) {
    strategy_.run(
        [&](ReplicaContext& replica, const Tensor& tensor) {
          call_in(replica, Kind::sum, k, Change::none);
          if (change_of(settings_.event) == Change::none) return;
          Tensor copy = tensor.clone();
          const lockstep::TensorView view = copy.view();
          replica.all_reduce(ReduceOp::sum, std::span(&view, 1));
        },
        *rows);
    ++k;
  }
}

/// Saves one after the other; an event that comes from outside is in the middle of one.
Then StrategyCalls::in_checkpoint(Events& events) {
  const auto variable = strategy_.variable(Tensor(lockstep::DType::f32, lockstep::Shape{1 << 20}), {.name = "weights"});
  lockstep::CheckpointOptions options;
  // all ranks write, so that each needs a thread for that
  if (settings_.draw(4, 2) == 0 || settings_.event == "threads") options.parallel_bytes = 0;
  lockstep::Checkpoint checkpoint(strategy_, options);
  checkpoint.track("weights", variable);
  const std::string folder = settings_.folder / "checkpoints";
  for (int step = 1; step <= saves; ++step) {
    std::jthread outside;
    if (step == 3) {
      if (events.comes_from_outside()) {
        outside = events.happen_in(std::chrono::microseconds(settings_.draw(5, 8000)));
      } else if (events.happen() == Then::leave) {
        return Then::leave;
      }
    }
    const auto save = [&](int the_step) {
      settings_.event == "threads" ? checkpoint.save_async(folder, the_step).wait() : checkpoint.save(folder, the_step);
    };
    if (step == 3 && !events.is_of_process()) {
      make_pair(settings_,
                {[&](Change change) { change == Change::options ? save(99) : save(step); }, [&] { save(4); }},
                [&] { save(50); });
      step = 4;
    } else {
      save(step);
    }
  }
  return Then::go_on;
}

}  // namespace

std::unique_ptr<Calls> make_strategy_calls(const Settings& settings, Change change) {
  return std::make_unique<StrategyCalls>(settings, change);
}

}  // namespace faults
