// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// hashed REPLICAS [CHANGE]: a program for hash logs. REPLICAS replicas on all ranks make the same calls on every
// layout; CHANGE names what this run does differently. The test shows the lines of the calls, so it looks for their
// comments.

#include <lockstep/lockstep.hpp>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace {

using lockstep::Communicator;
using lockstep::ConstTensorView;
using lockstep::Item;
using lockstep::ReduceOp;
using lockstep::TensorView;

constexpr int steps = 3;
constexpr int changed_step = 1;
constexpr int changed_replica = 2;

/// One tensor for each local replica.
class Tensors {
 public:
  explicit Tensors(const Communicator& comm, std::size_t elements, bool is_zero = false) {
    const auto first = comm.layout().first(comm.rank());
    for (int k = 0; k < comm.local_replicas(); ++k) {
      std::vector<float>& tensor = tensors_.emplace_back(elements);
      for (std::size_t i = 0; i < elements && !is_zero; ++i)
        tensor[i] = std::sin(static_cast<float>(i) + static_cast<float>(first + k));
    }
  }
  [[nodiscard]] std::vector<float>& of(int local) { return tensors_[static_cast<std::size_t>(local)]; }
  [[nodiscard]] std::vector<TensorView> outputs() {
    std::vector<TensorView> views;
    for (auto& tensor : tensors_) views.push_back(lockstep::view_of(std::span(tensor)));
    return views;
  }
  [[nodiscard]] std::vector<ConstTensorView> inputs() {
    std::vector<ConstTensorView> views;
    for (const TensorView& view : outputs()) views.emplace_back(view);
    return views;
  }

 private:
  std::vector<std::vector<float>> tensors_;
};

/// Returns whether the program goes on.
bool train(const Communicator& comm, std::string_view change) {
  Tensors bias(comm, 3);
  const auto bias_inputs = bias.inputs();
  const auto bias_outputs = bias.outputs();
  const Item bias_item{bias_inputs, bias_outputs};
  auto plan = comm.prepare_all_reduce(std::span(&bias_item, 1), ReduceOp::mean);  // the plan
  for (int step = 0; step < steps; ++step) {
    Tensors gradients(comm, 1000);
    Tensors others(comm, 10);
    const int local = changed_replica - comm.layout().first(comm.rank());
    if (step == changed_step && local >= 0 && local < comm.local_replicas() && change == "element")
      gradients.of(local)[17] = std::nextafter(gradients.of(local)[17], 2.0F);
    const auto inputs = gradients.inputs();
    const auto outputs = gradients.outputs();
    const auto other_inputs = others.inputs();
    const auto other_outputs = others.outputs();
    const std::vector<Item> items{{other_inputs, other_outputs}, {inputs, outputs}};
    if (step != changed_step || change != "skips") {
      comm.all_reduce(items, ReduceOp::sum, {.name = "gradients"});  // the gradients
    }
    plan.run();
    std::vector<float> weights(8, static_cast<float>(step));
    if (step == changed_step && change == "root" && comm.rank() == 0) weights[3] = 7;
    comm.broadcast(std::span(weights), 0);  // the weights
    auto request = comm.all_reduce_async(items, ReduceOp::max);
    request.wait();
    if (step == changed_step && change == "ends") return false;
  }
  return true;
}

void call_each_kind(const Communicator& comm) {
  const std::size_t replicas = static_cast<std::size_t>(comm.layout().replicas());
  Tensors small(comm, 4);
  Tensors large(comm, 4 * replicas);
  Tensors result(comm, 4, true);
  Tensors large_result(comm, 4 * replicas, true);
  const auto in = small.inputs();
  const auto large_in = large.inputs();
  const auto out = result.outputs();
  const auto large_out = large_result.outputs();
  const bool is_root = comm.rank() == 0;
  const auto call = [](std::span<const ConstTensorView> inputs, std::span<const TensorView> outputs) {
    return Item{inputs, outputs};
  };
  const auto on_root = [&](auto views) { return is_root ? std::span(views).first(1) : std::span(views).first(0); };
  const std::vector<Item> reduce{call(in, on_root(std::span(out)))};
  comm.reduce(reduce, ReduceOp::sum, 0);
  const std::vector<Item> reduce_scatter{call(large_in, out)};
  comm.reduce_scatter(reduce_scatter, ReduceOp::sum);
  const std::vector<Item> all_gather{call(in, large_out)};
  comm.all_gather(all_gather);
  comm.all_gather_v(all_gather, std::vector<std::int64_t>(replicas, 4));
  const std::vector<Item> gather{call(in, on_root(std::span(large_out)))};
  comm.gather(gather, 0);
  const std::vector<Item> scatter{call(on_root(std::span(large_in)), out)};
  comm.scatter(scatter, 0);
  const std::vector<Item> all_to_all{call(large_in, large_out)};
  comm.all_to_all(all_to_all);
  comm.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  const int replicas = argc > 1 ? std::atoi(argv[1]) : 1;
  const std::string_view change = argc > 2 ? argv[2] : "";
  lockstep::Environment environment(argc, argv);
  const Communicator comm =
      lockstep::world_communicator({.local_replicas = replicas / environment.size(), .name = "world"});
  if (!train(comm, change)) return 0;
  call_each_kind(comm);
  const std::optional<Communicator> half = comm.split(comm.rank() % 2, 0, {.name = "half"});
  std::vector<double> values(5, change == "half" && environment.rank() == 1 ? 2 : 1);
  half->all_reduce(std::span(values), ReduceOp::sum);  // the half
  return 0;
}
