// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Between the place where a model computes and the device of its replica, where parameters are kept and gradients are
// added. Where the two are one, on a CPU or for a model on GPUs, nothing is copied.

#pragma once

#include <lockstep/lockstep.hpp>

#include <optional>

namespace train {

/// An array of a device, as a model on the host reads it.
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
  /// What is written at `place`, on `device` or a CPU. Elements are zero; those in host memory are aligned to 64 bytes.
  StagedArray(lockstep::DType dtype, const lockstep::Shape& shape, lockstep::Device place, lockstep::Device device);

  /// Where the model writes.
  [[nodiscard]] void* written() { return written_.data(); }
  [[nodiscard]] lockstep::TensorView on_device() { return on_device_.view(); }
  /// Brings what has been written to the device.
  void send();
  /// What is on the device, in host memory.
  [[nodiscard]] lockstep::Tensor received() const { return on_device_.to(lockstep::Device{}); }

 private:
  lockstep::Tensor written_;
  lockstep::Tensor on_device_;
};

}  // namespace train
