// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Shared by the tests of replicas on GPUs. The GPUs are fakes whose memory the host cannot access.

#pragma once

#include "support/fake_gpus.hpp"
#include "support/function_ref.hpp"
#include "unit/strategy/strategies.hpp"

#include <lockstep/device/gpu.hpp>

#include <string>
#include <vector>

namespace lockstep::test {

inline Device gpu(int index, int logical = 0) { return {DeviceKind::gpu, index, logical}; }

/// Two fake GPUs for each test.
class OnGpus : public testing::Test {
 protected:
  FakeGpus gpus_{{.devices = 2}};
};

/// Lists of devices that must give the same results: one GPU, several GPUs, several replicas on one, with hosts.
inline std::vector<std::vector<std::string>> gpu_layouts() {
  return {{"gpu:0", "gpu:1"}, {"gpu:0", "gpu:0#1"}, {"gpu:0", "gpu:1", "gpu:1#1"}, {"gpu:1", "cpu:0", "gpu:0"}};
}

/// Runs `body(strategy)` for each of these lists.
inline void on_each_layout(FunctionRef<void(MirroredStrategy&)> body) {
  for (const std::vector<std::string>& devices : gpu_layouts()) {
    std::string names;
    for (const std::string& device : devices) names += device + ' ';
    SCOPED_TRACE(names);
    MirroredStrategy strategy(devices);
    body(strategy);
  }
}

/// `elements` on the device of a replica.
template <class T>
Tensor tensor_of(const ReplicaContext& replica, const std::vector<T>& elements) {
  return Tensor::from(elements).to(replica.devices().front());
}

/// The elements of a tensor on any device.
template <class T>
std::vector<T> elements_from(const Tensor& tensor) {
  return elements_of<T>(tensor.to(Device{}));
}

/// The elements of each copy of `variable`, on any device.
template <class T>
std::vector<std::vector<T>> copies_from(const Variable& variable) {
  std::vector<std::vector<T>> result;
  for (int i = 0; i < variable.component_count(); ++i) result.push_back(elements_from<T>(variable.component(i)));
  return result;
}

/// Whether both have the same memory; all CPUs have.
inline bool same_place(Device a, Device b) { return a.kind == DeviceKind::cpu ? b.kind == DeviceKind::cpu : a == b; }

}  // namespace lockstep::test
