// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A user's own reducer: all reductions of a strategy go through it. This one adds in the memory of the process and
// prints a log.

#include <lockstep/lockstep.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

class Logged : public lockstep::CrossDeviceOps {
 public:
  [[nodiscard]] std::string describe() const override { return "Logged"; }
  [[nodiscard]] bool is_canonical() const noexcept override { return true; }  // like reduce_local

 protected:
  // The caller has checked that the inputs of an item have one shape and dtype, and its outputs those of the result.
  // There is one call at a time. A strategy of one process does not need the communicator.
  void do_batch_reduce(lockstep::Communicator& /*communicator*/, std::span<const lockstep::Item> items,
                       lockstep::ReduceOp op, const lockstep::CommunicationOptions& /*options*/) override {
    ++calls_;
    for (const lockstep::Item& item : items) {
      lockstep::reduce_local(item.inputs, item.outputs, op);
      std::printf("%d: %s of %zu x %s%s\n", calls_, std::string(to_string(op)).c_str(), item.inputs.size(),
                  std::string(to_string(item.inputs[0].dtype)).c_str(), to_string(item.inputs[0].shape).c_str());
    }
  }

 private:
  int calls_ = 0;
};

}  // namespace

int main() {
  const auto ops = std::make_shared<Logged>();
  lockstep::MirroredStrategy strategy({"cpu:0", "cpu:1", "cpu:2"}, ops);
  const auto total =
      strategy.variable<double>(0.0, {.name = "total", .aggregation = lockstep::VariableAggregation::sum});

  const auto losses = strategy.run([&](lockstep::ReplicaContext& replica) {
    const auto id = static_cast<float>(replica.replica_id_in_sync_group());
    std::vector<float> gradient{id, 2 * id};
    replica.all_reduce(lockstep::ReduceOp::mean, std::span(gradient));
    total.assign_add(gradient[1]);  // adds the sum over the replicas
    return gradient[0] + id;
  });
  std::printf("mean loss %g, total %g\n", strategy.reduce("MEAN", losses), total.value());
}
