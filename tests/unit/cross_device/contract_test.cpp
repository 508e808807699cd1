// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "unit/cross_device/contract.hpp"

#include "support/quick.hpp"

namespace lockstep::test {
namespace {

/// A user-defined implementation: one process, any number of replicas.
class UsersOps : public CrossDeviceOps {
 public:
  [[nodiscard]] std::string describe() const override { return "UsersOps"; }
  [[nodiscard]] bool is_canonical() const noexcept override { return true; }

 protected:
  void do_batch_reduce(Communicator& /*communicator*/, std::span<const Item> items, ReduceOp op,
                       const CommunicationOptions& /*options*/) override {
    for (const Item& item : items) reduce_local(item.inputs, item.outputs, op);
  }
};

void add_all(std::span<const ConstTensorView> values, TensorView sum) {
  const auto add = [&]<class T>(T* to) {
    for (const ConstTensorView& value : values) {
      for (std::int64_t i = 0; i < sum.element_count(); ++i) to[i] += static_cast<const T*>(value.data)[i];
    }
  };
  if (sum.dtype == DType::f32) add(static_cast<float*>(sum.data));
  if (sum.dtype == DType::f64) add(static_cast<double*>(sum.data));
  if (sum.dtype == DType::i32) add(static_cast<int*>(sum.data));
}

/// As `add_all`, for values on any device.
void add_there(std::span<const ConstTensorView> values, TensorView sum) {
  reduce_local(values, std::span(&sum, 1), ReduceOp::sum);
}

const auto name_of = [](const auto& parameter) { return parameter.param.name; };

INSTANTIATE_TEST_SUITE_P(
    Kinds, CrossDeviceContract,
    testing::Values(Implementation{"AllReduce", [] { return std::make_shared<AllReduceCrossDeviceOps>(); }},
                    Implementation{"AllReduceInPacks", [] { return std::make_shared<AllReduceCrossDeviceOps>(2); }},
                    Implementation{"AllReduceOneByOne", [] { return std::make_shared<AllReduceCrossDeviceOps>(0); }},
                    Implementation{"ReductionToOneDevice", [] { return std::make_shared<ReductionToOneDevice>(); }},
                    Implementation{
                        "ReductionByAFunction",
                        [] { return std::make_shared<ReductionToOneDevice>(Device{DeviceKind::cpu, 1}, &add_all); }},
                    Implementation{"UsersOps", [] { return std::make_shared<UsersOps>(); }, on_hosts({{1}, {3}, {4}})}),
    name_of);

const std::vector<GpuLayout> gpu_layouts_of_ranks = some_of(gpu_matrix());

INSTANTIATE_TEST_SUITE_P(
    KindsOnGpus, CrossDeviceContract,
    testing::Values(
        Implementation{"AllReduce", [] { return std::make_shared<AllReduceCrossDeviceOps>(); }, gpu_layouts_of_ranks},
        Implementation{"AllReduceOneByOne", [] { return std::make_shared<AllReduceCrossDeviceOps>(0); },
                       gpu_layouts_of_ranks},
        Implementation{"Nccl", [] { return std::make_shared<NcclAllReduce>(); }, gpu_layouts_of_ranks},
        Implementation{"NcclInPacksInCanonicalOrder",
                       [] { return std::make_shared<NcclAllReduce>(2, Order::canonical); }, gpu_layouts_of_ranks},
        Implementation{"ReductionToOneDevice", [] { return std::make_shared<ReductionToOneDevice>(); },
                       gpu_layouts_of_ranks},
        Implementation{"ReductionByAFunction",
                       [] { return std::make_shared<ReductionToOneDevice>(std::nullopt, &add_there); },
                       gpu_layouts_of_ranks},
        Implementation{"UsersOps",
                       [] { return std::make_shared<UsersOps>(); },
                       {GpuLayout{{1}, 1}, GpuLayout{{2}, 2}, GpuLayout{{4}, 3}}}),
    name_of);

}  // namespace
}  // namespace lockstep::test
