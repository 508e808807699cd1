// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Between host memory, where a model computes, and the device of its replica, where parameters are kept and gradients
// are added. On a CPU the two are one, and nothing is copied.

#pragma once

#include <lockstep/lockstep.hpp>

#include <optional>
#include <span>

namespace train {

/// An array of a device, as a model reads it.
class HostCopy {
 public:
  /// The elements of `array`, f32, in host memory: on a CPU where they are, of a GPU a copy, made when all that is on
  /// its stream is done, aligned to 64 bytes and good until the next call.
  [[nodiscard]] const float* read(const lockstep::ConstTensorView& array);

 private:
  std::optional<lockstep::Tensor> copy_;
};

/// An array that a model writes, and a device needs.
class StagedArray {
 public:
  /// Elements are zero; those in host memory are aligned to 64 bytes.
  StagedArray(lockstep::DType dtype, const lockstep::Shape& shape, lockstep::Device device);

  template <lockstep::Element T>
  [[nodiscard]] std::span<T> on_host() {
    return on_host_.elements<T>();
  }
  [[nodiscard]] lockstep::TensorView on_device() { return on_device_.view(); }
  /// Brings what has been written in host memory to the device.
  void send();
  /// What is on the device, in host memory.
  [[nodiscard]] lockstep::Tensor received() const { return on_device_.to(on_host_.device()); }

 private:
  lockstep::Tensor on_host_;
  lockstep::Tensor on_device_;
};

}  // namespace train
