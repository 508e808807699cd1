// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What the tests of replicas on GPUs share. The GPUs are fakes whose memory the host cannot reach.

#pragma once

#include "support/fake_gpus.hpp"
#include "unit/strategy/strategies.hpp"

#include <lockstep/device/gpu.hpp>

#include <functional>
#include <string>
#include <vector>

namespace lockstep::test {

inline Device gpu(int index, int logical = 0) { return {DeviceKind::gpu, index, logical}; }

/// Two fake GPUs for each test.
class OnGpus : public testing::Test {
 protected:
  FakeGpus gpus_{{.devices = 2}};
};

/// Lists of devices that must not change results: one GPU, several, several replicas on one, hosts among them.
inline std::vector<std::vector<std::string>> gpu_layouts() {
  return {{"gpu:0", "gpu:1"}, {"gpu:0", "gpu:0#1"}, {"gpu:0", "gpu:1", "gpu:1#1"}, {"gpu:1", "cpu:0", "gpu:0"}};
}

/// `body(strategy)` for each of those.
inline void on_each_layout(const std::function<void(MirroredStrategy&)>& body) {
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

/// The elements, wherever they lie.
template <class T>
std::vector<T> elements_from(const Tensor& tensor) {
  return elements_of<T>(tensor.to(Device{}));
}

/// The elements of each copy of `variable`, wherever it lies.
template <class T>
std::vector<std::vector<T>> copies_from(const Variable& variable) {
  std::vector<std::vector<T>> result;
  for (int i = 0; i < variable.component_count(); ++i) result.push_back(elements_from<T>(variable.component(i)));
  return result;
}

/// Whether both are the same place: all CPUs are one.
inline bool same_place(Device a, Device b) { return a.kind == DeviceKind::cpu ? b.kind == DeviceKind::cpu : a == b; }

}  // namespace lockstep::test
