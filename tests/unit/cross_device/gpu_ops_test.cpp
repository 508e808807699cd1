// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Every kind of CrossDeviceOps on GPU tensors, with one rank and with several.

#include "unit/strategy/gpu_strategies.hpp"

#include "support/function_ref.hpp"

#include <utility>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

void add_there(std::span<const ConstTensorView> values, TensorView sum) {
  reduce_local(values, std::span(&sum, 1), ReduceOp::sum);
}

std::vector<std::shared_ptr<CrossDeviceOps>> every_kind() {
  return {std::make_shared<AllReduceCrossDeviceOps>(),
          std::make_shared<AllReduceCrossDeviceOps>(0),
          std::make_shared<NcclAllReduce>(),
          std::make_shared<NcclAllReduce>(2, Order::canonical),
          std::make_shared<ReductionToOneDevice>(),
          std::make_shared<ReductionToOneDevice>(gpu(1)),
          std::make_shared<ReductionToOneDevice>(Device{}, &add_there)};
}

/// Four fake GPUs; replica r is on gpu:r.
class OpsOnGpus : public testing::Test {
 protected:
  /// `body(ops, communicator, devices of the local replicas)` on every rank of every layout.
  static void everywhere(FunctionRef<void(CrossDeviceOps&, Communicator&, const std::vector<Device>&)> body) {
    for (const std::vector<int>& counts : {std::vector{1}, std::vector{3}, std::vector{2, 1}, std::vector{1, 1, 2}}) {
      for (std::size_t kind = 0; kind < every_kind().size(); ++kind) {
        on_ranks(counts, [&](Communicator& communicator) {
          const auto ops = every_kind()[kind];
          SCOPED_TRACE(ops->describe());
          std::vector<Device> devices;
          for (int i = 0; i < communicator.local_replicas(); ++i)
            devices.push_back(gpu(communicator.layout().first(communicator.rank()) + i));
          body(*ops, communicator, devices);
        });
      }
    }
  }

  FakeGpus gpus_{{.devices = 4}};
};

/// Tensors with their views.
struct Placed {
  std::vector<Tensor> tensors;
  std::vector<TensorView> views;
  void add(const Tensor& tensor) {
    tensors.push_back(tensor);
    views.push_back(tensors.back().view());
  }
  [[nodiscard]] std::vector<ConstTensorView> inputs() const { return {views.begin(), views.end()}; }
};

TEST_F(OpsOnGpus, reduce_to_places_of_all_kinds) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator, const std::vector<Device>& devices) {
    const int n = communicator.layout().replicas();
    Placed values;
    Placed results;
    for (const Device device : devices) {
      values.add(Tensor::from(Floats{static_cast<float>(device.index + 1), 1}).to(device));
      results.add(Tensor(DType::f32, Shape{2}, nullptr, device));
    }
    results.add(Tensor(DType::f32, Shape{2}));
    results.add(Tensor(DType::f32, Shape{2}, nullptr, gpu(3)));
    const std::vector<ConstTensorView> inputs = values.inputs();
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
      ops.reduce(communicator, {inputs, results.views}, op);
      const auto divisor = static_cast<float>(op == ReduceOp::mean ? n : 1);
      const Floats expected{static_cast<float>(n * (n + 1) / 2) / divisor, static_cast<float>(n) / divisor};
      for (const Tensor& result : results.tensors) EXPECT_EQ(elements_from<float>(result), expected);
    }
  });
}

TEST_F(OpsOnGpus, broadcast_and_gather_values) {
  everywhere([](CrossDeviceOps& ops, Communicator& communicator, const std::vector<Device>& devices) {
    const int root = communicator.size() - 1;
    const bool is_root = communicator.rank() == root;
    Placed source;
    source.add(Tensor::from(Floats{7, 8}).to(devices.front()));
    Placed copies;
    for (const Device device : devices) copies.add(Tensor(DType::f32, Shape{2}, nullptr, device));
    copies.add(Tensor(DType::f32, Shape{2}));
    const std::vector<ConstTensorView> inputs = source.inputs();
    const Item item{is_root ? std::span(inputs) : std::span<const ConstTensorView>(), copies.views};
    // before and after the ranks have negotiated the path between GPUs
    for (int twice = 0; twice < 2; ++twice) {
      ops.broadcast(communicator, std::span(&item, 1), root);
      for (const Tensor& copy : copies.tensors) EXPECT_EQ(elements_from<float>(copy), (Floats{7, 8}));
      Placed rows;
      for (const Device device : devices) rows.add(Tensor::from(Floats{static_cast<float>(device.index)}).to(device));
      const std::vector<ConstTensorView> parts = rows.inputs();
      const std::int64_t n = communicator.layout().replicas();
      Placed all;
      all.add(Tensor(DType::f32, Shape{n}, nullptr, devices.back()));
      all.add(Tensor(DType::f32, Shape{n}));
      const Item gathered{parts, all.views};
      const std::vector<std::int64_t> one_each(static_cast<std::size_t>(n), 1);
      ops.gather(communicator, std::span(&gathered, 1), one_each);
      Floats expected;
      for (int r = 0; r < static_cast<int>(n); ++r) expected.push_back(static_cast<float>(r));
      for (const Tensor& copy : all.tensors) EXPECT_EQ(elements_from<float>(copy), expected);
    }
  });
}

}  // namespace
}  // namespace lockstep::test
