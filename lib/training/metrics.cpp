// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/metrics.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "context/replica_team.hpp"
#include "context/thread_context.hpp"
#include "variables/variable_access.hpp"

#include <lockstep/collectives/detail/propagate.hpp>

#include <array>
#include <cstddef>
#include <tuple>
#include <vector>

namespace lockstep {
namespace {

using Totals = std::array<double, 2>;

VariableOptions options_of(const std::string& name) {
  return {.name = name,
          .synchronization = VariableSynchronization::on_read,
          .aggregation = VariableAggregation::sum,
          .trainable = false,
          .in_host_memory = true};
}

double sum_of(std::span<const float> values) {
  double sum = 0;
  for (const float x : values) sum += double{x};
  return sum;
}

/// Throws Error(failed_precondition) if the caller is outside of the step functions of the strategy of `total`.
void require_step(const Variable& total) {
  const ThreadContext& context = thread_context();
  const ReplicaTeam& team = VariableAccess::team(total);
  if (context.mode == Mode::replica || context.mode == Mode::update || team.is_default()) return;
  if (context.mode != Mode::outside && context.team != &team) return;  // the variable refuses this
  detail::propagate(team.communicator(), [&] {
    detail::throw_error(Code::failed_precondition,
                        "update of metric \"{}\": called outside of a step function; with {}, it is not known whose "
                        "total to change; call it in the step function",
                        total.name(), detail::counted(team.replicas(), "replica"));
  });
}

}  // namespace

Sum::Sum(Strategy& strategy, const std::string& name)
    : total_(strategy.sync_on_read_variable<double>(0.0, options_of(name))) {}

void Sum::update(double value) const {
  require_step(total_);
  total_.assign_add(value);
}
void Sum::update(std::span<const float> values) const { update(sum_of(values)); }
double Sum::result() const { return total_.value(); }
void Sum::reset() const { total_.assign(0.0); }

Mean::Mean(Strategy& strategy, const std::string& name)
    : totals_(strategy.sync_on_read_variable<double>(Totals{}, options_of(name))) {}

void Mean::add(double total, double weight) const {
  require_step(totals_);
  totals_.assign_add(Totals{total, weight});
}
void Mean::update(double value, double weight) const { add(value * weight, weight); }
void Mean::update(std::span<const float> values) const { add(sum_of(values), static_cast<double>(values.size())); }
double Mean::result() const {
  const std::vector<double> totals = totals_.values();
  return totals[1] == 0 ? 0.0 : totals[0] / totals[1];
}
void Mean::reset() const { totals_.assign(Totals{}); }

Accuracy::Accuracy(Strategy& strategy, const std::string& name) : mean_(strategy, name) {}

void Accuracy::update(std::span<const std::int64_t> labels, std::span<const std::int64_t> predictions) const {
  if (labels.size() != predictions.size()) {
    detail::throw_error(Code::invalid_argument, "update of metric \"{}\": {} for {}; the numbers must be equal",
                        mean_.totals_.name(), detail::counted(labels.size(), "label"),
                        detail::counted(predictions.size(), "prediction"));
  }
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) correct += labels[i] == predictions[i] ? 1 : 0;
  update(correct, static_cast<std::int64_t>(labels.size()));
}

void Accuracy::update(std::int64_t correct, std::int64_t count) const {
  if (correct < 0 || correct > count) {
    detail::throw_error(Code::invalid_argument,
                        "update of metric \"{}\": correct is {}, count {}; correct must be from 0 to count",
                        mean_.totals_.name(), correct, count);
  }
  mean_.add(static_cast<double>(correct), static_cast<double>(count));
}

GlobalMean global_mean(ReplicaContext& replica, std::span<const float> values) {
  return global_mean(replica, sum_of(values), static_cast<std::int64_t>(values.size()));
}

GlobalMean global_mean(ReplicaContext& replica, double sum, std::int64_t count) {
  if (count < 0) {
    detail::throw_error(Code::invalid_argument, "global_mean: count is {} on replica {}; it must not be negative",
                        count, replica.replica_id_in_sync_group());
  }
  const auto [total, number] = replica.all_reduce(ReduceOp::sum, std::tuple(sum, count));
  return {total, number};
}

}  // namespace lockstep
