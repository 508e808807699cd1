// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "unit/cross_device/contract.hpp"

namespace lockstep::test {
namespace {

/// What a user would write: one process, any number of replicas.
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

INSTANTIATE_TEST_SUITE_P(
    Kinds, CrossDeviceContract,
    testing::Values(Implementation{"AllReduce", [] { return std::make_shared<AllReduceCrossDeviceOps>(); }},
                    Implementation{"AllReduceInPacks", [] { return std::make_shared<AllReduceCrossDeviceOps>(2); }},
                    Implementation{"AllReduceOneByOne", [] { return std::make_shared<AllReduceCrossDeviceOps>(0); }},
                    Implementation{"ReductionToOneDevice", [] { return std::make_shared<ReductionToOneDevice>(); }},
                    Implementation{
                        "ReductionByAFunction",
                        [] { return std::make_shared<ReductionToOneDevice>(Device{DeviceKind::cpu, 1}, &add_all); }},
                    Implementation{"UsersOps", [] { return std::make_shared<UsersOps>(); }, {{1}, {3}, {4}}}),
    [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace lockstep::test
