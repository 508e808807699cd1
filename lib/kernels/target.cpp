// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/target.hpp"

#include "base/check.hpp"

#include <hwy/targets.h>

#include <algorithm>
#include <cstdint>

namespace lockstep::detail {

std::vector<std::string_view> kernel_targets() {
  std::vector<std::string_view> names;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) names.emplace_back(hwy::TargetName(target));
  if (names.empty()) names.emplace_back(hwy::TargetName(HWY_STATIC_TARGET));
  return names;
}

std::vector<std::string_view> compiled_kernel_targets() {
  std::vector<std::string_view> names;
  // a target with a lower bit is better
  for (std::int64_t targets = HWY_TARGETS; targets != 0; targets &= targets - 1)
    names.emplace_back(hwy::TargetName(targets & -targets));
  return names;
}

std::string_view kernel_target() { return kernel_targets().front(); }

ForcedKernelTarget::ForcedKernelTarget(std::string_view name) {
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  const auto found = std::find_if(targets.begin(), targets.end(),
                                  [name](std::int64_t target) { return name == hwy::TargetName(target); });
  LOCKSTEP_CHECK(found != targets.end());
  hwy::SetSupportedTargetsForTest(*found);
}

ForcedKernelTarget::~ForcedKernelTarget() { hwy::SetSupportedTargetsForTest(0); }

}  // namespace lockstep::detail
