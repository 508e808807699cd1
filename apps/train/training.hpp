// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "train/images.hpp"
#include "train/learner.hpp"
#include "train/options.hpp"
#include "train/report.hpp"

#include <lockstep/lockstep.hpp>

namespace train {

/// Trains and tests models of `make_model`, all of one kind. After a signal it saves the state and ends early, without
/// a test. Collective over the ranks of `strategy`.
[[nodiscard]] Summary train(lockstep::Strategy& strategy, const Options& options, const ModelMaker& make_model,
                            const Images& images, std::int64_t steps, Report& report);

}  // namespace train
