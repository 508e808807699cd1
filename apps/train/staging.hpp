// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies between the device on which a model computes and that of its replica, which has the parameters and reduces the
// gradients. If the two are the same, on a CPU or for a model on GPUs, nothing is copied.

#pragma once

#include <lockstep/lockstep.hpp>

#include <optional>

namespace train {

/// An array of a device, for a model that reads it on the host.
class HostCopy {
 public:
  /// The elements of `array`, f32, in host memory. On a CPU this is the array itself; on a GPU a copy, made after all
  /// work on its stream, aligned to 64 bytes and valid until the next call.
  [[nodiscard]] const float* read(const lockstep::ConstTensorView& array);

 private:
  std::optional<lockstep::Tensor> copy_;
};

/// An array that a model writes and that another device reads.
class StagedArray {
 public:
  /// `place` is where the model writes: `device` or a CPU. Elements are zero; those in host memory are aligned to 64
  /// bytes.
  StagedArray(lockstep::DType dtype, const lockstep::Shape& shape, lockstep::Device place, lockstep::Device device);

  /// Where the model writes.
  [[nodiscard]] void* written() { return written_.data(); }
  [[nodiscard]] lockstep::TensorView on_device() { return on_device_.view(); }
  /// Copies the array to the device.
  void send();
  /// A copy in host memory of the array on the device.
  [[nodiscard]] lockstep::Tensor received() const { return on_device_.to(lockstep::Device{}); }

 private:
  lockstep::Tensor written_;
  lockstep::Tensor on_device_;
};

}  // namespace train
