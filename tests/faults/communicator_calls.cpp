// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The job as a program that uses a communicator.

#include "calls.hpp"
#include "work.hpp"

#include <lockstep/collectives/communicator.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace faults {
namespace {

using lockstep::ReduceOp;

lockstep::CommunicatorOptions communicator_options(const Settings& settings, Change change) {
  lockstep::CommunicatorOptions options;
  options.name = "job";
  if (!settings.is_culprit()) return options;
  if (change == Change::replicas) options.local_replicas = 0;
  if (change == Change::options) options.order = lockstep::Order::any;
  return options;
}

/// An operation in flight.
struct Pending {
  std::unique_ptr<Work> work;  // null for a gather
  std::vector<float> sent;
  std::vector<float> gathered;
  double expected = 0;
  lockstep::Request request;
};

class CommunicatorCalls : public Calls {
 public:
  CommunicatorCalls(const Settings& settings, Change change)
      : settings_(settings), comm_(lockstep::world_communicator(communicator_options(settings, change))) {}

  void call(Kind kind, int k, Change change) override {
    Pending pending = prepared(kind, k, change, small());
    run(pending, kind_of(kind, change), change);
    check(pending, k);
  }

  void recover() override { (void)comm_.recover(); }

  void large(int k, Change change) override {
    const Kind kind = first_kind(settings_);
    Pending pending = prepared(kind, k, change, large_shape());
    run(pending, kind_of(kind, change), change);
    check(pending, k);
  }

  Then large_with(int k, const Strike& strike) override {
    Pending pending = prepared(Kind::sum, k, Change::none, large_shape());
    post(pending, Kind::sum, Change::none);
    const Then then = strike();
    if (then == Then::leave) return then;
    pending.request.wait();
    check(pending, k);
    return then;
  }

  Then in_flight(const Strike& strike) override {
    const bool is_first = settings_.event == "threads";  // the first such call starts a thread
    Then then = is_first ? strike() : Then::go_on;
    Pending before = prepared(Kind::sum, 1, Change::none, small());
    post(before, Kind::sum, Change::none);
    if (!is_first) then = strike();
    if (then == Then::leave) return then;
    const Change change = settings_.is_culprit() ? change_of(settings_.event) : Change::none;
    const Kind kind = first_kind(settings_);
    Pending first = prepared(kind, 2, change, small());
    Pending second = prepared(Kind::gather, 3, Change::none, small());
    Pending more = prepared(Kind::gather, 4, Change::none, small());
    make_pair(settings_,
              {[&](Change the_change) { post(first, kind_of(kind, the_change), the_change); },
               [&] { post(second, Kind::gather, Change::none); }},
              [&] { post(more, Kind::gather, Change::none); });
    before.request.wait();
    check(before, 1);
    first.request.wait();
    second.request.wait();
    more.request.wait();
    check(first, 2);
    check(second, 3);
    return then;
  }

 private:
  [[nodiscard]] static Kind kind_of(Kind kind, Change change) { return change == Change::kind ? Kind::gather : kind; }
  [[nodiscard]] WorkShape small() const { return {.in_arena = settings_.draw(1, 2) == 0}; }
  [[nodiscard]] WorkShape large_shape() const {
    return {.elements = settings_.large_elements, .tensors = 1, .in_arena = settings_.draw(2, 2) == 0};
  }
  [[nodiscard]] int root_of(Change change) const { return change == Change::root ? 1 : 0; }
  [[nodiscard]] static lockstep::ReduceOptions options(Change change) {
    lockstep::ReduceOptions options{.name = change == Change::name ? "another" : "step"};
    if (change == Change::options) options.order = lockstep::Order::any;
    return options;
  }

  [[nodiscard]] Pending prepared(Kind kind, int k, Change change, const WorkShape& shape) const {
    Pending pending;
    if (kind == Kind::gather || change == Change::kind) {
      pending.sent.assign(gathered_elements, static_cast<float>(value_of(settings_.rank, k)));
      pending.gathered.resize(pending.sent.size() * static_cast<std::size_t>(settings_.ranks));
      return pending;
    }
    const bool is_sum = kind == Kind::sum;
    const double value = is_sum || settings_.rank == 0 ? value_of(settings_.rank, k) : -1;
    WorkShape changed = shape.with(change);
    if (!is_sum) changed.tensors = 1;
    pending.work = std::make_unique<Work>(changed, value);
    pending.expected = is_sum ? sum_of(settings_.ranks, k) : value_of(0, k);
    return pending;
  }

  void run(Pending& pending, Kind kind, Change change) {
    if (change == Change::replicas) return two_inputs(*pending.work);
    if (kind == Kind::sum) comm_.all_reduce(pending.work->items(), op_of(change), options(change));
    if (kind == Kind::broadcast) comm_.broadcast(pending.work->views()[0], root_of(change), options(change));
    if (kind == Kind::gather) comm_.all_gather(pending.sent, pending.gathered, options(change));
  }

  void post(Pending& pending, Kind kind, Change change) {
    if (change == Change::replicas) return two_inputs(*pending.work);
    lockstep::Request& request = pending.request;
    if (kind == Kind::sum) request = comm_.all_reduce_async(pending.work->items(), op_of(change), options(change));
    if (kind == Kind::broadcast) {
      request = comm_.broadcast_async(pending.work->views()[0], root_of(change), options(change));
    }
    if (kind == Kind::gather) request = comm_.all_gather_async(pending.sent, pending.gathered, options(change));
  }

  /// A reduction with the inputs of two replicas; this rank has one.
  void two_inputs(const Work& work) const {
    const std::vector<lockstep::ConstTensorView> inputs{work.views()[0], work.views()[0]};
    const lockstep::Item item{inputs, work.views().first(1)};
    comm_.all_reduce(std::span(&item, 1), ReduceOp::sum, options(Change::none));
  }

  [[nodiscard]] static ReduceOp op_of(Change change) { return change == Change::op ? ReduceOp::max : ReduceOp::sum; }

  void check(const Pending& pending, int k) const {
    if (pending.work) pending.work->check(pending.expected, "sum or broadcast");
    for (std::size_t i = 0; i < pending.gathered.size(); ++i) {
      const auto rank = static_cast<int>(i / pending.sent.size());
      if (pending.gathered[i] != static_cast<float>(value_of(rank, k))) throw WrongResult("all_gather");
    }
  }

  const Settings& settings_;
  lockstep::Communicator comm_;
};

}  // namespace

std::unique_ptr<Calls> make_communicator_calls(const Settings& settings, Change change) {
  return std::make_unique<CommunicatorCalls>(settings, change);
}

}  // namespace faults
